package conv

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// TestPoolsOfAnyWindow pools with windows, dilations and pads of up to more than the image, beyond
// the pads too, numbers that are none, infinite or all but zero among others, in memory behind
// which there is none. Maxima are exact, and all results the same on every path.
func TestPoolsOfAnyWindow(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 3))
	for range 150 {
		p := anyPool(r)
		x := make([]float32, p.Planes*volume(p.In))
		for i := range x {
			x[i] = float32(r.NormFloat64())
		}
		special := []float32{float32(math.NaN()), inf, -inf, 1e-42, -1e-42, 0}
		for range r.IntN(3) {
			x[r.IntN(len(x))] = special[r.IntN(len(special))]
		}
		first := make([]float32, p.Planes*volume(p.Out))
		ReferencePool(p, x, first)
		exact := p.Kind == MaxPool
		atLevels(t, func(t *testing.T) {
			y := poolInFences(t, r, p, x)
			for i, v := range y {
				if want := first[i]; exact && v != want && !(v != v && want != want) {
					t.Fatalf("%+v: element %d is %v, want %v", p, i, v, want)
				}
			}
			compare(t, fmt.Sprintf("%+v", p), y, first, 1e-4)
			first, exact = y, true
		})
	}
}

// anyPool draws a pooling of an image of two axes.
func anyPool(r *rand.Rand) PoolParams {
	for {
		p := PoolParams{Window: square(1, 1, 1, 1, 1, 0, 1).Window, Planes: 1 + r.IntN(4),
			Kind: PoolKind(r.IntN(2)), CountPad: r.IntN(2) == 0}
		for i := 1; i < 3; i++ {
			p.In[i], p.Kernel[i], p.Stride[i] = 1+r.IntN(40), 1+r.IntN(14), 1+r.IntN(3)
			p.Dilate[i] = max(1, r.IntN(4)-1)
			p.PadLo[i], p.PadHi[i] = r.IntN(4), r.IntN(16)
		}
		out, err := p.Window.setDefaults()
		if err != nil {
			continue
		}
		for i := 1; i < 3; i++ {
			if out[i]*p.Stride[i] < p.In[i]+p.PadLo[i]+p.PadHi[i] {
				out[i] += r.IntN(2)
			}
		}
		p.Out = out
		return p
	}
}

// poolInFences pools x, every slice where nothing before it, or after it, may be touched.
func poolInFences(t *testing.T, r *rand.Rand, p PoolParams, x []float32) []float32 {
	t.Helper()
	o, err := NewPool(p)
	if err != nil {
		t.Fatalf("%+v: %v", p, err)
	}
	atStart := r.IntN(2) == 0
	y := fencedCopy(t, make([]float32, p.Planes*volume(p.Out)), atStart)
	scratch := fencedCopy(t, make([]float32, o.ScratchLen()), atStart)
	vec.Fill(scratch, float32(math.NaN()))
	x = fencedCopy(t, x, atStart)
	for _, c := range r.Perm(o.Chunks()) {
		o.Run(c, x, y, scratch)
	}
	return append([]float32(nil), y...)
}
