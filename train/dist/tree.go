package dist

import "math/bits"

// node is a part of the tree: the sum of shards from one to before another.
type node struct{ from, to int }

// middle is where the tree cuts a node of several shards in two.
func middle(n node) int {
	return n.from + 1<<(bits.Len(uint(n.to-n.from-1))-1)
}

// joins reports whether the tree of n shards adds a and b.
func joins(n int, a, b node) bool {
	at := node{0, n}
	for a.to == b.from && at.to-at.from > 1 {
		m := middle(at)
		switch {
		case at == node{a.from, b.to}:
			return m == a.to
		case b.to <= m:
			at.to = m
		case a.from >= m:
			at.from = m
		default:
			return false
		}
	}
	return false
}

// Share returns the shards, from one to before another, that a process computes.
func Share(shards, ranks, rank int) (from, to int) {
	return rank * shards / ranks, (rank + 1) * shards / ranks
}

// Slots is how many sums of subtrees any of so many processes keeps beside what it computes last.
func Slots(shards, ranks int) (most int) {
	for r := range ranks {
		_, held := alone(shards, ranks, r)
		most = max(most, len(held)-1)
		ops, _ := alone(shards, ranks, r)
		for _, of := range ops {
			for _, o := range of {
				most = max(most, o.dst.slot)
			}
		}
	}
	return most
}

// place is where a sum lies: in memory of a process, in a slot of it. Slot 0 is where shards are
// computed.
type place struct{ rank, slot int }

// held is a sum and its place.
type held struct {
	node
	at place
}

// op adds y to x, or copies x where y is nowhere.
type op struct{ dst, x, y place }

// nowhere is no place.
var nowhere = place{rank: -1}

// alone lists what a process does by itself after each of its shards, and what it then holds of its
// own.
func alone(shards, ranks, rank int) (ops [][]op, stack []held) {
	here := place{rank, 0}
	from, to := Share(shards, ranks, rank)
	for s := from; s < to; s++ {
		var after []op
		now := held{node{s, s + 1}, here}
		for n := len(stack); n > 0 && joins(shards, stack[n-1].node, now.node); n-- {
			after = append(after, op{here, stack[n-1].at, here})
			now.from = stack[n-1].from
			stack = stack[:n-1]
		}
		if s < to-1 { // the next is computed in its place
			now.at.slot = len(stack) + 1
			after = append(after, op{now.at, here, nowhere})
		}
		stack = append(stack, now)
		ops = append(ops, after)
	}
	return ops, stack
}

// around lists what each process adds to a piece on its way, which begins after its owner and ends
// at it. A process writes to its own memory alone, to the right of two places there, and computes
// its last shard in the rightmost: so the last sum lies where the owner computes shards.
func around(shards, ranks, owner int) (ops [][]op) {
	ops = make([][]op, ranks)
	var all []held
	for v := range ranks {
		r := (owner + 1 + v) % ranks
		_, own := alone(shards, ranks, r)
		all = insert(all, own)
		for {
			i := joint(shards, all)
			if i < 0 {
				break
			}
			a, b := all[i], all[i+1]
			at := a.at
			if b.at.rank == r {
				at = b.at
			}
			ops[r] = append(ops[r], op{at, a.at, b.at})
			all[i] = held{node{a.from, b.to}, at}
			all = append(all[:i+1], all[i+2:]...)
		}
	}
	return ops
}

// insert puts neighbouring sums among others, in the order of shards.
func insert(all, own []held) []held {
	i := 0
	for i < len(all) && all[i].from < own[0].from {
		i++
	}
	out := append([]held{}, all[:i]...)
	return append(append(out, own...), all[i:]...)
}

// joint is the first of two neighbours that the tree adds, below 0 where there are none.
func joint(shards int, all []held) int {
	for i := range len(all) - 1 {
		if joins(shards, all[i].node, all[i+1].node) {
			return i
		}
	}
	return -1
}
