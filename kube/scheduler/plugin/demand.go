package plugin

import (
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	resourcehelper "k8s.io/component-helpers/resource"
	"k8s.io/dynamic-resource-allocation/resourceclaim"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/place"
)

// TopologyAnnotation of a pod says how its devices must lie to each other: none, best-effort,
// restricted or single-numa-node, as the kubelet's Topology Manager has it.
const TopologyAnnotation = "weir.dev/topology"

// topologies by the names of the kubelet's policies.
var topologies = map[string]place.Topology{"": place.Anywhere, "none": place.Anywhere,
	"best-effort": place.BestEffort, "restricted": place.Restricted,
	"single-numa-node": place.SingleNUMA}

// demand is what a pod asks for.
type demand struct {
	place.Request
	// foreign: it asks for what package place has no words for; the inner plug-in allocates as it
	// would alone.
	foreign  bool
	node     string       // where a claim of it has devices already; "" for none
	fresh    []string     // names of its claims that have none
	chosenBy []*selection // which devices it takes
}

// demandOf reads what a pod asks for. The error is of what can never be.
func (p *Plugin) demandOf(pod *v1.Pod) (*demand, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.read(pod)
}

func (p *Plugin) read(pod *v1.Pod) (*demand, error) {
	requests := resourcehelper.PodRequests(pod, resourcehelper.PodResourcesOptions{})
	d := &demand{Request: place.Request{CPU: requests.Cpu().MilliValue(),
		Memory: requests.Memory().Value()}}
	topology, ok := topologies[pod.Annotations[TopologyAnnotation]]
	if !ok {
		return nil, fmt.Errorf("annotation %s: %q: want none, best-effort, restricted or "+
			"single-numa-node", TopologyAnnotation, pod.Annotations[TopologyAnnotation])
	}
	d.Topology = topology
	for i := range pod.Spec.ResourceClaims {
		name, _, err := resourceclaim.Name(pod, &pod.Spec.ResourceClaims[i])
		if err != nil {
			return nil, err
		}
		if name == nil {
			continue // this pod needs none
		}
		c, err := p.manager.SharedDRAManager.ResourceClaims().Get(pod.Namespace, *name)
		if err != nil {
			return nil, err
		}
		if err := p.claim(d, c); err != nil {
			return nil, fmt.Errorf("claim %s: %w", *name, err)
		}
	}
	if d.Count > 1 && d.Units < place.Whole {
		d.foreign = true // upstream may give two parts of one device, package place does not
	}
	return d, nil
}

// claim adds what a claim asks for.
func (p *Plugin) claim(d *demand, c *resourceapi.ResourceClaim) error {
	if c.Status.Allocation != nil {
		h, _, ok := p.holderOf(c)
		d.foreign = d.foreign || !ok || d.node != "" && d.node != h.Node
		d.node = h.Node
		return nil
	}
	d.fresh = append(d.fresh, c.Name)
	d.foreign = d.foreign || len(c.Spec.Devices.Constraints) > 0
	for i := range c.Spec.Devices.Requests {
		r := c.Spec.Devices.Requests[i].Exactly
		if r == nil || r.AdminAccess != nil && *r.AdminAccess ||
			r.AllocationMode == resourceapi.DeviceAllocationModeAll || len(r.Tolerations) > 0 {
			d.foreign = true
			continue
		}
		if err := p.exactly(d, r); err != nil {
			return fmt.Errorf("request %s: %w", c.Spec.Devices.Requests[i].Name, err)
		}
	}
	return nil
}

// exactly adds what one request of a claim asks for. For package place all of a pod's are alike.
func (p *Plugin) exactly(d *demand, r *resourceapi.ExactDeviceRequest) error {
	class, err := p.manager.DeviceClasses().Get(r.DeviceClassName)
	if err != nil {
		return err
	}
	var expressions []string
	for _, s := range slices.Concat(class.Spec.Selectors, r.Selectors) {
		if s.CEL != nil {
			expressions = append(expressions, s.CEL.Expression)
		}
	}
	k := p.selected(expressions)
	d.foreign = d.foreign || k.partial > 0 || p.selectsOthers(k)
	if d.foreign {
		return nil
	}
	if r.Count > 1 {
		return fmt.Errorf("count %d: a program has a share of one device: write one request a "+
			"device, with count 1, and one container a request", r.Count)
	}
	units, memory, err := part(r.Capacity)
	if err != nil {
		return err
	}
	if d.Count > 0 && (d.Units != units || d.DeviceMemory != memory) {
		d.foreign = true
		return nil
	}
	d.Count++
	d.Units, d.DeviceMemory = units, memory
	if !slices.Contains(d.chosenBy, k) {
		d.chosenBy = append(d.chosenBy, k)
	}
	return nil
}

// part is what a request takes of each device. Without memory it takes all of that, so that nobody
// else can have any of the device; without compute the least that package place counts.
func part(c *resourceapi.CapacityRequirements) (units int, memory int64, err error) {
	var requests map[resourceapi.QualifiedName]resource.Quantity
	if c != nil {
		requests = c.Requests
	}
	for name := range requests {
		if name != dra.CapacityCompute && name != dra.CapacityMemory {
			return 0, 0, fmt.Errorf("capacity %s: no device of weir has any: there are %s, such "+
				"as 8Gi, and %s, such as 300m", name, dra.CapacityMemory, dra.CapacityCompute)
		}
	}
	compute := requests[dra.CapacityCompute]
	if compute.Sign() < 0 || compute.MilliValue() > place.Whole {
		return 0, 0, fmt.Errorf("capacity %s of %s: want at most 1, the whole device",
			dra.CapacityCompute, compute.String())
	}
	bytes, ok := requests[dra.CapacityMemory]
	if !ok {
		return place.Whole, 0, nil
	}
	return max(1, int(compute.MilliValue())), bytes.Value(), nil
}
