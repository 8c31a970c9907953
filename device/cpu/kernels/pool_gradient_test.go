package kernels

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/internal/kernel/conv"
)

// TestRankedPlanes holds the gradient of pooling by ranks to the walk over windows, to the bit:
// equal elements, zeros of both signs, infinities and what is no number included.
func TestRankedPlanes(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	few := []float32{0, float32(math.Copysign(0, -1)), 1, -1, float32(math.Inf(1)),
		float32(math.Inf(-1)), math.MaxFloat32, -math.SmallestNonzeroFloat32}
	for i := range 500 {
		k, size := randomPool(r)
		x, g := make([]float32, k.in), make([]float32, k.out)
		for j := range x {
			if x[j] = few[r.IntN(len(few))]; i%2 == 0 {
				x[j] = float32(r.NormFloat64())
			}
		}
		if i%5 == 0 {
			x[r.IntN(len(x))] = float32(math.NaN())
		}
		for j := range g {
			g[j] = float32(r.NormFloat64())
		}
		want, got := make([]float32, k.in), make([]float32, k.in)
		k.plane(g, x, want, nil)
		k.ranked = true
		k.plane(g, x, got, make([]int64, k.in+k.width))
		for j, v := range want {
			if math.Float32bits(got[j]) != math.Float32bits(v) {
				t.Fatalf("%+v: gradient %d is %v by ranks, %v by windows", size, j, got[j], v)
			}
		}
	}
}

// randomPool is a kernel for a plane of a random size, without ranks.
func randomPool(r *rand.Rand) (*poolGradientKernel, conv.Window) {
	var w conv.Window
	k := &poolGradientKernel{planes: 1, in: 1, out: 1}
	for a := range 3 {
		w.Kernel[a], w.Stride[a], w.Dilate[a] = 1+r.IntN(3), 1+r.IntN(3), 1+r.IntN(2)
		w.PadLo[a], w.PadHi[a] = r.IntN(w.Kernel[a]), r.IntN(w.Kernel[a])
		extent := (w.Kernel[a]-1)*w.Dilate[a] + 1
		w.In[a] = extent + r.IntN(9)
		k.size[a] = (w.In[a]+w.PadLo[a]+w.PadHi[a]-extent)/w.Stride[a] + 1
		k.in, k.out = k.in*w.In[a], k.out*k.size[a]
	}
	k.width = w.In[2]
	k.walk(&w)
	return k, w
}
