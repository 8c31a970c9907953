package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// reluGradientKernels are the gradients of activations by their results.
var reluGradientKernels = map[opKey]builder{{op.FusedDomain, op.ReluGradient}: reluGradient}

func reluGradient(r *request) (compute.Kernel, error) {
	_, d, _ := r.in(1)
	if !r.allFloat32(1) || d != tensor.Float32 && d != tensor.BFloat16 {
		return nil, nil
	}
	return &reluGradientKernel{}, nil
}

type reluGradientKernel struct {
	plain
	first
}

// Name implements Kernel.
func (*reluGradientKernel) Name() string { return "relu.gradient" }

// Bind implements Kernel.
func (*reluGradientKernel) Bind(b compute.Binding) compute.Task {
	t := &reluGradientTask{g: tensor.As[float32](b.In[0]), dx: tensor.As[float32](b.Out[0])}
	t.y, t.saved = narrowOrWide(b.In[1])
	return t
}

// narrowOrWide are the elements of a tensor of float32 or, in saved, of bfloat16.
func narrowOrWide(t *tensor.Tensor) (wide []float32, saved []uint16) {
	if t.DType == tensor.BFloat16 {
		return nil, tensor.Cast[uint16](t.Data)
	}
	return tensor.As[float32](t), nil
}

type reluGradientTask struct {
	g, y, dx []float32
	saved    []uint16 // y in bfloat16, instead of y
}

// Run implements Task.
func (t *reluGradientTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.dx)), t) }

// Chunk implements Region.
func (t *reluGradientTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.dx))
	if t.saved == nil {
		positive(t.dx[lo:hi], t.g[lo:hi], t.y[lo:hi])
		return
	}
	var wide [1 << 10]float32
	for ; lo < hi; lo += len(wide) {
		end := min(lo+len(wide), hi)
		y := wide[:end-lo]
		vec.BFloat16ToFloat32(y, t.saved[lo:end])
		positive(t.dx[lo:end], t.g[lo:end], y)
	}
}

// positive is g where y is above 0, and 0 elsewhere.
func positive(dx, g, y []float32) { vec.Gate(dx, g, y, 1, 0, 0, float32(math.Inf(1))) }
