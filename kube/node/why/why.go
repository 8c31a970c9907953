package why

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/share"
)

// Options are what Run needs.
type Options struct {
	Client kubernetes.Interface
	// Every is how often pods are looked at, Again how long an event stands for before the same is
	// said once more.
	Every, Again time.Duration
	Log          *slog.Logger
}

// Run looks at the pods that wait until the context is done. What cannot be read is tried again.
func Run(ctx context.Context, o Options) error {
	w := watcher{Options: o, told: map[string]told{}}
	t := time.NewTicker(o.Every)
	defer t.Stop()
	for {
		if err := w.look(ctx, time.Now()); err != nil && ctx.Err() == nil {
			o.Log.Warn("pods that wait", "error", err)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.C:
		}
	}
}

// told is what was said of a pod, and when.
type told struct {
	text string
	at   time.Time
}

type watcher struct {
	Options
	told map[string]told // by UID
}

// look says of each pod that waits for a device why, unless that was said lately.
func (w *watcher) look(ctx context.Context, now time.Time) error {
	pods, err := w.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{
		FieldSelector: "status.phase=Pending"})
	if err != nil {
		return err
	}
	var waiting []*v1.Pod
	seen := map[string]told{}
	for i := range pods.Items {
		p := &pods.Items[i]
		if unschedulable(p) && len(p.Spec.ResourceClaims) > 0 {
			waiting = append(waiting, p)
			seen[string(p.UID)] = w.told[string(p.UID)]
		}
	}
	w.told = seen
	if len(waiting) == 0 {
		return nil
	}
	claims, all, err := w.stock(ctx)
	if err != nil {
		return err
	}
	for _, p := range waiting {
		reason, text := why(p, claims, all)
		before := w.told[string(p.UID)]
		if reason == "" || text == before.text && now.Sub(before.at) < w.Again {
			continue
		}
		if err := w.tell(ctx, p, reason, text, now); err != nil {
			return err
		}
		w.told[string(p.UID)] = told{text, now}
	}
	return nil
}

// unschedulable reports whether the scheduler has found no node.
func unschedulable(p *v1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == v1.PodScheduled {
			return c.Status == v1.ConditionFalse && c.Reason == v1.PodReasonUnschedulable
		}
	}
	return false
}

// stock reads the claims of the cluster, by namespace and name, and its devices with what is free.
func (w *watcher) stock(ctx context.Context) (map[string]*resourceapi.ResourceClaim, []dra.Stock,
	error) {
	claims, err := w.Client.ResourceV1().ResourceClaims("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, nil, err
	}
	slices, err := w.Client.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
		FieldSelector: resourceapi.ResourceSliceSelectorDriver + "=" + dra.DriverName})
	if err != nil {
		return nil, nil, err
	}
	byName := map[string]*resourceapi.ResourceClaim{}
	for i := range claims.Items {
		c := &claims.Items[i]
		byName[c.Namespace+"/"+c.Name] = c
	}
	return byName, stockOf(slices.Items, claims.Items), nil
}

// stockOf is what slices have, less what claims were given.
func stockOf(slices []resourceapi.ResourceSlice, claims []resourceapi.ResourceClaim) []dra.Stock {
	memory, compute := map[string]int64{}, map[string]int64{}
	for i := range claims {
		a := claims[i].Status.Allocation
		for k := 0; a != nil && k < len(a.Devices.Results); k++ {
			r := &a.Devices.Results[k]
			if r.Driver == dra.DriverName && (r.AdminAccess == nil || !*r.AdminAccess) {
				m, c := r.ConsumedCapacity[dra.CapacityMemory],
					r.ConsumedCapacity[dra.CapacityCompute]
				memory[r.Pool+"/"+r.Device] += m.Value()
				compute[r.Pool+"/"+r.Device] += c.MilliValue()
			}
		}
	}
	var all []dra.Stock
	for i := range slices {
		s := &slices[i].Spec
		for k := 0; s.Driver == dra.DriverName && k < len(s.Devices); k++ {
			d := &s.Devices[k]
			m, id := d.Capacity[dra.CapacityMemory], s.Pool.Name+"/"+d.Name
			kind := d.Attributes["type"].StringValue
			v := dra.Stock{Node: s.Pool.Name, Device: d.Name, CPU: kind != nil && *kind == "cpu",
				Memory: share.Bytes(m.Value.Value()), Left: dra.Whole - int(compute[id])}
			v.Free = v.Memory - share.Bytes(memory[id])
			for _, t := range d.Taints {
				v.Sick = t.Key
			}
			all = append(all, v)
		}
	}
	return all
}

// why is what to say of a pod: of the first request that has no device. Classes of others may
// choose devices in ways that are not known here: nothing is said of those.
func why(p *v1.Pod, claims map[string]*resourceapi.ResourceClaim, all []dra.Stock) (reason,
	text string) {
	for _, name := range claimNames(p) {
		c := claims[p.Namespace+"/"+name]
		if c == nil || c.Status.Allocation != nil {
			continue
		}
		for i := range c.Spec.Devices.Requests {
			r := &c.Spec.Devices.Requests[i]
			if r.Exactly == nil || r.Exactly.DeviceClassName != dra.DriverName &&
				r.Exactly.DeviceClassName != dra.CPUClass {
				continue
			}
			if reason, text := wantOf(r.Exactly, all).Why(all); reason != "" {
				return reason, fmt.Sprintf("claim %s, request %s: %s", name, r.Name, text)
			}
		}
	}
	return "", ""
}

// claimNames are the names of a pod's claims, as far as they are there.
func claimNames(p *v1.Pod) (all []string) {
	for _, c := range p.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			all = append(all, *c.ResourceClaimName)
		}
	}
	for _, s := range p.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			all = append(all, *s.ResourceClaimName)
		}
	}
	return all
}

// wantOf is what a request asks for; one that names no memory asks for a whole device, of which the
// smallest is the easiest to have.
func wantOf(r *resourceapi.ExactDeviceRequest, all []dra.Stock) dra.Want {
	w := dra.Want{CPU: r.DeviceClassName == dra.CPUClass}
	named := false
	if r.Capacity != nil {
		var m resource.Quantity
		m, named = r.Capacity.Requests[dra.CapacityMemory]
		c := r.Capacity.Requests[dra.CapacityCompute]
		w.Memory, w.Compute = share.Bytes(m.Value()), int(c.MilliValue())
	}
	for i := range all {
		if s := &all[i]; !named && s.CPU == w.CPU && (w.Memory == 0 || s.Memory < w.Memory) {
			w.Memory = s.Memory
		}
	}
	return w
}

// tell leaves an event of a pod.
func (w *watcher) tell(ctx context.Context, p *v1.Pod, reason, text string, now time.Time) error {
	at := metav1.NewTime(now)
	_, err := w.Client.CoreV1().Events(p.Namespace).Create(ctx, &v1.Event{
		ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("%.200s.weir.%x", p.Name, now.UnixNano()),
			Namespace: p.Namespace},
		InvolvedObject: v1.ObjectReference{Kind: "Pod", APIVersion: "v1", Name: p.Name,
			Namespace: p.Namespace, UID: p.UID},
		Type: v1.EventTypeWarning, Reason: reason, Message: text, Count: 1,
		FirstTimestamp: at, LastTimestamp: at, Source: v1.EventSource{Component: dra.DriverName},
	}, metav1.CreateOptions{})
	return err
}
