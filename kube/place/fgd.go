package place

import "math"

var fgd = Policy{
	Name: "fgd",
	Source: "F. Weng et al., Beware of Fragmentation, USENIX ATC 2023, section 4, with the " +
		"rounding of their simulator",
	What:  "the node and device whose fragmentation grows least, against the typical workload",
	score: fgdScore,
}

func fgdScore(f *fragments, n *node, s *shape) (int64, Set) {
	now := f.of(n)
	if !s.Share() {
		set := devices(n, s)
		return f.shrinks(now - f.after(n, s, set)), set
	}
	best, device := int64(-1), -1
	for i, free := range n.free {
		if !free.holds(&s.Request) || seen(n.free[:i], free) {
			continue
		}
		if g := f.shrinks(now - f.after(n, s, 1<<i)); g > best {
			best, device = g, i
		}
	}
	return best, 1 << device
}

// seen reports whether a value is among some.
func seen(among []slot, s slot) bool {
	for _, t := range among {
		if t == s {
			return true
		}
	}
	return false
}

// shrinks returns the score for fragmentation that shrinks by so much: the sigmoid of it in
// devices, in whole hundredths. So rounded, many nodes are equal that are not quite, and the first
// of them is taken: which keeps few nodes in use.
func (f *fragments) shrinks(by int64) int64 {
	devices := float64(by) / float64(max(f.weight, 1)) / Whole
	return int64(1 / (1 + math.Exp(-devices)) * percent)
}
