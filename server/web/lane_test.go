package web

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestLane: a ring gives what a list of all values would, whatever is left out between two values.
func TestLane(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		const length = 8
		l, all, n := lane[int]{}, []int{0}, uint64(0)
		for range 50 {
			for range r.IntN(2 + int(seed%12)) {
				all = append(all, 0)
				n++
			}
			all = append(all, 1+r.IntN(9))
			n++
			l.put(n, length, all[n])
			to := n + uint64(r.IntN(2*length))
			from := uint64(r.IntN(int(to) + 1))
			var want []int
			for at := max(from, to-min(to, length)) + 1; at <= to; at++ {
				v := 0
				if at <= n && n-at < length && to-at < length {
					v = all[at]
				}
				want = append(want, v)
			}
			if got := l.after(nil, from, to); !slices.Equal(got, want) {
				t.Fatalf("seed %d: looks %d to %d of %v: %v, want %v", seed, from+1, to, all, got,
					want)
			}
		}
	}
}
