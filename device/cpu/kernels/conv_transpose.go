package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/tensor"
)

// convTransposeKernels are ConvTranspose (ONNX 1, 11, 22) with constant weights and explicit pads.
var convTransposeKernels = map[opKey]builder{{"", "ConvTranspose"}: convTranspose}

type convTransposeKernel struct {
	op     *conv.Transpose
	weight *tensor.Tensor
	bias   bool
}

func convTranspose(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(0)
	w, _, _ := r.in(1)
	if !r.allFloat32(-1) || len(x) < 3 || len(x) > 5 || len(w) != len(x) || count(x) == 0 ||
		r.constant(1) == nil {
		return nil, nil
	}
	win, err := r.Call.TransposedWindow(w[2:])
	if err != nil || win.Output != nil || win.Same() {
		return nil, nil
	}
	group, err := r.Call.Group()
	if err != nil {
		return nil, nil
	}
	k := &convTransposeKernel{weight: r.constant(1)}
	_, _, k.bias = r.in(2)
	p := conv.TransposeParams{
		Window: threeAxes(&win.Window, x[2:]),
		N:      x[0],
		C:      x[1],
		M:      w[1] * group,
		Group:  group,
		Bias:   k.bias,
	}
	copy(p.OutPad[5-len(x):], win.Extra)
	k.op, err = conv.NewTranspose(p)
	return k, err
}

// Name implements Kernel.
func (k *convTransposeKernel) Name() string { return "conv.transpose" }

// Absorbed implements [compute.Absorbing].
func (k *convTransposeKernel) Absorbed() []int { return absorbed(true) }

// PackedBytes implements Kernel.
func (k *convTransposeKernel) PackedBytes() int { return 4 * k.op.PackedLen() }

// Pack implements Kernel.
func (k *convTransposeKernel) Pack(dst []byte) {
	k.op.PackWeights(tensor.Cast[float32](dst), tensor.As[float32](k.weight))
}

// ScratchBytes implements Kernel.
func (k *convTransposeKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *convTransposeKernel) Bind(b compute.Binding) compute.Task {
	t := &convTransposeTask{op: k.op, scratch: perWorker(b)}
	t.args.X, t.args.W = tensor.As[float32](b.In[0]), tensor.Cast[float32](b.Packed)
	t.args.Y = tensor.As[float32](b.Out[0])
	if k.bias {
		t.args.Bias = tensor.As[float32](b.In[2])
	}
	return t
}

type convTransposeTask struct {
	op      *conv.Transpose
	args    conv.Args
	scratch [][]float32
}

// Run implements Task.
func (t *convTransposeTask) Run(x *compute.Exec) error { return x.For(t.op.Chunks(), t) }

// Chunk implements Region.
func (t *convTransposeTask) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }
