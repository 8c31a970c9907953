package short

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/weirgpu/weir/kube/dra"
)

// Label is on the templates that are made here, and on no others.
const Label = "gpu.weir.dev/short"

// Options are what Run needs.
type Options struct {
	Client kubernetes.Interface
	// Every is how often what is no longer needed is looked for, and what failed is tried again.
	// Unused is how long a template that no waiting pod needs is kept.
	Every, Unused time.Duration
	Log           *slog.Logger
}

// Run makes templates for pods that wait for theirs until the context is done.
func Run(ctx context.Context, o Options) error {
	m := &maker{Options: o, told: map[string]string{}}
	f := informers.NewSharedInformerFactoryWithOptions(o.Client, 0,
		informers.WithTweakListOptions(func(l *metav1.ListOptions) {
			l.FieldSelector = "status.phase=Pending"
		}))
	pods := f.Core().V1().Pods().Informer()
	fresh := make(chan *v1.Pod, 256)
	if _, err := pods.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: func(p any) {
		select {
		case fresh <- p.(*v1.Pod):
		case <-ctx.Done():
		}
	}}); err != nil {
		return err
	}
	f.Start(ctx.Done())
	defer f.Shutdown()
	t := time.NewTicker(o.Every)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case p := <-fresh:
			m.warn(m.serve(ctx, p, time.Now()))
		case <-t.C:
			if pods.HasSynced() {
				m.warn(m.look(ctx, pods.GetStore().List(), time.Now()))
			}
		}
	}
}

type maker struct {
	Options
	told map[string]string // by a pod's UID: what it was last told
}

func (m *maker) warn(err error) {
	if err != nil {
		m.Log.Warn("templates for pods that ask by annotations", "error", err)
	}
}

// needs is what a pod asks for by annotations, if it waits for a claim of the template for that. A
// pod whose template has another name was given that by somebody else.
func needs(p *v1.Pod) (dra.Short, bool) {
	s, ok, err := dra.ParseShort(p.Annotations)
	if !ok || err != nil {
		return s, false // the policy refuses what is wrong
	}
	for _, c := range p.Status.ResourceClaimStatuses {
		if c.Name == dra.ShortClaim {
			return s, false
		}
	}
	for _, c := range p.Spec.ResourceClaims {
		if c.Name == dra.ShortClaim && c.ResourceClaimTemplateName != nil {
			return s, *c.ResourceClaimTemplateName == s.Template()
		}
	}
	return s, false
}

// serve makes the template that a pod waits for. What the server refuses, the pod is told.
func (m *maker) serve(ctx context.Context, p *v1.Pod, now time.Time) error {
	s, ok := needs(p)
	if !ok {
		return nil
	}
	t, err := template(s)
	if err != nil {
		return fmt.Errorf("pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	_, err = m.Client.ResourceV1().ResourceClaimTemplates(p.Namespace).Create(ctx, t,
		metav1.CreateOptions{})
	switch {
	case err == nil || apierrors.IsAlreadyExists(err):
		return nil
	case apierrors.IsInvalid(err) || apierrors.IsForbidden(err):
		return m.tell(ctx, p, err.Error(), now)
	}
	return err
}

// look serves all pods that wait, and deletes templates that none of them needs.
func (m *maker) look(ctx context.Context, pods []any, now time.Time) error {
	needed, told := map[string]bool{}, map[string]string{}
	for _, o := range pods {
		p := o.(*v1.Pod)
		s, ok := needs(p)
		if !ok {
			continue
		}
		needed[p.Namespace+"/"+s.Template()] = true
		told[string(p.UID)] = m.told[string(p.UID)]
	}
	m.told = told
	for _, o := range pods {
		if err := m.serve(ctx, o.(*v1.Pod), now); err != nil {
			return err
		}
	}
	all, err := m.Client.ResourceV1().ResourceClaimTemplates("").List(ctx, metav1.ListOptions{
		LabelSelector: Label})
	if err != nil {
		return err
	}
	for i := range all.Items {
		t := &all.Items[i]
		if needed[t.Namespace+"/"+t.Name] || now.Sub(t.CreationTimestamp.Time) < m.Unused {
			continue
		}
		err := m.Client.ResourceV1().ResourceClaimTemplates(t.Namespace).Delete(ctx, t.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &t.UID}})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return err
		}
	}
	return nil
}

// template is that of claims for what is asked for.
func template(s dra.Short) (*resourceapi.ResourceClaimTemplate, error) {
	amounts := map[resourceapi.QualifiedName]resource.Quantity{}
	for name, text := range map[resourceapi.QualifiedName]string{dra.CapacityMemory: s.Memory,
		dra.CapacityCompute: s.Compute} {
		if text == "" {
			continue
		}
		q, err := resource.ParseQuantity(text)
		if err != nil {
			return nil, fmt.Errorf("%s %q: %w", name, text, err)
		}
		amounts[name] = q
	}
	r := &resourceapi.ExactDeviceRequest{DeviceClassName: dra.DriverName}
	if len(amounts) > 0 {
		r.Capacity = &resourceapi.CapacityRequirements{Requests: amounts}
	}
	t := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Name: s.Template(),
		Labels: map[string]string{Label: ""}}}
	t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "gpu", Exactly: r}}
	if raw := s.Parameters(); raw != nil {
		t.Spec.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{
			DeviceConfiguration: resourceapi.DeviceConfiguration{
				Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: dra.DriverName,
					Parameters: runtime.RawExtension{Raw: raw}}}}}
	}
	return t, nil
}

// tell leaves an event of a pod, unless it was told the same before.
func (m *maker) tell(ctx context.Context, p *v1.Pod, text string, now time.Time) error {
	if m.told[string(p.UID)] == text {
		return nil
	}
	at := metav1.NewTime(now)
	_, err := m.Client.CoreV1().Events(p.Namespace).Create(ctx, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%.200s.weir.%x", p.Name, now.UnixNano()),
			Namespace: p.Namespace},
		InvolvedObject: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name,
			Namespace: p.Namespace, UID: p.UID},
		Type: v1.EventTypeWarning, Reason: "WeirRefused", Message: text, Count: 1,
		FirstTimestamp: at, LastTimestamp: at, Source: v1.EventSource{Component: dra.DriverName},
	}, metav1.CreateOptions{})
	if err == nil {
		m.told[string(p.UID)] = text
	}
	return err
}
