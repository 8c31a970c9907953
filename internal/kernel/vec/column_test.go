package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestRows compares the loops over rows with their references, at widths with and without assembly,
// and looks for writes outside.
func TestRows(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 1))
		for _, w := range []int{1, 8, 16, 32, 33} {
			for _, rows := range []int{0, 1, 2, 3, 5, 8, 13, 700} {
				x, v, sum := rowsCase(r, w, rows)
				compareRows(t, x, v, sum)
			}
		}
	})
}

// rowsCase draws a matrix with infinities, a row vector that is at least its greatest, and sums to
// start from.
func rowsCase(r *rand.Rand, w, rows int) (x, v, sum []float32) {
	x, v, sum = make([]float32, w*rows), make([]float32, w), make([]float32, w)
	for i := range x {
		x[i] = float32(r.NormFloat64() * 10)
		if r.IntN(20) == 0 {
			x[i] = float32(math.Inf(-1))
		}
	}
	for j := range v {
		v[j], sum[j] = float32(r.NormFloat64()), r.Float32()
	}
	return x, v, sum
}

func compareRows(t *testing.T, x, v, sum []float32) {
	t.Helper()
	clone := func(x []float32) []float32 { return append(make([]float32, 0, len(x)+1), x...) }
	peak, want := clone(v), clone(v)
	MaxRows(peak, x)
	maxRowsRef(x, want)
	sameRows(t, "MaxRows", peak, want, 0)

	scaled, want := clone(x), clone(x)
	MulRows(scaled, v)
	mulRowsRef(want, v)
	sameRows(t, "MulRows", scaled, want, 0)

	e, s, wantE, wantS := clone(x), clone(sum), clone(x), clone(sum)
	ExpRows(e, peak, s)
	expRowsRef(wantE, peak, wantS)
	sameRows(t, "ExpRows", e, wantE, 1e-5)
	sameRows(t, "ExpRows sums", s, wantS, 1e-5)
}

func sameRows(t *testing.T, what string, got, want []float32, tolerance float64) {
	t.Helper()
	for i := range want {
		allowed := tolerance * math.Max(1, math.Abs(float64(want[i])))
		if d := math.Abs(float64(got[i] - want[i])); d > allowed ||
			got[i] != got[i] != (want[i] != want[i]) {
			t.Fatalf("%s: element %d of %d is %g, want %g", what, i, len(want), got[i], want[i])
		}
	}
}
