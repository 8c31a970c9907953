package plan

import (
	"cmp"
	"math/rand/v2"
	"slices"
)

// block is one piece of memory that is needed from step first to step last, both included.
type block struct {
	bytes       int64
	first, last int
	offset      int64
}

// place gives each block an offset such that blocks which are needed at the same time do not
// overlap, and returns the size of the whole. Largest first, each at the lowest offset that fits
// (Pisarchyk & Lee, "Efficient Memory Management for Deep Neural Net Inference", 2020, section 5.2,
// greedy by size).
func place(blocks []*block) int64 {
	order := slices.Clone(blocks)
	slices.SortStableFunc(order, func(a, b *block) int { return cmp.Compare(b.bytes, a.bytes) })
	return placeAt(order, func(int64) int64 { return 0 })
}

// scatter places blocks as [place] must, but in random order, and every other one away from the
// start of the arena.
func scatter(blocks []*block, seed uint64) int64 {
	r := rand.New(rand.NewPCG(seed, 0))
	order := slices.Clone(blocks)
	r.Shuffle(len(order), func(i, j int) { order[i], order[j] = order[j], order[i] })
	return placeAt(order, func(total int64) int64 {
		return r.Int64N(2) * r.Int64N(total/Align+1) * Align
	})
}

// placeAt places blocks in the given order, each at the lowest offset that fits from the one on
// that from gives for the size of the arena so far.
func placeAt(order []*block, from func(total int64) int64) int64 {
	var placed []*block // sorted by offset
	var total int64
	for _, b := range order {
		b.offset = lowest(placed, b, from(total))
		total = max(total, b.offset+alignUp(b.bytes))
		i, _ := slices.BinarySearchFunc(placed, b, func(x, y *block) int {
			return cmp.Compare(x.offset, y.offset)
		})
		placed = slices.Insert(placed, i, b)
	}
	return total
}

// lowest is the first offset from at on where b overlaps none of those in placed that are needed at
// the same time.
func lowest(placed []*block, b *block, at int64) int64 {
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
