package sim

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/share"
)

// TestSplitUnits compares the split by parcels with the same progressive filling done unit by unit,
// over random sets and widths.
func TestSplitUnits(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for n := range 2000 {
		w := &world{units: 1 + rng.IntN(100)}
		for range 1 + rng.IntN(5) {
			first := rng.IntN(w.units)
			j := &job{spec: &Job{Width: rng.IntN(w.units + 1)},
				units: share.UnitRange(first, 1+rng.IntN(w.units-first))}
			if rng.IntN(3) == 0 {
				j.units = j.units.Minus(share.UnitsOf(rng.IntN(w.units)))
			}
			w.holders = append(w.holders, j)
		}
		w.split()
		want := splitByUnit(w)
		for i, j := range w.holders {
			if math.Abs(w.got[i]-want[i]) > 1e-6 {
				t.Fatalf("case %d of %d units: holder %d of %v, width %d, gets %v, want %v", n,
					w.units, i, j.units, j.spec.Width, w.got[i], want[i])
			}
		}
	}
}

func splitByUnit(w *world) []float64 {
	got := make([]float64, len(w.holders))
	left := make([]float64, w.units)
	for u := range left {
		left[u] = 1
	}
	for range w.holders {
		offer := make([]float64, len(got))
		wants := func(i, u int) bool {
			j := w.holders[i]
			return j.units.Has(u) && got[i] < j.width(w.units)-1e-9
		}
		claims := make([]float64, w.units)
		for u := range left {
			for i := range got {
				if wants(i, u) {
					claims[u]++
				}
			}
			for i := range got {
				if wants(i, u) {
					offer[i] += left[u] / claims[u]
				}
			}
		}
		part := 1.0
		for i, j := range w.holders {
			if offer[i] > 0 {
				part = min(part, (j.width(w.units)-got[i])/offer[i])
			}
		}
		for u := range left {
			if claims[u] > 0 {
				left[u] -= part * left[u]
			}
		}
		for i := range got {
			got[i] += part * offer[i]
		}
	}
	return got
}
