package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/philox"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// dropoutKernels drop elements while a model is trained.
var dropoutKernels = map[opKey]builder{{op.FusedDomain, op.CountedDropout}: dropout}

func dropout(r *request) (compute.Kernel, error) {
	if r.In[0].DType != tensor.Float32 {
		return nil, nil
	}
	border, scale, node, err := r.Call.Dropping()
	if err != nil {
		return nil, err
	}
	return &dropoutKernel{border: border, scale: scale, node: node}, nil
}

type dropoutKernel struct {
	plain
	first
	border, node uint32
	scale        float32
}

// Name implements Kernel.
func (*dropoutKernel) Name() string { return "dropout" }

// Bind implements Kernel.
func (k *dropoutKernel) Bind(b compute.Binding) compute.Task {
	return &dropoutTask{k, tensor.As[float32](b.In[0]), tensor.As[int64](b.In[1]),
		tensor.As[float32](b.Out[0])}
}

type dropoutTask struct {
	of *dropoutKernel
	x  []float32
	at []int64
	y  []float32
}

// Run implements Task.
func (t *dropoutTask) Run(x *compute.Exec) error { return x.For(blocks(len(t.y)), t) }

// Chunk implements Region.
func (t *dropoutTask) Chunk(i, _ int) {
	lo, hi := block(i, len(t.y))
	s := philox.Stream{Seed: uint64(t.at[0]), Node: t.of.node, Step: uint64(t.at[1])}
	philox.Drop(t.y[lo:hi], t.x[lo:hi], s, lo, t.of.border, t.of.scale)
}
