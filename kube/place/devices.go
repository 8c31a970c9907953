package place

import "math/bits"

// tightest returns the device that a request for one leaves the least of, the lowest of equals: by
// units first and memory second. The set is empty where none holds it.
func (n *node) tightest(r *Request) Set {
	best := -1
	for i, f := range n.free {
		if f.holds(r) && (best < 0 || f.less(n.free[best])) {
			best = i
		}
	}
	if best < 0 {
		return 0
	}
	return 1 << best
}

func (s slot) less(o slot) bool {
	if s.units != o.units {
		return s.units < o.units
	}
	return s.mem < o.mem
}

// several returns the devices of a request that takes whole devices, or more than one, by its
// topology. The set is empty where the node does not have them.
func (n *node) several(r *Request) Set {
	var can Set
	for i, f := range n.free {
		if f.holds(r) {
			can |= 1 << i
		}
	}
	if can.Len() < r.Count {
		return 0
	}
	if r.Topology == Anywhere || r.Count == 1 {
		return lowest(can, r.Count)
	}
	return n.near(r, can)
}

// lowest returns the count lowest of a set.
func lowest(of Set, count int) (s Set) {
	for range count {
		s |= of & -of
		of &= of - 1
	}
	return s
}

// near chooses among devices those that lie together: on one NUMA node, and linked if that can be.
func (n *node) near(r *Request, can Set) Set {
	best, why := Set(0), rank{}
	consider := func(group Set) {
		group &= can
		if group.Len() < r.Count {
			return
		}
		s := n.linked(group, r.Count)
		if w := n.rank(s, group); best == 0 || w.before(why) {
			best, why = s, w
		}
	}
	n.groups(consider)
	switch {
	case best != 0 || r.Topology == SingleNUMA:
		return best
	case r.Topology == Restricted && n.couldOnOne(r):
		return 0
	}
	return n.linked(can, r.Count)
}

// groups calls back with all devices of each NUMA node, in the order of their lowest devices.
func (n *node) groups(f func(Set)) {
	for left := Set(1)<<len(n.free) - 1; left != 0; {
		first := n.spec.Devices[bits.TrailingZeros64(uint64(left))].NUMA
		group := n.where(left, func(d *Device) bool { return d.NUMA == first })
		f(group)
		left &^= group
	}
}

// where returns those of a set for which a condition holds.
func (n *node) where(of Set, holds func(*Device) bool) (s Set) {
	for ; of != 0; of &= of - 1 {
		i := bits.TrailingZeros64(uint64(of))
		if holds(&n.spec.Devices[i]) {
			s |= 1 << i
		}
	}
	return s
}

// couldOnOne reports whether the node, if nobody had anything of it, would have a NUMA node with
// devices enough for a request.
func (n *node) couldOnOne(r *Request) (could bool) {
	n.groups(func(g Set) { could = could || g.Len() >= r.Count })
	return could
}

// linked chooses count of a set: of the smallest group of linked devices that has as many, and
// where none has, of the largest groups first, so that as few pairs as can be go by the host.
func (n *node) linked(of Set, count int) Set {
	var chosen Set
	for count > 0 {
		var best Set
		for left := of; left != 0; {
			link := n.spec.Devices[bits.TrailingZeros64(uint64(left))].Link
			group := n.where(left, func(d *Device) bool { return d.Link == link })
			if better(group.Len(), best.Len(), count) {
				best = group
			}
			left &^= group
		}
		s := lowest(best, min(count, best.Len()))
		chosen |= s
		of &^= best
		count -= s.Len()
	}
	return chosen
}

// better reports whether a group of a devices serves a wish for count of them better than b.
func better(a, b, count int) bool {
	if (a >= count) != (b >= count) {
		return a >= count
	}
	if a >= count {
		return a < b
	}
	return a > b
}

// rank orders choices of devices on one NUMA node: linked before not, and then the NUMA node with
// the fewest devices to spare.
type rank struct {
	links int // groups of linked devices that the choice spans
	spare int
}

func (a rank) before(b rank) bool {
	if a.links != b.links {
		return a.links < b.links
	}
	return a.spare < b.spare
}

func (n *node) rank(s, group Set) rank {
	r := rank{spare: group.Len()}
	for left := s; left != 0; r.links++ {
		link := n.spec.Devices[bits.TrailingZeros64(uint64(left))].Link
		left &^= n.where(left, func(d *Device) bool { return d.Link == link })
	}
	return r
}
