package plugin

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/dynamic-resource-allocation/structured"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"

	"github.com/weirgpu/weir/kube/live"
)

// handle is the framework as the inner plug-in sees it: with another manager of claims and slices.
type handle struct {
	fwk.Handle
	manager *manager
}

// SharedDRAManager implements fwk.Handle.
func (h handle) SharedDRAManager() fwk.SharedDRAManager { return h.manager }

// manager shows the inner plug-in only the devices that were chosen while it prepares to allocate,
// which it does in one scheduling cycle at a time, and has the plug-in told of what it allocates.
type manager struct {
	fwk.SharedDRAManager
	plugin *Plugin
	chosen map[string][]string // devices by node; nil: all are shown
}

// show limits what is shown until it is called with nil.
func (m *manager) show(choices []live.Choice) {
	m.chosen = nil
	if choices == nil {
		return
	}
	m.chosen = make(map[string][]string, len(choices))
	for _, c := range choices {
		m.chosen[c.Node] = c.Devices
	}
}

// ResourceClaims implements fwk.SharedDRAManager.
func (m *manager) ResourceClaims() fwk.ResourceClaimTracker {
	return tracker{m.SharedDRAManager.ResourceClaims(), m}
}

// ResourceSlices implements fwk.SharedDRAManager.
func (m *manager) ResourceSlices() fwk.ResourceSliceLister { return m }

// ListWithDeviceTaintRules implements fwk.ResourceSliceLister.
func (m *manager) ListWithDeviceTaintRules() ([]*resourceapi.ResourceSlice, error) {
	all, err := m.SharedDRAManager.ResourceSlices().ListWithDeviceTaintRules()
	if err != nil || m.chosen == nil {
		return all, err
	}
	var shown []*resourceapi.ResourceSlice
	for _, s := range all {
		devices, ok := m.chosen[ptr.Deref(s.Spec.NodeName, "")]
		if !ok || s.Spec.Driver != m.plugin.args.Driver {
			continue
		}
		part := *s
		part.Spec.Devices = slices.DeleteFunc(slices.Clone(s.Spec.Devices),
			func(d resourceapi.Device) bool { return !slices.Contains(devices, d.Name) })
		shown = append(shown, &part)
	}
	return shown, nil
}

// tracker tells the plug-in of allocations that the inner plug-in makes and takes back, which
// informers tell late or never.
type tracker struct {
	fwk.ResourceClaimTracker
	manager *manager
}

// GatherAllocatedState implements fwk.ResourceClaimTracker. Upstream's copies the state of all
// devices of the cluster, for each pod; of the devices that are shown, that of their nodes will do.
func (t tracker) GatherAllocatedState() (*structured.AllocatedState, error) {
	if t.manager.chosen == nil {
		return t.ResourceClaimTracker.GatherAllocatedState()
	}
	s := &structured.AllocatedState{AllocatedDevices: sets.New[structured.DeviceID](),
		AllocatedSharedDeviceIDs: sets.New[structured.SharedDeviceID](),
		AggregatedCapacity:       structured.NewConsumedCapacityCollection()}
	p := t.manager.plugin
	p.mu.Lock()
	defer p.mu.Unlock()
	for node := range t.manager.chosen {
		for _, c := range p.book.on[node] {
			account(s, c)
		}
	}
	return s, nil
}

// account adds what a claim has been given.
func account(s *structured.AllocatedState, c *resourceapi.ResourceClaim) {
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if ptr.Deref(r.AdminAccess, false) {
			continue
		}
		id := structured.MakeDeviceID(r.Driver, r.Pool, r.Device)
		if r.ShareID == nil {
			s.AllocatedDevices.Insert(id)
			continue
		}
		s.AllocatedSharedDeviceIDs.Insert(structured.MakeSharedDeviceID(id, r.ShareID))
		if r.ConsumedCapacity != nil {
			s.AggregatedCapacity.Insert(structured.NewDeviceConsumedCapacity(id,
				r.ConsumedCapacity))
		}
	}
}

// SignalClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t tracker) SignalClaimPendingAllocation(uid types.UID, c *resourceapi.ResourceClaim) error {
	err := t.ResourceClaimTracker.SignalClaimPendingAllocation(uid, c)
	if err == nil {
		t.manager.plugin.pending(c)
	}
	return err
}

// MaybeRemoveClaimPendingAllocation implements fwk.ResourceClaimTracker.
func (t tracker) MaybeRemoveClaimPendingAllocation(uid types.UID, force bool) bool {
	removed := t.ResourceClaimTracker.MaybeRemoveClaimPendingAllocation(uid, force)
	if removed {
		t.manager.plugin.settled(uid)
	}
	return removed
}

// AssumeClaimAfterAPICall implements fwk.ResourceClaimTracker.
func (t tracker) AssumeClaimAfterAPICall(c *resourceapi.ResourceClaim) error {
	err := t.ResourceClaimTracker.AssumeClaimAfterAPICall(c)
	t.manager.plugin.claimIs(c)
	return err
}
