package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// convWeightsKernels are gradients of the weights of convolutions over one to three spatial axes.
var convWeightsKernels = map[opKey]builder{
	{op.FusedDomain, op.ConvWeightsGradient}: convWeights,
}

type convWeightsKernel struct {
	plain
	op *conv.Weights
}

func convWeights(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(0)
	g, _, _ := r.in(1)
	if !r.allFloat32(-1) || len(x) < 3 || len(x) > 5 || len(g) != len(x) || count(x) == 0 ||
		count(g) == 0 {
		return nil, nil
	}
	w, group, err := r.Call.WeightsWindow(len(x) - 2)
	if err != nil {
		return nil, err
	}
	p := conv.WeightsParams{Window: threeAxes(&w, x[2:]), Out: [3]int{1, 1, 1}, N: x[0], C: x[1],
		M: g[1], Group: group, Format: formatOf(r.Call)}
	copy(p.Out[5-len(x):], g[2:])
	k := &convWeightsKernel{}
	k.op, err = conv.NewWeights(p)
	return k, err
}

// Name implements Kernel.
func (k *convWeightsKernel) Name() string { return "conv.weights" }

// ScratchBytes implements Kernel: what all workers share, and each one's.
func (k *convWeightsKernel) ScratchBytes(workers int) int {
	return scratchBytes(k.op.PartsLen()) + workers*scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *convWeightsKernel) Bind(b compute.Binding) compute.Task {
	parts := scratchBytes(k.op.PartsLen())
	t := &convWeightsTask{op: k.op, args: conv.WeightsArgs{X: tensor.As[float32](b.In[0]),
		DY: tensor.As[float32](b.In[1]), DW: tensor.As[float32](b.Out[0]),
		Parts: tensor.Cast[float32](b.Scratch[:parts])}}
	b.Scratch = b.Scratch[parts:]
	t.scratch = perWorker(b)
	return t
}

type convWeightsTask struct {
	op      *conv.Weights
	args    conv.WeightsArgs
	scratch [][]float32
}

// Run implements Task.
func (t *convWeightsTask) Run(x *compute.Exec) error {
	if err := x.For(t.op.Chunks(), t); err != nil || t.op.Sums() == 0 {
		return err
	}
	return x.For(t.op.Sums(), (*convWeightsSums)(t))
}

// Chunk implements Region.
func (t *convWeightsTask) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }

// convWeightsSums is the second stage of the task.
type convWeightsSums convWeightsTask

// Chunk implements Region.
func (t *convWeightsSums) Chunk(i, _ int) { t.op.Sum(i, &t.args) }
