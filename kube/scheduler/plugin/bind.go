package plugin

import (
	"context"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"
)

// Reserve implements fwk.ReservePlugin: from now on the pod has what it was given.
func (p *Plugin) Reserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	node string) *fwk.Status {
	p.mu.Lock()
	p.live.Withdraw(seatKey(string(pod.UID)))
	p.live.Hold(holderOfPod(pod, node))
	p.mu.Unlock()
	if s := stateOf(cs); s != nil && s.inner {
		return p.inner.Reserve(ctx, cs, pod, node)
	}
	return nil
}

// Unreserve implements fwk.ReservePlugin. The gang of a pod that loses its seat loses all of them.
func (p *Plugin) Unreserve(ctx context.Context, cs fwk.CycleState, pod *v1.Pod, node string) {
	if s := stateOf(cs); s != nil && s.inner {
		p.inner.Unreserve(ctx, cs, pod, node)
	}
	p.mu.Lock()
	kept := p.live.Drop(podKey(string(pod.UID)))
	rejected := p.loses(pod, "a member lost its place")
	p.mu.Unlock()
	p.reject(rejected)
	p.activate(kept)
}

// PreBindPreFlight implements fwk.PreBindPlugin.
func (p *Plugin) PreBindPreFlight(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	node string) (*fwk.PreBindPreFlightResult, *fwk.Status) {
	if s := stateOf(cs); s == nil || !s.inner {
		return nil, fwk.NewStatus(fwk.Skip)
	}
	return p.inner.PreBindPreFlight(ctx, cs, pod, node)
}

// PreBind implements fwk.PreBindPlugin.
func (p *Plugin) PreBind(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	node string) *fwk.Status {
	if s := stateOf(cs); s == nil || !s.inner {
		return nil
	}
	return p.inner.PreBind(ctx, cs, pod, node)
}

// PostBind implements fwk.PostBindPlugin.
func (p *Plugin) PostBind(_ context.Context, _ fwk.CycleState, pod *v1.Pod, _ string) {
	p.mu.Lock()
	p.bound(pod)
	p.mu.Unlock()
}

// bound notes that a pod is on its node for good.
func (p *Plugin) bound(pod *v1.Pod) {
	uid := string(pod.UID)
	delete(p.pods, uid)
	delete(p.refused, uid)
	p.awaits.drop(pod.UID)
	p.live.Withdraw(seatKey(uid))
	p.joined(pod)
	p.fairness.Lock()
	p.fair.Served(uid)
	p.fairness.Unlock()
}
