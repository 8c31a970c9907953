package plan

import (
	"math/rand/v2"
	"testing"
)

// TestPlaceNeverOverlaps checks the one property that memory safety rests on, on random lifetimes.
func TestPlaceNeverOverlaps(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 1))
		blocks := make([]*block, 1+rng.IntN(60))
		var most int64
		for i := range blocks {
			first := rng.IntN(40)
			blocks[i] = &block{bytes: rng.Int64N(10_000), first: first, last: first + rng.IntN(12)}
		}
		total := scatter(blocks, seed+1)
		checkDisjoint(t, seed, blocks, total)
		total = place(blocks)
		for step := range 64 {
			var live int64
			for _, b := range blocks {
				if b.first <= step && step <= b.last {
					live += alignUp(b.bytes)
				}
			}
			most = max(most, live)
		}
		if total < most {
			t.Fatalf("seed %d: arena of %d bytes holds %d at once", seed, total, most)
		}
		checkDisjoint(t, seed, blocks, total)
	}
}

func checkDisjoint(t *testing.T, seed uint64, blocks []*block, total int64) {
	t.Helper()
	for i, a := range blocks {
		if a.offset%Align != 0 || a.offset+a.bytes > total {
			t.Fatalf("seed %d: block %+v in an arena of %d", seed, *a, total)
		}
		for _, b := range blocks[:i] {
			together := a.first <= b.last && b.first <= a.last
			if together && a.offset < b.offset+b.bytes && b.offset < a.offset+a.bytes {
				t.Fatalf("seed %d: %+v and %+v overlap", seed, *a, *b)
			}
		}
	}
}

// TestPlaceReuses holds that memory is shared over time: a chain needs two neighbours' sizes, not
// the sum.
func TestPlaceReuses(t *testing.T) {
	var blocks []*block
	for i := range 50 {
		blocks = append(blocks, &block{bytes: 1000, first: i, last: i + 1})
	}
	if total := place(blocks); total != 2*alignUp(1000) {
		t.Errorf("a chain of 50 values of 1000 bytes takes %d bytes, want %d", total,
			2*alignUp(1000))
	}
}
