package live

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/weirgpu/weir/kube/place"
)

// mostCandidates is how many nodes that would fit are compared: of more, the first ones.
const mostCandidates = 100

// owner is a pod on a node, with all that goes with it.
type owner struct {
	key      string
	priority int32
	yields   bool
	since    uint64
	units    int64
}

// Preempt returns where a request would fit if others went, and whose they are: the owners of
// devices that yield and have a priority below the request's. As few go as can be on a node; of
// nodes, the one where the highest of their priorities is lowest, then where fewest go, then where
// fewest units are lost, then the first. The error is of kind place.ErrNoRoom where nobody's going
// helps.
func (c *Cluster) Preempt(r place.Request, priority int32, allow Allow) (Choice, []string, error) {
	if err := c.ready(); err != nil {
		return Choice{}, nil, err
	}
	if err := r.Check(); err != nil {
		return Choice{}, nil, err
	}
	var best *plan
	count := 0
	for _, name := range c.order {
		if c.nodes[name].Closed || allow != nil && !allow(name) {
			continue
		}
		p := c.plan(r, name, priority)
		if p == nil {
			continue
		}
		if best == nil || p.before(best) {
			best = p
		}
		if count++; count == mostCandidates {
			break
		}
	}
	if best == nil {
		return Choice{}, nil, fmt.Errorf("%w: nobody who yields to priority %d holds what is "+
			"wanting", place.ErrNoRoom, priority)
	}
	return best.choice, best.owners, nil
}

// plan is who goes from a node.
type plan struct {
	choice  Choice
	owners  []string
	highest int32
	units   int64
}

func (p *plan) before(q *plan) bool {
	switch {
	case p.highest != q.highest:
		return p.highest < q.highest
	case len(p.owners) != len(q.owners):
		return len(p.owners) < len(q.owners)
	}
	return p.units < q.units
}

// plan finds out who has to go from a node: all who may are taken away, and those who matter most
// are put back first, as long as the request still fits.
func (c *Cluster) plan(r place.Request, name string, priority int32) *plan {
	var may []owner
	for _, o := range c.owners(name) {
		if o.yields && o.priority < priority {
			may = append(may, o)
		}
	}
	gone := map[string]bool{}
	for _, o := range may {
		gone[o.key] = true
	}
	if len(may) == 0 || c.without(r, name, gone) == nil {
		return nil
	}
	slices.SortFunc(may, func(a, b owner) int {
		if a.priority != b.priority {
			return -cmp.Compare(a.priority, b.priority)
		}
		return cmp.Compare(a.since, b.since)
	})
	p := &plan{highest: may[len(may)-1].priority}
	for _, o := range may {
		delete(gone, o.key)
		if c.without(r, name, gone) != nil {
			continue
		}
		gone[o.key] = true
		p.owners = append(p.owners, o.key)
		p.highest, p.units = max(p.highest, o.priority), p.units+o.units
	}
	p.choice = Choice{name, c.without(r, name, gone)}
	return p
}

// owners returns who owns what on a node, in the order in which they came.
func (c *Cluster) owners(name string) []owner {
	of := map[string]*owner{}
	for _, h := range c.on[name] {
		if h.Owner == "" {
			continue
		}
		o := of[h.Owner]
		if o == nil {
			o = &owner{key: h.Owner, priority: h.Priority, since: h.seq}
			of[h.Owner] = o
		}
		o.since, o.priority = min(o.since, h.seq), max(o.priority, h.Priority)
		for _, p := range h.Parts {
			o.units += p.TotalUnits()
		}
	}
	for _, h := range c.on[name] {
		if o := of[h.Owner]; o != nil && devices(h) {
			o.yields = true
		}
	}
	for _, h := range c.on[name] {
		if o := of[h.Owner]; o != nil && devices(h) && !h.Yields {
			o.yields = false
		}
	}
	all := make([]owner, 0, len(of))
	for _, o := range of {
		all = append(all, *o)
	}
	slices.SortFunc(all, func(a, b owner) int { return cmp.Compare(a.since, b.since) })
	return all
}

// devices reports whether a hold has any devices.
func devices(h *hold) bool {
	return slices.ContainsFunc(h.Parts, func(p Part) bool { return len(p.Devices) > 0 })
}

// without returns the devices that a request would get on a node if some owners were gone, or nil
// where it does not fit. A request without devices gets an empty slice.
func (c *Cluster) without(r place.Request, name string, gone map[string]bool) []string {
	alone, err := New(Options{Policy: c.options.Policy})
	if err != nil || alone.SetNode(*c.nodes[name]) != nil {
		return nil
	}
	var rest []*hold
	for _, h := range c.on[name] {
		if h.Owner == "" || !gone[h.Owner] {
			rest = append(rest, h)
		}
	}
	slices.SortFunc(rest, func(a, b *hold) int { return cmp.Compare(a.seq, b.seq) })
	for _, h := range rest {
		alone.Hold(h.Holder)
	}
	choice, err := alone.Choose(r, nil)
	if err != nil {
		return nil
	}
	return choice.Devices
}
