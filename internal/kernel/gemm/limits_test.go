package gemm

import (
	"math"
	"math/rand/v2"
	"testing"
)

// TestLimitsOfEveryKind holds that limits that are infinite, zero of either sign or NaN do what
// clamp does to numbers of these kinds, bit by bit.
func TestLimitsOfEveryKind(t *testing.T) {
	nan := float32(math.NaN())
	kinds := []float32{-inf, -1, float32(math.Copysign(0, -1)), 0, 1, inf, nan}
	atLevels(t, func(t *testing.T) {
		for _, lo := range kinds {
			for _, hi := range kinds {
				for _, m := range []int{1, 40} {
					p := Params{M: m, N: len(kinds), K: 1, Alpha: -1,
						Epilogue: Epilogue{Clamp: true, Lo: lo, Hi: hi}}
					args := Args{A: make([]float32, m), B: kinds, C: make([]float32, m*len(kinds))}
					for i := range args.A {
						args.A[i] = 1
					}
					run(t, rand.New(rand.NewPCG(1, 2)), p, args)
					for i, got := range args.C {
						x := 0 + kinds[i%len(kinds)]
						want := clamp(-x, lo, hi)
						if math.Float32bits(got) != math.Float32bits(want) &&
							(got == got || want == want) {
							t.Fatalf("%g within [%g, %g] is %g, want %g", -x, lo, hi, got, want)
						}
					}
				}
			}
		}
	})
}
