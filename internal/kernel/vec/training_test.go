package vec

import (
	"math"
	"math/rand/v2"
	"testing"
)

func trainingCases() []elementwise {
	inf := float32(math.Inf(1))
	return []elementwise{
		binary("Gate", func(dst, g, x []float32) { Gate(dst, g, x, 1.5, -0.25, 0, inf) },
			func(dst, g, x []float32) { gateRef(dst, g, x, 1.5, -0.25, 0, inf) }, exact),
		binary("Gate between", func(dst, g, x []float32) { Gate(dst, g, x, 1, 0, -0.5, 2) },
			func(dst, g, x []float32) { gateRef(dst, g, x, 1, 0, -0.5, 2) }, exact),
		binary("Blend", func(dst, g, x []float32) { Blend(dst, g, x, 0.7, 1.3, -0.2) },
			func(dst, g, x []float32) { blendRef(dst, g, x, 0.7, 1.3, -0.2) }, exact),
		unary("AffineClamp",
			func(dst, x []float32) { AffineClamp(dst, x, 1.5, -0.25, 0, 6) },
			func(dst, x []float32) { affineClampRef(dst, x, 1.5, -0.25, 0, 6) }, exact),
	}
}

func TestTraining(t *testing.T) { testElementwise(t, trainingCases()) }

// TestTotalDotDiff holds the sum to arithmetic in float64, also where elements leave the range of
// float32 on the way.
func TestTotalDotDiff(t *testing.T) {
	atEachLevel(t, func(t *testing.T) {
		r := rand.New(rand.NewPCG(5, 6))
		for _, n := range append(tailLengths(), 4095, 4096, 4097) {
			g, x := make([]float32, n), make([]float32, n+1)[1:]
			fillOrdinary(g, r)
			fillOrdinary(x, r)
			for _, by := range []float32{1, 1e30} {
				MulScalar(g, g, by)
				var want, terms float64
				for i, v := range g {
					d := float64(v) * float64(x[i]-0.3)
					want, terms = want+d, terms+math.Abs(d)
				}
				if got := TotalDotDiff(g, x, 0.3); !(math.Abs(got-want) <= 1e-5*terms) {
					t.Fatalf("n=%d: %v, want %v", n, got, want)
				}
			}
		}
	})
}
