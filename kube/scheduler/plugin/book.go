package plugin

import (
	"math"
	"slices"
	"strconv"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/weirgpu/weir/kube/dra"
	"github.com/weirgpu/weir/kube/live"
	"github.com/weirgpu/weir/kube/place"
)

// book is which claims have devices, as far as anybody has said: the server by events, which may be
// late, or the inner plug-in, which knows first.
type book struct {
	claims map[types.UID]*entry
	on     map[string]map[types.UID]*resourceapi.ResourceClaim // those with devices, by place
}

type entry struct {
	claim   *resourceapi.ResourceClaim // as it was told last
	pending *resourceapi.ResourceClaim // allocated and not yet written
	gone    bool                       // the server has it no more, and its allocation is pending
	place   string                     // where it has devices: a node, or homeless of a pool
}

// homeless is where claims are whose pool is of no node yet. No node has such a name.
func homeless(pool string) string { return "pool/" + pool }

func newBook() book {
	return book{claims: map[types.UID]*entry{},
		on: map[string]map[types.UID]*resourceapi.ResourceClaim{}}
}

// now is the claim as it counts.
func (e *entry) now() *resourceapi.ResourceClaim {
	if e.pending != nil {
		return e.pending
	}
	return e.claim
}

// pending notes that a claim is about to have devices.
func (p *Plugin) pending(c *resourceapi.ResourceClaim) {
	p.mu.Lock()
	defer p.mu.Unlock()
	e := p.book.entry(c.UID)
	e.pending = c
	p.enter(c.UID, e)
}

// settled notes that what was about to be has been written, or never will be.
func (p *Plugin) settled(uid types.UID) {
	p.mu.Lock()
	e := p.book.entry(uid)
	e.pending, e.gone = nil, false
	kept := p.enter(uid, e)
	p.mu.Unlock()
	p.activate(kept)
}

func (b *book) entry(uid types.UID) *entry {
	e := b.claims[uid]
	if e == nil {
		e = &entry{}
		b.claims[uid] = e
	}
	return e
}

// claimIs notes a claim as the server has it; an older one than is known changes nothing.
func (p *Plugin) claimIs(c *resourceapi.ResourceClaim) {
	p.mu.Lock()
	e := p.book.entry(c.UID)
	before := e.claim
	var kept []string
	taken := !e.gone && (before == nil || !older(c.ResourceVersion, before.ResourceVersion))
	if taken {
		e.claim = c
		kept = p.enter(c.UID, e)
	}
	p.mu.Unlock()
	p.activate(kept)
	if taken {
		p.stirs(before, c)
	}
}

// claimGone notes that the server has a claim no more.
func (p *Plugin) claimGone(c *resourceapi.ResourceClaim) {
	p.mu.Lock()
	e := p.book.entry(c.UID)
	// What was written of it may be told later than that it is gone.
	e.claim, e.pending, e.gone = nil, nil, e.pending != nil || e.gone
	kept := p.enter(c.UID, e)
	p.mu.Unlock()
	p.activate(kept)
}

// older compares versions of one object: they are rising numbers (KEP-5504). Others are taken as
// they come.
func older(a, b string) bool {
	x, err := strconv.ParseUint(a, 10, 64)
	y, err2 := strconv.ParseUint(b, 10, 64)
	return err == nil && err2 == nil && x < y
}

// enter has the cluster hold what a claim has. It returns keys of promises that are kept by it.
func (p *Plugin) enter(uid types.UID, e *entry) []string {
	delete(p.book.on[e.place], uid)
	if len(p.book.on[e.place]) == 0 {
		delete(p.book.on, e.place)
	}
	e.place = ""
	c := e.now()
	if c == nil && !e.gone {
		delete(p.book.claims, uid)
	}
	h, pool, ok := p.holderOf(c)
	if !ok {
		return p.live.Drop(claimKey(uid))
	}
	e.place = h.Node
	if e.place == "" {
		e.place = homeless(pool)
	}
	if p.book.on[e.place] == nil {
		p.book.on[e.place] = map[types.UID]*resourceapi.ResourceClaim{}
	}
	p.book.on[e.place][uid] = c
	p.live.Hold(h)
	return nil
}

func claimKey(uid types.UID) string { return "claim/" + string(uid) }

// holderOf is what a claim holds of weir's devices, and of which pool; ok is false for none.
func (p *Plugin) holderOf(c *resourceapi.ResourceClaim) (h live.Holder, pool string, ok bool) {
	if c == nil || c.Status.Allocation == nil {
		return h, "", false
	}
	h = live.Holder{Key: claimKey(c.UID), Priority: math.MinInt32, Yields: true}
	for i := range c.Status.Allocation.Devices.Results {
		r := &c.Status.Allocation.Devices.Results[i]
		if r.Driver != p.args.Driver || r.AdminAccess != nil && *r.AdminAccess {
			continue
		}
		pool, h.Yields = r.Pool, h.Yields && yields(c, r.Request)
		h.Node = p.pools[pool]
		h.Parts = append(h.Parts, live.Part{Request: requestOf(r), Devices: []string{r.Device}})
	}
	if n := len(c.Status.ReservedFor); n == 1 && c.Status.ReservedFor[0].Resource == "pods" {
		h.Owner = string(c.Status.ReservedFor[0].UID)
	} else if n > 1 {
		h.Yields = false
	}
	return h, pool, len(h.Parts) > 0
}

// requestOf is what one result of an allocation takes of its device. A share without compute takes
// the least that package place counts; a device that is not shared is taken whole.
func requestOf(r *resourceapi.DeviceRequestAllocationResult) place.Request {
	if r.ShareID == nil {
		return place.Request{Count: 1, Units: place.Whole}
	}
	compute, memory := r.ConsumedCapacity[dra.CapacityCompute],
		r.ConsumedCapacity[dra.CapacityMemory]
	return place.Request{Count: 1, DeviceMemory: memory.Value(),
		Units: int(min(max(1, compute.MilliValue()), place.Whole))}
}

// yields reports whether what a claim was given for a request is opportunistic: by the last of the
// parameters for it that says so, the class's before the claim's own.
func yields(c *resourceapi.ResourceClaim, request string) bool {
	all := slices.Clone(c.Status.Allocation.Devices.Config)
	slices.SortStableFunc(all, func(a, b resourceapi.DeviceAllocationConfiguration) int {
		return rank(a.Source) - rank(b.Source)
	})
	main, _, _ := strings.Cut(request, "/")
	var v dra.Parameters
	for i := range all {
		if of := all[i].Requests; len(of) > 0 && !slices.Contains(of, request) &&
			!slices.Contains(of, main) {
			continue
		}
		if o := all[i].Opaque; o != nil && o.Driver == dra.DriverName {
			if w, err := dra.ParseParameters(v, o.Parameters.Raw); err == nil {
				v = w
			}
		}
	}
	return v.Opportunistic()
}

func rank(s resourceapi.AllocationConfigSource) int {
	if s == resourceapi.AllocationConfigSourceClass {
		return 0
	}
	return 1
}
