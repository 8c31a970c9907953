package place

import "math/bits"

var packing = Policy{
	Name:   "packing",
	Source: published + "; Q. Weng et al., MLaaS in the Wild, NSDI 2022",
	What:   "devices that are in use first, then those of nodes in use, then the smallest nodes",
	score:  packingScore,
}

func packingScore(_ *fragments, n *node, s *shape) (int64, Set) {
	if s.Count == 0 {
		return 0, 0
	}
	set := devices(n, s)
	if n.idle == len(n.free) {
		return max(percent/3-int64(n.idle), int64(n.idle)), set
	}
	idle, used := int64(0), int64(0)
	for left := set; left != 0; left &= left - 1 {
		units := int64(n.free[bits.TrailingZeros64(uint64(left))].units)
		if units == Whole {
			idle++
		}
		used += units * percent / Whole
	}
	if idle > 0 {
		return max(percent/2-idle, percent/3), set
	}
	return max(percent-used/10, percent/2), set
}
