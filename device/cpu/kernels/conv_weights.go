package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// convWeightsKernels are gradients of the weights of convolutions over one to three spatial axes.
var convWeightsKernels = map[opKey]builder{
	{op.FusedDomain, op.ConvWeightsGradient}: convWeights,
}

type convWeightsKernel struct {
	plain
	op   *conv.Weights
	wide int // floats of an image in bfloat16 that is widened first, 0 for others
}

func convWeights(r *request) (compute.Kernel, error) {
	x, d, _ := r.in(0)
	g, dg, _ := r.in(1)
	saved := d == tensor.BFloat16
	if !saved && d != tensor.Float32 || dg != tensor.Float32 || r.Out[0].DType != dg ||
		len(x) < 3 || len(x) > 5 || len(g) != len(x) || count(x) == 0 || count(g) == 0 {
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
	if k.op, err = conv.NewWeights(p); err == nil && saved && !k.op.TakesSaved() {
		k.wide = count(x)
	}
	return k, err
}

// Name implements Kernel.
func (k *convWeightsKernel) Name() string { return "conv.weights" }

// ScratchBytes implements Kernel: what all workers share, and each one's.
func (k *convWeightsKernel) ScratchBytes(workers int) int {
	return scratchBytes(k.op.PartsLen()) + scratchBytes(k.op.PackedLen()) + scratchBytes(k.wide) +
		workers*scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *convWeightsKernel) Bind(b compute.Binding) compute.Task {
	t := &convWeightsTask{op: k.op, args: conv.WeightsArgs{DY: tensor.As[float32](b.In[1]),
		DW: tensor.As[float32](b.Out[0])}}
	shared := func(floats int) []float32 {
		n := scratchBytes(floats)
		x := tensor.Cast[float32](b.Scratch[:n])[:floats]
		b.Scratch = b.Scratch[n:]
		return x
	}
	x := savedOf(b.In[0])
	t.args.X, t.args.Saved = x.wide, x.narrow
	if k.wide > 0 {
		t.saved, t.args.Saved = t.args.Saved, nil
		t.args.X = shared(k.wide)
	}
	t.args.Parts, t.args.Packed = shared(k.op.PartsLen()), shared(k.op.PackedLen())
	t.scratch = perWorker(b)
	return t
}

type convWeightsTask struct {
	op      *conv.Weights
	args    conv.WeightsArgs
	saved   []uint16 // an image to widen to args.X at each run
	scratch [][]float32
}

// Run implements Task.
func (t *convWeightsTask) Run(x *compute.Exec) error {
	if t.saved != nil {
		if err := x.For(blocks(len(t.saved)), (*convWeightsImage)(t)); err != nil {
			return err
		}
	}
	if n := t.op.Packs(); n > 0 {
		if err := x.For(n, (*convWeightsPacks)(t)); err != nil {
			return err
		}
	}
	if err := x.For(t.op.Chunks(), t); err != nil || t.op.Sums() == 0 {
		return err
	}
	return x.For(t.op.Sums(), (*convWeightsSums)(t))
}

// Chunk implements Region.
func (t *convWeightsTask) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }

// convWeightsImage is the stage that widens the image.
type convWeightsImage convWeightsTask

// Chunk implements Region.
func (t *convWeightsImage) Chunk(i, _ int) {
	lo, hi := block(i, len(t.saved))
	vec.BFloat16ToFloat32(t.args.X[lo:hi], t.saved[lo:hi])
}

// convWeightsPacks is the stage that packs for all chunks.
type convWeightsPacks convWeightsTask

// Chunk implements Region.
func (t *convWeightsPacks) Chunk(i, worker int) { t.op.Pack(i, &t.args, t.scratch[worker]) }

// convWeightsSums is the last stage of the task.
type convWeightsSums convWeightsTask

// Chunk implements Region.
func (t *convWeightsSums) Chunk(i, _ int) { t.op.Sum(i, &t.args) }
