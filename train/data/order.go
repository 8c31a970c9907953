package data

import "math/rand/v2"

// Order is the order in which an epoch goes through samples: a permutation of rows that follows
// from the seed and the epoch alone.
func Order(rows []int, seed uint64, epoch int) []int {
	out := make([]int, len(rows))
	for i, k := range rand.New(rand.NewPCG(seed, uint64(epoch))).Perm(len(rows)) {
		out[i] = rows[k]
	}
	return out
}

// Part draws a part of n samples from a seed. Both lists are in ascending order.
func Part(n int, part float64, seed uint64) (drawn, rest []int) {
	const stream = 0x7061727473 // apart from those of epochs
	is := make([]bool, n)
	for _, i := range rand.New(rand.NewPCG(seed, stream)).Perm(n)[:int(part*float64(n))] {
		is[i] = true
	}
	for i := range n {
		if is[i] {
			drawn = append(drawn, i)
		} else {
			rest = append(rest, i)
		}
	}
	return drawn, rest
}
