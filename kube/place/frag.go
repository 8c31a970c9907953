package place

import "slices"

// fragments measures fragmentation against a workload, in whole numbers: units times weight. With
// a memo it looks up what it has computed before, without it computes all anew; both give the same
// numbers, as sums of whole numbers do in any order.
type fragments struct {
	workload Workload
	weight   int64 // of all of it
	models   []string
	takes    [][]bool // by typical shape and model
	list     *priceList
	memo     *memo
}

func newFragments(w Workload, models []string) *fragments {
	f := &fragments{workload: w, models: models, list: newPriceList(w)}
	for i := range w {
		f.weight += w[i].Weight
		takes := make([]bool, len(models))
		for m, model := range models {
			takes[m] = w[i].Takes(model)
		}
		f.takes = append(f.takes, takes)
	}
	return f
}

// of returns the fragmentation of a node (F. Weng et al., "Beware of Fragmentation", USENIX ATC
// 2023, section 4.1, as their simulator has it): what is free of its devices times the weights of
// those typical shapes that cannot use it. A shape that needs no device can use none of it; one
// that finds no place on the node, none; any other, all but the devices that have too little.
func (f *fragments) of(n *node) int64 {
	if f.memo != nil {
		return f.memo.of(n, n.cpu)
	}
	return f.plain(n.model, n.free, n.cpu)
}

// after returns the fragmentation of a node once a shape has taken devices of it, which must be
// free.
func (f *fragments) after(n *node, s *shape, set Set) int64 {
	if f.memo != nil {
		return f.memo.after(n, s, set)
	}
	return f.plain(n.model, without(n.free, s, set), n.cpu-s.CPU)
}

// without returns what is free after a placement.
func without(free []slot, s *shape, set Set) []slot {
	free = slices.Clone(free)
	for _, i := range set.Indices() {
		free[i] = free[i].without(&s.Request)
	}
	return free
}

// plain is the definition.
func (f *fragments) plain(model int32, free []slot, cpu int64) (sum int64) {
	var units int64
	for _, s := range free {
		units += int64(s.units)
	}
	for i := range f.workload {
		t := &f.workload[i]
		lost, hosts := int64(0), 0
		for _, s := range free {
			if s.holds(&t.Request) {
				hosts++
			} else {
				lost += int64(s.units)
			}
		}
		if t.Count == 0 || !f.takes[i][model] || cpu < t.CPU || hosts < t.Count {
			lost = units
		}
		sum += lost * t.Weight
	}
	return sum
}
