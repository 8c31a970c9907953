package plugin

import (
	"context"
	"errors"
	"slices"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/helper"

	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// PreFilter implements fwk.PreFilterPlugin: it chooses. Where no other plug-in can have a say in it
// there is one node; else all that fit, in the policy's order, which Score keeps.
func (p *Plugin) PreFilter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo) (*fwk.PreFilterResult, *fwk.Status) {
	if status := p.waitForSync(ctx); status != nil {
		return nil, status
	}
	d, err := p.demandOf(pod)
	if err != nil {
		return nil, fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	s := &state{demand: d}
	cs.Write(stateKey, s)
	var choices []live.Choice
	if !d.foreign {
		choices, err = p.choose(s, pod)
		if errors.Is(err, place.ErrNoRoom) && d.Count == 0 && gangOf(pod).name == "" {
			choices, err = nil, nil // for others to say why, and to preempt
		}
		if err != nil {
			s.refusal = err.Error()
			p.refuses(pod)
			return nil, refusal(err)
		}
	}
	return p.narrowed(ctx, cs, pod, nodes, choices)
}

// refusal is the status of a pod that has no place.
func refusal(err error) *fwk.Status {
	if errors.Is(err, place.ErrNoRoom) || errors.As(err, new(gangError)) {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, err.Error())
	}
	return fwk.AsStatus(err)
}

// narrowed has the inner plug-in prepare to allocate what was chosen.
func (p *Plugin) narrowed(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	nodes []fwk.NodeInfo, choices []live.Choice) (*fwk.PreFilterResult, *fwk.Status) {
	s := stateOf(cs)
	if choices != nil && s.Count > 0 {
		p.manager.show(choices)
		defer p.manager.show(nil)
	}
	result, status := p.inner.PreFilter(ctx, cs, pod, nodes)
	s.inner = !status.IsSkip()
	if !status.IsSuccess() && !status.IsSkip() {
		return nil, status.WithPlugin("")
	}
	if choices == nil {
		return result, nil
	}
	names := make(sets.Set[string], len(choices))
	s.chosen = make(map[string]int, len(choices))
	for i, c := range choices {
		names.Insert(c.Node)
		s.chosen[c.Node] = i
	}
	return result.Merge(&fwk.PreFilterResult{NodeNames: names}), nil
}

// choose returns where a pod may go, the best first.
func (p *Plugin) choose(s *state, pod *v1.Pod) ([]live.Choice, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	uid := string(pod.UID)
	if p.pods[uid] == nil {
		p.live.Saw(s.Request)
	}
	if p.stored(pod) != nil {
		p.pods[uid] = pod
	}
	if g := gangOf(pod); g.name != "" {
		if err := p.seatGang(g, pod); err != nil {
			return nil, err
		}
	}
	if h, ok := p.live.Held(seatKey(uid)); ok {
		s.single = true
		return []live.Choice{{Node: h.Node, Devices: h.Parts[0].Devices}}, nil
	}
	allow := p.allowed(pod, s.demand)
	if plain(pod) && len(p.refused[uid]) == 0 {
		c, err := p.live.Choose(s.Request, allow)
		s.single = err == nil
		return []live.Choice{c}, err
	}
	choices, err := p.live.Rank(s.Request, allow)
	if err == nil && len(choices) == 0 {
		_, err = p.live.Choose(s.Request, allow)
	}
	return choices, err
}

// plain reports whether nothing but its size, the node's taints and labels, and its claims decides
// where a pod can go. Anti-affinity of other pods may yet: then it is tried again with all nodes.
func plain(pod *v1.Pod) bool {
	a := pod.Spec.Affinity
	if a != nil && (a.PodAffinity != nil || a.PodAntiAffinity != nil) ||
		len(pod.Spec.TopologySpreadConstraints) > 0 || pod.Spec.NodeName != "" {
		return false
	}
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		if v.PersistentVolumeClaim != nil || v.Ephemeral != nil || v.CSI != nil ||
			v.GCEPersistentDisk != nil || v.AWSElasticBlockStore != nil || v.ISCSI != nil ||
			v.RBD != nil {
			return false
		}
	}
	for _, c := range slices.Concat(pod.Spec.InitContainers, pod.Spec.Containers) {
		for name := range c.Resources.Requests {
			if name != v1.ResourceCPU && name != v1.ResourceMemory {
				return false
			}
		}
		if slices.ContainsFunc(c.Ports, func(p v1.ContainerPort) bool { return p.HostPort != 0 }) {
			return false
		}
	}
	return true
}

// allowed is which nodes a pod may go to by labels, taints and selectors of its claims; nil: all.
func (p *Plugin) allowed(pod *v1.Pod, d *demand) live.Allow {
	labelled := len(pod.Spec.NodeSelector) > 0 ||
		pod.Spec.Affinity != nil && pod.Spec.Affinity.NodeAffinity != nil
	var some []*selection
	for _, k := range d.chosenBy {
		if k.none > 0 {
			some = append(some, p.selected(k.expressions))
		}
	}
	if !labelled && len(p.tainted) == 0 && len(some) == 0 && d.node == "" {
		return nil
	}
	affinity := nodeaffinity.GetRequiredNodeAffinity(pod)
	return func(name string) bool {
		if d.node != "" && d.node != name {
			return false
		}
		for _, k := range some {
			if k.verdicts[name] != all {
				return false
			}
		}
		n := p.nodes[name]
		if n == nil || p.tainted[name] && !tolerated(n, pod) {
			return false
		}
		ok, err := affinity.Match(n)
		return !labelled || err == nil && ok
	}
}

// tolerated reports whether a pod may go to a node with its taints.
func tolerated(n *v1.Node, pod *v1.Pod) bool {
	cordon := v1.Taint{Key: v1.TaintNodeUnschedulable, Effect: v1.TaintEffectNoSchedule}
	taints := n.Spec.Taints
	if n.Spec.Unschedulable {
		taints = append(slices.Clone(taints), cordon)
	}
	_, not := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), taints,
		pod.Spec.Tolerations, helper.DoNotScheduleTaintsFilterFunc(), true)
	return !not
}

// PreFilterExtensions implements fwk.PreFilterPlugin.
func (p *Plugin) PreFilterExtensions() fwk.PreFilterExtensions { return nil }

// Filter implements fwk.FilterPlugin.
func (p *Plugin) Filter(ctx context.Context, cs fwk.CycleState, pod *v1.Pod,
	node fwk.NodeInfo) *fwk.Status {
	s := stateOf(cs)
	if s == nil {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable, "not chosen")
	}
	if _, ok := s.chosen[node.Node().Name]; s.chosen != nil && !ok {
		return fwk.NewStatus(fwk.UnschedulableAndUnresolvable,
			"node(s) did not have the devices free")
	}
	if !s.inner {
		return nil
	}
	return p.inner.Filter(ctx, cs, pod, node)
}

// Score implements fwk.ScorePlugin: how far down a node is in the policy's order, below zero.
func (p *Plugin) Score(_ context.Context, cs fwk.CycleState, _ *v1.Pod, node fwk.NodeInfo) (int64,
	*fwk.Status) {
	if s := stateOf(cs); s != nil {
		return -int64(s.chosen[node.Node().Name]), nil
	}
	return 0, nil
}

// ScoreExtensions implements fwk.ScorePlugin.
func (p *Plugin) ScoreExtensions() fwk.ScoreExtensions { return p }

// NormalizeScore implements fwk.ScoreExtensions: the best node that passed all filters has the
// highest score, and no other has it. So that the plug-in decides and the stock scheduler has no
// equals to draw from, its weight must be above what all others' scores come to.
func (p *Plugin) NormalizeScore(_ context.Context, cs fwk.CycleState, _ *v1.Pod,
	scores fwk.NodeScoreList) *fwk.Status {
	if s := stateOf(cs); s == nil || s.chosen == nil {
		return nil
	}
	order := make([]int, len(scores))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return int(scores[b].Score - scores[a].Score) })
	for rank, i := range order {
		scores[i].Score = max(0, fwk.MaxNodeScore-int64(rank))
	}
	return nil
}
