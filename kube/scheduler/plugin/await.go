package plugin

import (
	"context"
	"iter"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/resourceclaim"
	fwk "k8s.io/kube-scheduler/framework"
)

// This file is pods that wait for their claims. The scheduler's queue would ask of each pod that
// waits, for each claim that is made or written, whether it waits for that one: of n pods that come
// together n times n. Here a claim finds the pods that it is for.

// again is after which time it is looked again whether the inner plug-in knows a claim that there
// is: it is told by another goroutine.
const again = 10 * time.Millisecond

// awaits is the pods that are not bound and want devices, by UID.
type awaits struct {
	pods  map[types.UID]*v1.Pod
	gated map[types.UID]bool // of them, those that may be kept out of the queue for want of a claim
	polls map[types.UID]bool // that are looked at again
	// rounds is how often all are to be tried, lag apart, for what was given back
	rounds int
	// users are those of a claim, by its name
	users map[types.NamespacedName]map[types.UID]bool
}

func newAwaits() awaits {
	return awaits{pods: map[types.UID]*v1.Pod{}, gated: map[types.UID]bool{},
		polls: map[types.UID]bool{}, users: map[types.NamespacedName]map[types.UID]bool{}}
}

// namesOf are the claims of a pod whose names are known.
func namesOf(pod *v1.Pod) (list []types.NamespacedName) {
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err == nil && name != nil {
			list = append(list, types.NamespacedName{Namespace: pod.Namespace, Name: *name})
		}
	}
	return list
}

// wants reports whether a pod asks for devices: by claims, or as extended resources.
func wants(pod *v1.Pod) bool {
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name := range c.Resources.Requests {
			if strings.Contains(string(name), "/") {
				return true
			}
		}
	}
	return len(pod.Spec.ResourceClaims) > 0
}

// add notes a pod as it is now, as one that may be kept out.
func (a *awaits) add(pod *v1.Pod) {
	a.drop(pod.UID) // its claims may have had other names
	a.pods[pod.UID], a.gated[pod.UID] = pod, true
	for _, claim := range namesOf(pod) {
		if a.users[claim] == nil {
			a.users[claim] = map[types.UID]bool{}
		}
		a.users[claim][pod.UID] = true
	}
}

// renamed notes a pod that was noted, if its claims have other names now, as one that may be kept
// out: the claims may have been told before their names.
func (a *awaits) renamed(pod *v1.Pod) {
	if old := a.pods[pod.UID]; old != nil && !slices.Equal(namesOf(old), namesOf(pod)) {
		a.add(pod)
	}
}

// drop forgets a pod.
func (a *awaits) drop(uid types.UID) {
	pod := a.pods[uid]
	if pod == nil {
		return
	}
	delete(a.pods, uid)
	delete(a.gated, uid)
	for _, claim := range namesOf(pod) {
		if delete(a.users[claim], uid); len(a.users[claim]) == 0 {
			delete(a.users, claim)
		}
	}
}

// claimed is PreEnqueue of a pod's claims: whether all of them are there. That the pod waits is
// noted before it is looked, so that a claim which comes meanwhile finds it.
func (p *Plugin) claimed(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if !wants(pod) {
		return p.inner.PreEnqueue(ctx, pod)
	}
	p.mu.Lock()
	now := p.stored(pod) // the queue may be told later
	if now != nil && now.Spec.NodeName == "" {
		p.awaits.add(now)
	}
	p.mu.Unlock()
	late := now != nil && p.behind(now)
	status := p.inner.PreEnqueue(ctx, pod)
	if late {
		p.poll(pod.UID)
	}
	if !status.IsSuccess() {
		return status
	}
	p.mu.Lock()
	delete(p.awaits.gated, pod.UID)
	p.mu.Unlock()
	return nil
}

// stored is a pod as the server has it, as far as the informers know; nil where it is gone. What is
// noted of a pod is noted only if there is one, with p.mu held: the queue asks for some that are
// gone, of which nothing would be told again.
func (p *Plugin) stored(pod *v1.Pod) *v1.Pod {
	if p.handle == nil {
		return pod // of a what-if
	}
	now, err := p.handle.SharedInformerFactory().Core().V1().Pods().Lister().Pods(
		pod.Namespace).Get(pod.Name)
	if err != nil || now.UID != pod.UID {
		return nil
	}
	return now
}

// look has a pod tried that was kept out, once the inner plug-in knows its claims.
func (p *Plugin) look(uid types.UID) {
	p.mu.Lock()
	kept := p.awaits.gated[uid]
	p.mu.Unlock()
	if kept {
		p.bring(uid)
	}
}

// bring has a pod tried once the inner plug-in knows its claims.
func (p *Plugin) bring(uid types.UID) {
	p.mu.Lock()
	pod := p.awaits.pods[uid]
	p.mu.Unlock()
	if pod == nil {
		return
	}
	if pod = p.stored(pod); pod == nil {
		return
	}
	late := p.behind(pod)
	switch {
	case p.inner.PreEnqueue(context.Background(), pod).IsSuccess():
		p.tryAgain(map[string]*v1.Pod{string(uid): pod})
	case late:
		p.poll(uid)
	}
	// where nothing is late, what is missing leads here once it comes
}

// poll has a pod looked at again in a moment.
func (p *Plugin) poll(uid types.UID) {
	p.mu.Lock()
	polled := p.awaits.polls[uid]
	p.awaits.polls[uid] = true
	p.mu.Unlock()
	if polled {
		return
	}
	p.clock.AfterFunc(again, func() {
		p.mu.Lock()
		delete(p.awaits.polls, uid)
		p.mu.Unlock()
		p.bring(uid)
	})
}

// behind reports whether there is a claim of a pod that the inner plug-in does not know yet.
func (p *Plugin) behind(pod *v1.Pod) bool {
	there := p.handle.SharedInformerFactory().Resource().V1().ResourceClaims().Lister()
	for _, name := range namesOf(pod) {
		c, err := there.ResourceClaims(name.Namespace).Get(name.Name)
		if err != nil {
			continue
		}
		known, err := p.manager.SharedDRAManager.ResourceClaims().Get(name.Namespace, name.Name)
		if err != nil || known.UID != c.UID {
			return true
		}
	}
	return false
}

// stirs has pods tried that a claim may have kept from a place: that which it was made for, and
// those that use it, or all where it gave something back. One that is new may take the place of
// one that was deleted as its users were tried.
func (p *Plugin) stirs(before, now *resourceapi.ResourceClaim) {
	if before != nil && apiequality.Semantic.DeepEqual(&before.Status, &now.Status) {
		return
	}
	name := types.NamespacedName{Namespace: now.Namespace, Name: now.Name}
	p.mu.Lock()
	list := p.awaits.of(name, before != nil)
	p.mu.Unlock()
	for _, uid := range list {
		p.bring(uid)
	}
	if owner := metav1.GetControllerOf(now); owner != nil && owner.Kind == "Pod" &&
		!slices.Contains(list, owner.UID) {
		p.look(owner.UID)
	}
	switch {
	case before == nil:
	case before.Status.Allocation != nil && now.Status.Allocation == nil:
		p.frees()
	default:
		p.writes(name)
	}
}

// writes has the users of a claim tried. The inner plug-in may be told of it later, and nothing
// tells when it was.
func (p *Plugin) writes(claim types.NamespacedName) {
	for _, after := range []time.Duration{again, lag} {
		p.clock.AfterFunc(after, func() {
			p.mu.Lock()
			some := p.awaits.tried(claim)
			p.mu.Unlock()
			p.tryAgain(some)
		})
	}
}

// frees has all tried that wait, in a moment and once more when the inner plug-in was told what was
// given back; where much is, all of it together.
func (p *Plugin) frees() {
	p.mu.Lock()
	first := p.awaits.rounds == 0
	p.awaits.rounds = 2
	p.mu.Unlock()
	if first {
		p.clock.AfterFunc(again, p.round)
	}
}

// round has all tried that wait.
func (p *Plugin) round() {
	p.mu.Lock()
	p.awaits.rounds--
	more, some := p.awaits.rounds > 0, p.awaits.free(maps.Keys(p.awaits.pods))
	p.mu.Unlock()
	p.tryAgain(some)
	if more {
		p.clock.AfterFunc(lag, p.round)
	}
}

// of are the users of a claim, or those of them that may be kept out.
func (a *awaits) of(claim types.NamespacedName, kept bool) (list []types.UID) {
	for uid := range a.users[claim] {
		if !kept || a.gated[uid] {
			list = append(list, uid)
		}
	}
	return list
}

// tried are the users of a claim that are not kept out.
func (a *awaits) tried(claim types.NamespacedName) map[string]*v1.Pod {
	return a.free(maps.Keys(a.users[claim]))
}

// free are those of some pods that are not kept out.
func (a *awaits) free(of iter.Seq[types.UID]) map[string]*v1.Pod {
	some := map[string]*v1.Pod{}
	for uid := range of {
		if !a.gated[uid] {
			some[string(uid)] = a.pods[uid]
		}
	}
	return some
}
