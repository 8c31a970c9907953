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
	if !r.allFloat32(-1) {
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
	return &reluGradientTask{tensor.As[float32](b.In[0]), tensor.As[float32](b.In[1]),
		tensor.As[float32](b.Out[0])}
}

type reluGradientTask struct{ g, y, dx []float32 }

// Run implements Task.
func (t *reluGradientTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.dx)), t) }

// Chunk implements Region.
func (t *reluGradientTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.dx))
	vec.Gate(t.dx[lo:hi], t.g[lo:hi], t.y[lo:hi], 1, 0, 0, float32(math.Inf(1)))
}
