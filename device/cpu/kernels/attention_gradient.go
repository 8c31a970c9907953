package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/attention"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// attentionGradientKernel is weir:AttentionGradient.
type attentionGradientKernel struct {
	plain
	of *attentionKernel // what is differentiated
	op *attention.Gradient
}

func attentionGradient(r *request) (compute.Kernel, error) {
	result, _, _ := r.in(op.AttentionGradientY)
	of := fusedParams(r, result)
	if of == nil {
		return nil, nil
	}
	for i := op.AttentionGradientDY; i <= op.AttentionGradientStats; i++ {
		if _, d, ok := r.in(i); !ok || d != tensor.Float32 {
			return nil, nil
		}
	}
	if !wants(r, 0) || !wants(r, 1) || !wants(r, 2) {
		return nil, nil
	}
	of.params.Stats = true
	g, err := attention.NewGradient(of.params)
	if err != nil {
		return nil, nil
	}
	return &attentionGradientKernel{of: of, op: g}, nil
}

// Name implements Kernel.
func (*attentionGradientKernel) Name() string { return "attention.gradient" }

// ScratchBytes implements Kernel.
func (k *attentionGradientKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *attentionGradientKernel) Bind(b compute.Binding) compute.Task {
	t := &attentionGradientTask{op: k.op, scratch: perWorker(b)}
	float := func(i int) []float32 { return tensor.As[float32](b.In[i]) }
	a := &t.args
	a.Args = k.of.operands(b.In)
	a.DY, a.Y = float(op.AttentionGradientDY), float(op.AttentionGradientY)
	a.Stats = float(op.AttentionGradientStats)
	for i, p := range []*[]float32{&a.DQ, &a.DK, &a.DV} {
		*p = tensor.As[float32](b.Out[i])
	}
	return t
}

type attentionGradientTask struct {
	op      *attention.Gradient
	args    attention.GradientArgs
	phase   int
	scratch [][]float32
}

// Run implements Task.
func (t *attentionGradientTask) Run(x *compute.Exec) error {
	for t.phase = range t.op.Phases() {
		if err := x.For(t.op.Chunks(), t); err != nil {
			return err
		}
	}
	return nil
}

// Chunk implements Region.
func (t *attentionGradientTask) Chunk(i, worker int) {
	t.op.Run(t.phase, i, &t.args, t.scratch[worker])
}
