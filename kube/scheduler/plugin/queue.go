package plugin

import (
	"cmp"
	"context"
	"slices"

	v1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/weirgpu/weir/kube/place"
)

// PreEnqueue implements fwk.PreEnqueuePlugin: a pod waits until its claims are there, and one of a
// gang until all of that are.
func (p *Plugin) PreEnqueue(ctx context.Context, pod *v1.Pod) *fwk.Status {
	if status := p.claimed(ctx, pod); !status.IsSuccess() {
		return status
	}
	p.tag(pod)
	g := gangOf(pod)
	if g.err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, g.err.Error())
	}
	if g.name == "" {
		return nil
	}
	p.mu.Lock()
	if p.stored(pod) == nil {
		p.mu.Unlock()
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "the pod is deleted")
	}
	others, err := p.arrives(g, pod)
	p.mu.Unlock()
	p.tryAgain(others)
	if err != nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return nil
}

// coresPerDevice is what CPU counts as much as a device for fairness: about what nodes of the
// published traces have.
const coresPerDevice = 16

// tag gives a pod its turn.
func (p *Plugin) tag(pod *v1.Pod) float64 {
	uid, weight := string(pod.UID), p.args.Weights[pod.Namespace]
	if weight == 0 {
		weight = 1
	}
	var r place.Request
	if d, err := p.demandOf(pod); err == nil {
		r = d.Request
	}
	cost := max(float64(r.TotalUnits())/place.Whole, float64(r.CPU)/1000/coresPerDevice, 1e-3)
	p.fairness.Lock()
	defer p.fairness.Unlock()
	return p.fair.Tag(uid, pod.Namespace, cost, weight)
}

// turn returns a pod's tag.
func (p *Plugin) turn(pod *v1.Pod) float64 {
	p.fairness.Lock()
	defer p.fairness.Unlock()
	return p.fair.Tag(string(pod.UID), pod.Namespace, 1, 1)
}

// Less implements fwk.QueueSortPlugin: higher priorities first, then whose turn it is, then who
// came first.
func (p *Plugin) Less(a, b fwk.QueuedPodInfo) bool {
	x, y := a.GetPodInfo().GetPod(), b.GetPodInfo().GetPod()
	if c := cmp.Compare(corev1helpers.PodPriority(x), corev1helpers.PodPriority(y)); c != 0 {
		return c > 0
	}
	if c := cmp.Compare(p.turn(x), p.turn(y)); c != 0 {
		return c < 0
	}
	if c := a.GetTimestamp().Compare(b.GetTimestamp()); c != 0 {
		return c < 0
	}
	return x.UID < y.UID
}

// EventsToRegister implements fwk.EnqueueExtensions: what may give a place to a pod that had none,
// but for claims that are made or written (await.go).
func (p *Plugin) EventsToRegister(ctx context.Context) ([]fwk.ClusterEventWithHint, error) {
	events, err := p.inner.EventsToRegister(ctx)
	events = slices.DeleteFunc(events, func(e fwk.ClusterEventWithHint) bool {
		return e.Event.Resource == fwk.ResourceClaim
	})
	return append(events,
		fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Pod,
			ActionType: fwk.Delete | fwk.UpdatePodScaleDown}},
		fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.Node,
			ActionType: fwk.Add | fwk.UpdateNodeAllocatable | fwk.UpdateNodeTaint |
				fwk.UpdateNodeLabel}},
		fwk.ClusterEventWithHint{Event: fwk.ClusterEvent{Resource: fwk.ResourceClaim,
			ActionType: fwk.Delete}}), err
}
