package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
)

// transformed draws a convolution that tiles can compute.
func transformed(r *rand.Rand) Params {
	p := Params{N: 1 + r.IntN(2), C: 1 + r.IntN(20), M: 1 + r.IntN(20), Group: 1, Reused: true}
	p.Window = square(1, 1, 1, 3, 1, 0, 1).Window
	for i := 1; i < 3; i++ {
		p.PadLo[i], p.PadHi[i] = r.IntN(4), r.IntN(4)
		p.In[i] = max(1, 3-p.PadLo[i]-p.PadHi[i]) + r.IntN(24)
		if r.IntN(12) == 0 {
			p.In[i] += 60
		}
	}
	p.Bias, p.Residual = r.IntN(2) == 0, r.IntN(2) == 0
	if r.IntN(2) == 0 {
		p.Clamp, p.Lo, p.Hi = true, -0.5, 1.5
	}
	if r.IntN(3) == 0 {
		p.Map = func(dst, x []float32) {
			for i, v := range x {
				dst[i] = v/2 + 1
			}
		}
	}
	return p
}

// TestTransformed compares the way by tiles with the definition, also where New would choose
// another way.
func TestTransformed(t *testing.T) {
	atLevels(t, func(t *testing.T) {
		if !hasWinograd(currentLevel()) {
			t.Skip("no kernels for this processor")
		}
		r := rand.New(rand.NewPCG(21, 22))
		for range 80 {
			checkTransformed(t, r, transformed(r))
		}
		// several blocks of channels, and long sums
		for _, n := range [][2]int{{128, 57}, {128, 130}, {512, 20}} {
			p := square(n[0], n[1], 7, 3, 1, 1, 1)
			p.Reused, p.Bias, p.Residual = true, true, true
			checkTransformed(t, r, p)
		}
	})
}

func checkTransformed(t *testing.T, r *rand.Rand, p Params) {
	t.Helper()
	args := dataFor(t, r, p)
	y, check := guarded(r, len(args.Y))
	want := make([]float32, len(y))
	op, err := New(p)
	if err != nil {
		t.Fatal(err)
	}
	if err := op.transform(); err != nil {
		t.Fatal(err)
	}
	run := args
	run.Y = y
	runPlanned(t, r, op, run)
	check(t, "Y")
	args.Y = want
	Reference(p, &args)
	compare(t, fmt.Sprintf("%+v", p), y, want, 5e-5*math.Sqrt(float64(p.C)))
}
