package plugin

import (
	"math"
	"strings"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/client-go/tools/cache"
	resourcehelper "k8s.io/component-helpers/resource"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// watch has informers tell of all that is counted.
func (p *Plugin) watch() error {
	f := p.handle.SharedInformerFactory()
	core, devices := f.Core().V1(), f.Resource().V1()
	for _, w := range []struct {
		informer cache.SharedIndexInformer
		handler  cache.ResourceEventHandler
	}{
		{core.Nodes().Informer(), handlerOf(p, p.nodeIs, p.nodeGone)},
		{core.Pods().Informer(), handlerOf(p, p.podIs, p.podGone)},
		{devices.ResourceSlices().Informer(), handlerOf(p, p.sliceIs, p.sliceGone)},
		{devices.ResourceClaims().Informer(), handlerOf(p, p.claimIs, p.claimGone)},
		{devices.DeviceClasses().Informer(), handlerOf(p, p.classIs, p.classIs)},
	} {
		registration, err := w.informer.AddEventHandler(w.handler)
		if err != nil {
			return err
		}
		p.synced = append(p.synced, registration.HasSynced)
	}
	return nil
}

// handlerOf calls is for what an object is now, and gone when there is none any more.
func handlerOf[T any](p *Plugin, is, gone func(*T)) cache.ResourceEventHandler {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { p.told(func() { is(o.(*T)) }) },
		UpdateFunc: func(_, o any) { p.told(func() { is(o.(*T)) }) },
		DeleteFunc: func(o any) {
			if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = d.Obj
			}
			if t, ok := o.(*T); ok {
				p.told(func() { gone(t) })
			}
		},
	}
}

// classIs notes that a class of devices has changed.
func (p *Plugin) classIs(*resourceapi.DeviceClass) {
	p.mu.Lock()
	p.changed++
	p.mu.Unlock()
}

func podKey(uid string) string  { return "pod/" + uid }
func seatKey(uid string) string { return "seat/" + uid }

// uidOf is the UID in a key.
func uidOf(key string) string { _, uid, _ := strings.Cut(key, "/"); return uid }

// podIs notes a pod.
func (p *Plugin) podIs(pod *v1.Pod) {
	if pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed {
		p.podGone(pod)
		return
	}
	if pod.Spec.NodeName == "" {
		p.mu.Lock()
		p.awaits.renamed(pod)
		p.mu.Unlock()
		p.look(pod.UID)
		return
	}
	p.mu.Lock()
	p.running[string(pod.UID)] = pod
	p.live.Hold(holderOfPod(pod, pod.Spec.NodeName))
	p.bound(pod)
	p.mu.Unlock()
}

// holderOfPod is what a pod holds of a node beside claims.
func holderOfPod(pod *v1.Pod, node string) live.Holder {
	r := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{
		UseStatusResources: true})
	h := live.Holder{Key: podKey(string(pod.UID)), Node: node, Owner: string(pod.UID),
		Priority: corev1helpers.PodPriority(pod), Parts: []live.Part{{Request: place.Request{
			CPU: r.Cpu().MilliValue(), Memory: r.Memory().Value()}}}}
	if pod.DeletionTimestamp != nil {
		h.Priority = math.MaxInt32 // it goes already
	}
	return h
}

// podGone notes that a pod has nothing any more.
func (p *Plugin) podGone(pod *v1.Pod) {
	uid := string(pod.UID)
	p.mu.Lock()
	kept := p.live.Drop(podKey(uid))
	p.live.Withdraw(seatKey(uid))
	delete(p.pods, uid)
	delete(p.running, uid)
	delete(p.refused, uid)
	p.awaits.drop(pod.UID)
	rejected := p.leaves(pod)
	p.mu.Unlock()
	p.fairness.Lock()
	p.fair.Gone(uid)
	p.fairness.Unlock()
	p.reject(rejected)
	p.activate(kept)
}

func (p *Plugin) log() klog.Logger { return klog.Background().WithName(Name) }
