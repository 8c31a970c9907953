package plugin

import (
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
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
		selectors: newSelectors(), live: l, pods: map[string]*v1.Pod{}}
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
