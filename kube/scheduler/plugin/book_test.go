package plugin

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"

	v1 "k8s.io/api/core/v1"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// book tests need no scheduler: informers tell, and nothing is asked of the framework.
func bare(t *testing.T) *Plugin {
	t.Helper()
	policy, _ := place.Named("prices")
	l := must(live.New(live.Options{Policy: policy}))
	return &Plugin{args: &Args{Driver: dra.DriverName}, inventory: newInventory(), book: newBook(),
		selectors: newSelectors(), live: l, pods: map[string]*v1.Pod{},
		running: map[string]*v1.Pod{}, gangs: map[string]*gang{},
		doomed:  map[types.UID]string{},
		refused: map[string]map[string]bool{}, fair: live.NewFair(), clock: clock.RealClock{}}
}

// whole is a claim that has a device of a node.
func whole(uid, pool, device string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Name: uid, UID: types.UID(uid),
		ResourceVersion: "1"}}
	c.Status.Allocation = &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{
		Results: []resourceapi.DeviceRequestAllocationResult{{Driver: dra.DriverName, Pool: pool,
			Device: device}}}}
	return c
}

// TestClaimsToldBeforeTheirNodesCount tells of claims, slices and nodes in each order: what is held
// in the end is the same, also of a pool that has moved, and of a claim that went before its pool
// came.
func TestClaimsToldBeforeTheirNodesCount(t *testing.T) {
	const nodes = 3
	claims := func(p *Plugin) {
		for n := range nodes {
			p.claimIs(whole(fmt.Sprint("u", n), fmt.Sprint("pool-", n), "cuda-0"))
		}
		gone := whole("gone", "pool-0", "cuda-1")
		p.claimIs(gone)
		p.claimGone(gone)
	}
	slices := func(p *Plugin) {
		for n := range nodes {
			s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", n)}}
			s.Spec = resourceapi.ResourceSliceSpec{Driver: dra.DriverName,
				NodeName: ptr.To(fmt.Sprint("node-", n)),
				Pool:     resourceapi.ResourcePool{Name: fmt.Sprint("pool-", n), Generation: 1},
				Devices: []resourceapi.Device{device("cuda-0", "gpu", "H200", 0),
					device("cuda-1", "gpu", "H200", 0)}}
			p.sliceIs(s)
		}
	}
	machines := func(p *Plugin) {
		for n := range nodes {
			p.nodeIs(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("node-", n)}})
		}
	}
	for name, told := range map[string][]func(*Plugin){
		"claims first": {claims, slices, machines}, "claims last": {slices, machines, claims},
		"claims between": {machines, claims, slices}, "nodes last": {slices, claims, machines},
	} {
		p := bare(t)
		for _, tell := range told {
			tell(p)
		}
		all, used, err := p.live.Units()
		if err != nil || all != nodes*2*place.Whole || used != nodes*place.Whole {
			t.Errorf("%s: %d of %d units are held, %v", name, used, all, err)
		}
		for n := range nodes {
			if len(p.book.on[fmt.Sprint("node-", n)]) != 1 {
				t.Errorf("%s: on node %d: %v", name, n, p.book.on)
			}
		}
		if len(p.book.on) != nodes {
			t.Errorf("%s: claims are in %d places", name, len(p.book.on))
		}
	}
}

// Who has a share that is not opportunistic stays, whatever else the claim has.
func TestClaimYieldsIfAllOfItDoes(t *testing.T) {
	config := func(class string, requests ...string) resourceapi.DeviceAllocationConfiguration {
		return resourceapi.DeviceAllocationConfiguration{
			Source: resourceapi.AllocationConfigSourceClaim, Requests: requests,
			DeviceConfiguration: configOf(fmt.Sprintf(`"class": %q`, class)).DeviceConfiguration}
	}
	for i, k := range []struct {
		configs []resourceapi.DeviceAllocationConfiguration
		yields  bool
	}{
		{nil, false},
		{[]resourceapi.DeviceAllocationConfiguration{config("opportunistic")}, true},
		{[]resourceapi.DeviceAllocationConfiguration{config("opportunistic", "r0")}, false},
		{[]resourceapi.DeviceAllocationConfiguration{config("opportunistic", "r0", "r1")}, true},
		{[]resourceapi.DeviceAllocationConfiguration{config("opportunistic"),
			config("standard", "r1/small")}, false},
		{[]resourceapi.DeviceAllocationConfiguration{config("latency"),
			config("opportunistic", "r0"), config("opportunistic", "r1")}, true},
	} {
		c := whole("u", "a", "cuda-0")
		c.Status.Allocation.Devices.Results[0].Request = "r0"
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results,
			resourceapi.DeviceRequestAllocationResult{Driver: dra.DriverName, Pool: "a",
				Device: "cuda-1", Request: "r1/small"})
		c.Status.Allocation.Devices.Config = k.configs
		if h, _, ok := bare(t).holderOf(c); !ok || h.Yields != k.yields {
			t.Errorf("%d: yields is %v", i, h.Yields)
		}
	}
}

// A claim that was given devices and is gone before what was written of it is told here leaves
// nothing behind.
func TestClaimGoneBeforeItIsKnownToBeWritten(t *testing.T) {
	p := bare(t)
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "s"}}
	s.Spec = resourceapi.ResourceSliceSpec{Driver: dra.DriverName, NodeName: ptr.To("a"),
		Pool:    resourceapi.ResourcePool{Name: "a", Generation: 1},
		Devices: []resourceapi.Device{device("cuda-0", "gpu", "H200", 0)}}
	p.sliceIs(s)
	p.nodeIs(&v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "a"}})
	c := whole("u", "a", "cuda-0")
	p.claimIs(c)
	p.pending(c)
	p.claimGone(c)
	written := c.DeepCopy()
	written.ResourceVersion = "2"
	p.claimIs(written)
	p.settled(c.UID)
	if _, used, err := p.live.Units(); err != nil || used != 0 || len(p.book.claims) != 0 {
		t.Errorf("%d units are held of a claim that is gone, %v; in the book: %v", used, err,
			p.book.claims)
	}
}
