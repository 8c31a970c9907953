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
	if !r.besideSaved() {
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
	return &reluGradientTask{tensor.As[float32](b.In[0]), savedOf(b.In[1]),
		tensor.As[float32](b.Out[0])}
}

type reluGradientTask struct {
	g  []float32
	y  saved
	dx []float32
}

// Run implements Task.
func (t *reluGradientTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.dx)), t) }

// Chunk implements Region.
func (t *reluGradientTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.dx))
	var wide [1 << 10]float32
	for ; lo < hi; lo += len(wide) {
		end := min(lo+len(wide), hi)
		y := t.y.piece(wide[:], lo, end)
		vec.Gate(t.dx[lo:end], t.g[lo:end], y, 1, 0, 0, float32(math.Inf(1)))
	}
}
