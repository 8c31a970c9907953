package plugin

import (
	"cmp"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// inventory is what the cluster has been told of: nodes and the slices of their devices.
type inventory struct {
	nodes  map[string]*v1.Node
	slices map[string]map[string]*resourceapi.ResourceSlice // by node and name
	pools  map[string]string                                // the node of a pool
	others map[string]*resourceapi.ResourceSlice            // other drivers', by name
	// tainted counts nodes that some pods may not go to.
	tainted map[string]bool
}

func newInventory() inventory {
	return inventory{nodes: map[string]*v1.Node{}, tainted: map[string]bool{},
		slices: map[string]map[string]*resourceapi.ResourceSlice{}, pools: map[string]string{},
		others: map[string]*resourceapi.ResourceSlice{}}
}

// nodeIs notes a node, and nodeGone that it is no more.
func (p *Plugin) nodeIs(n *v1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if old := p.nodes[n.Name]; old == nil || !alike(old, n) {
		p.changed++
	}
	p.nodes[n.Name] = n
	if taints(n) {
		p.tainted[n.Name] = true
	} else {
		delete(p.tainted, n.Name)
	}
	p.refresh(n.Name)
}

func (p *Plugin) nodeGone(n *v1.Node) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.nodes, n.Name)
	delete(p.tainted, n.Name)
	p.selectors.changed(n.Name)
	p.refresh(n.Name)
}

// alike reports whether two states of a node are for the same pods.
func alike(a, b *v1.Node) bool {
	return a.Spec.Unschedulable == b.Spec.Unschedulable && maps.Equal(a.Labels, b.Labels) &&
		slices.EqualFunc(a.Spec.Taints, b.Spec.Taints, func(s, t v1.Taint) bool {
			return s.Key == t.Key && s.Value == t.Value && s.Effect == t.Effect
		})
}

// taints reports whether a node is not for every pod.
func taints(n *v1.Node) bool {
	return n.Spec.Unschedulable || slices.ContainsFunc(n.Spec.Taints, func(t v1.Taint) bool {
		return t.Effect != v1.TaintEffectPreferNoSchedule
	})
}

// sliceIs notes a slice of devices, and sliceGone that it is no more.
func (p *Plugin) sliceIs(s *resourceapi.ResourceSlice) {
	node := ptr.Deref(s.Spec.NodeName, "")
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changed++
	if s.Spec.Driver != p.args.Driver {
		p.others[s.Name] = s
		p.selectors.othersChanged()
		return
	}
	if node == "" {
		return
	}
	if p.slices[node] == nil {
		p.slices[node] = map[string]*resourceapi.ResourceSlice{}
	}
	p.slices[node][s.Name] = s
	p.selectors.changed(node)
	p.refresh(node)
	if p.pools[s.Spec.Pool.Name] == node {
		return
	}
	p.pools[s.Spec.Pool.Name] = node
	for uid := range p.book.on[homeless(s.Spec.Pool.Name)] { // told before their pool was
		p.enter(uid, p.book.claims[uid])
	}
}

func (p *Plugin) sliceGone(s *resourceapi.ResourceSlice) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.Spec.Driver != p.args.Driver {
		delete(p.others, s.Name)
		p.selectors.othersChanged()
		return
	}
	node := ptr.Deref(s.Spec.NodeName, "")
	delete(p.slices[node], s.Name)
	if len(p.slices[node]) == 0 {
		delete(p.slices, node)
	}
	p.selectors.changed(node)
	p.refresh(node)
}

// refresh tells the cluster what a node is now.
func (p *Plugin) refresh(name string) {
	n := p.nodes[name]
	if n == nil {
		p.live.RemoveNode(name)
		return
	}
	to := live.Node{Node: place.Node{Name: name, CPU: n.Status.Allocatable.Cpu().MilliValue(),
		Memory: n.Status.Allocatable.Memory().Value()}}
	for _, d := range p.devices(name) {
		if !shared(d) || sick(d) {
			continue
		}
		model, device := deviceOf(d, len(to.Devices))
		if to.Model == "" {
			to.Model = model
		}
		to.Devices, to.Names = append(to.Devices, device), append(to.Names, d.Name)
	}
	if len(to.Devices) > place.MaxDevices {
		to.Devices, to.Names = to.Devices[:place.MaxDevices], to.Names[:place.MaxDevices]
	}
	if err := p.live.SetNode(to); err != nil {
		klog.ErrorS(err, "A node that cannot be chosen for", "plugin", Name, "node", name)
	}
}

// devices returns the devices of a node, of the newest generation of its pools, by name.
func (p *Plugin) devices(name string) (all []*resourceapi.Device) {
	newest := map[string]int64{}
	for _, s := range p.slices[name] {
		newest[s.Spec.Pool.Name] = max(newest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
	}
	for _, s := range p.slices[name] {
		if s.Spec.Pool.Generation < newest[s.Spec.Pool.Name] {
			continue
		}
		for i := range s.Spec.Devices {
			all = append(all, &s.Spec.Devices[i])
		}
	}
	slices.SortFunc(all, func(a, b *resourceapi.Device) int {
		// A number of more digits is a greater one: cuda-10 comes after cuda-9.
		if c := cmp.Compare(len(a.Name), len(b.Name)); c != 0 {
			return c
		}
		return cmp.Compare(a.Name, b.Name)
	})
	return all
}

// shared reports whether parts of a device can be had: those that package place chooses among.
func shared(d *resourceapi.Device) bool {
	_, compute := d.Capacity[dra.CapacityCompute]
	_, memory := d.Capacity[dra.CapacityMemory]
	kind := d.Attributes["type"].StringValue
	return ptr.Deref(d.AllowMultipleAllocations, false) && compute && memory &&
		(kind == nil || *kind == "gpu")
}

func sick(d *resourceapi.Device) bool {
	return slices.ContainsFunc(d.Taints, func(t resourceapi.DeviceTaint) bool {
		return t.Effect == resourceapi.DeviceTaintEffectNoSchedule ||
			t.Effect == resourceapi.DeviceTaintEffectNoExecute
	})
}

// deviceOf is a device as package place counts it, and its model. A device that is linked to no
// other is in a group of its own.
func deviceOf(d *resourceapi.Device, i int) (model string, to place.Device) {
	memory := d.Capacity[dra.CapacityMemory]
	to = place.Device{Memory: memory.Value.Value(), Link: -1 - i,
		NUMA: int(ptr.Deref(d.Attributes["numaNode"].IntValue, 0))}
	if group := ptr.Deref(d.Attributes["nvlinkGroup"].IntValue, 0); group > 0 {
		to.Link = int(group)
	}
	return ptr.Deref(d.Attributes["model"].StringValue, ""), to
}
