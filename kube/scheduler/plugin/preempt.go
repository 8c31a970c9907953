package plugin

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	fwk "k8s.io/kube-scheduler/framework"
)

// PostFilter implements fwk.PostFilterPlugin: opportunistic claims of lower priority give way. What
// their pods leave is kept for the pod, and it is tried again when the last of them is gone.
func (p *Plugin) PostFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	nodes fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	s := stateOf(cs)
	if s == nil {
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	if s.single && s.chosen != nil {
		p.refuse(s, pod)
		return nil, fwk.NewStatus(fwk.Unschedulable, "another plug-in refused the node")
	}
	if s.refusal == "" || s.Count == 0 || gangOf(pod).name != "" ||
		pod.Spec.PreemptionPolicy != nil && *pod.Spec.PreemptionPolicy == v1.PreemptNever {
		if s.inner {
			return p.inner.PostFilter(ctx, cs, pod, nodes)
		}
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	node, victims, err := p.victims(s, pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.Unschedulable, err.Error())
	}
	if err := p.evict(ctx, pod, node, victims); err != nil {
		p.mu.Lock()
		p.live.Withdraw(seatKey(string(pod.UID)))
		p.mu.Unlock()
		return nil, fwk.AsStatus(err)
	}
	return &fwk.PostFilterResult{NominatingInfo: &fwk.NominatingInfo{NominatedNodeName: node,
		NominatingMode: fwk.ModeOverride}}, nil
}

// refuse notes that a node that was chosen is not for a pod, and has it tried again at once: with
// all nodes, or with its gang on others.
func (p *Plugin) refuse(s *state, pod *v1.Pod) {
	uid := string(pod.UID)
	p.mu.Lock()
	if p.refused[uid] == nil {
		p.refused[uid] = map[string]bool{}
	}
	for node := range s.chosen {
		p.refused[uid][node] = true
	}
	p.live.Withdraw(seatKey(uid))
	r := p.loses(pod, "another plug-in refused a node to a member")
	p.mu.Unlock()
	p.reject(r)
	p.tryAgain(map[string]*v1.Pod{pod.Namespace + "/" + pod.Name: pod})
}

// victims chooses who has to go for a pod, and keeps for it what they will leave.
func (p *Plugin) victims(s *state, pod *v1.Pod) (node string, victims []string, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := seatKey(string(pod.UID))
	if node, ok := p.live.Promised(key); ok {
		return "", nil, fmt.Errorf("waits for pods on node %s to end, which were told to", node)
	}
	choice, victims, err := p.live.Preempt(s.Request, corev1helpers.PodPriority(pod),
		p.allowed(pod, s.demand))
	if err != nil {
		return "", nil, err
	}
	p.live.Promise(key, s.Request, choice.Node, victims)
	return choice.Node, victims, nil
}

// evict deletes pods, as upstream's preemption does, with an event on each.
func (p *Plugin) evict(ctx context.Context, by *v1.Pod, node string, uids []string) error {
	for _, uid := range uids {
		p.mu.Lock()
		pod := p.running[uid]
		p.mu.Unlock()
		if pod == nil {
			return fmt.Errorf("pod %s, which is to go, is not known to be on its node yet", uid)
		}
		p.handle.EventRecorder().WithLogger(p.log()).Eventf(pod, by, v1.EventTypeNormal,
			"Preempted", "Preempting", "Preempted by pod %s/%s on node %s: its claims are "+
				"opportunistic", by.Namespace, by.Name, node)
		err := p.handle.ClientSet().CoreV1().Pods(pod.Namespace).Delete(ctx, pod.Name,
			metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return err
		}
	}
	return nil
}
