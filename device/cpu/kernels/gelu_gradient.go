package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// geluGradientKernels are the gradient of Gelu in its exact form.
var geluGradientKernels = map[opKey]builder{{op.FusedDomain, op.GeluGradient}: geluGradient}

func geluGradient(r *request) (compute.Kernel, error) {
	if !r.besideSaved() {
		return nil, nil
	}
	return &geluGradientKernel{}, nil
}

type geluGradientKernel struct {
	plain
	first
}

// Name implements Kernel.
func (*geluGradientKernel) Name() string { return "gelu.gradient" }

// Bind implements Kernel.
func (*geluGradientKernel) Bind(b compute.Binding) compute.Task {
	return &geluGradientTask{tensor.As[float32](b.In[0]), savedOf(b.In[1]),
		tensor.As[float32](b.Out[0])}
}

type geluGradientTask struct {
	g  []float32
	x  saved
	dx []float32
}

// Run implements Task.
func (t *geluGradientTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.dx)), t) }

// geluPiece is the number of elements that each step of a slope takes at a time: all steps then
// stay in the first cache.
const geluPiece = 512

// Chunk implements Region.
func (t *geluGradientTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.dx))
	var wide [geluPiece]float32
	for ; lo < hi; lo += geluPiece {
		end := min(lo+geluPiece, hi)
		geluSlopes(t.dx[lo:end], t.g[lo:end], t.x.piece(wide[:], lo, end))
	}
}

// geluSlopes computes dx = g·(Φ(x) + x·φ(x)). Beyond farGelu the slope is 0 or 1 in float32, and
// there squares of x must not overflow.
func geluSlopes(dx, g, x []float32) {
	const farGelu = 16
	var near, cdf, pdf [geluPiece]float32
	v, a, b := near[:len(x)], cdf[:len(x)], pdf[:len(x)]
	vec.Clip(v, x, -farGelu, farGelu)
	vec.MulScalar(a, v, math.Sqrt2/2)
	vec.Erf(a, a)
	vec.Affine(a, a, 0.5, 0.5)
	vec.Mul(b, v, v)
	vec.MulScalar(b, b, -0.5)
	vec.Exp(b, b)
	vec.MulScalar(v, v, float32(1/math.Sqrt(2*math.Pi)))
	vec.FMA(a, v, b, a)
	vec.Mul(dx, g, a)
}
