package plan

import (
	"cmp"
	"slices"
)

// block is one piece of memory that is needed from step first to step last, both included.
type block struct {
	bytes       int64
	first, last int
	offset      int64
}

// place gives each block an offset such that blocks which are needed at the same time do not overlap, and returns the
// size of the whole. Largest first, each at the lowest offset that fits (Pisarchyk & Lee, "Efficient Memory Management for
// Deep Neural Net Inference", 2020, section 5.2, greedy by size).
func place(blocks []*block) int64 {
	order := slices.Clone(blocks)
	slices.SortStableFunc(order, func(a, b *block) int { return cmp.Compare(b.bytes, a.bytes) })
	var placed []*block // sorted by offset
	var total int64
	for _, b := range order {
		b.offset = lowest(placed, b)
		total = max(total, b.offset+alignUp(b.bytes))
		i, _ := slices.BinarySearchFunc(placed, b, func(x, y *block) int { return cmp.Compare(x.offset, y.offset) })
		placed = slices.Insert(placed, i, b)
	}
	return total
}

func lowest(placed []*block, b *block) int64 {
	var at int64
	need := alignUp(b.bytes)
	for _, p := range placed {
		if p.last < b.first || b.last < p.first {
			continue
		}
		if at+need <= p.offset {
			return at
		}
		at = max(at, p.offset+alignUp(p.bytes))
	}
	return at
}

func alignUp(n int64) int64 { return (n + Align - 1) &^ (Align - 1) }
