package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// convTransposeKernels are ConvTranspose (ONNX 1, 11, 22) with explicit pads, and weir's, which may
// multiply in bfloat16, without an activation.
var convTransposeKernels = map[opKey]builder{
	{"", "ConvTranspose"}:             convTranspose,
	{op.FusedDomain, "ConvTranspose"}: convTranspose,
}

// convTransposeKernel is a transposed convolution that internal/kernel/conv computes, its weights
// packed at load when they are constant, else at each run.
type convTransposeKernel struct {
	op     *conv.Transpose
	weight *tensor.Tensor
	format gemm.Format
	bias   bool
}

func convTranspose(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(0)
	w, _, _ := r.in(1)
	if !r.allFloat32(-1) || len(x) < 3 || len(x) > 5 || len(w) != len(x) || count(x) == 0 ||
		count(w) == 0 {
		return nil, nil
	}
	win, err := r.Call.TransposedWindow(w[2:])
	if err != nil || win.Output != nil || win.Same() || r.Call.Attrs.Has("activation") {
		return nil, nil
	}
	group, err := r.Call.Group()
	if err != nil {
		return nil, nil
	}
	k := &convTransposeKernel{weight: r.constant(1), format: formatOf(r.Call)}
	_, _, k.bias = r.in(2)
	p := conv.TransposeParams{
		Window: threeAxes(&win.Window, x[2:]),
		N:      x[0],
		C:      x[1],
		M:      w[1] * group,
		Group:  group,
		Bias:   k.bias,
		Format: k.format,
		Reused: k.weight != nil,
	}
	copy(p.OutPad[5-len(x):], win.Extra)
	k.op, err = conv.NewTranspose(p)
	return k, err
}

// Name implements Kernel.
func (k *convTransposeKernel) Name() string {
	if k.format == gemm.BF16 {
		return "conv.transpose.bf16"
	}
	return "conv.transpose"
}

// Absorbed implements [compute.Absorbing].
func (k *convTransposeKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// PackedBytes implements Kernel.
func (k *convTransposeKernel) PackedBytes() int {
	if k.weight == nil {
		return 0
	}
	return 4 * k.op.PackedLen()
}

// Pack implements Kernel.
func (k *convTransposeKernel) Pack(dst []byte) {
	if k.weight == nil {
		return
	}
	k.op.PackWeights(tensor.Cast[float32](dst), tensor.As[float32](k.weight))
}

// ScratchBytes implements Kernel.
func (k *convTransposeKernel) ScratchBytes(workers int) int {
	n := workers * scratchBytes(k.op.ScratchLen())
	if k.weight == nil {
		n += scratchBytes(k.op.PackedLen())
	}
	return n
}

// Bind implements Kernel.
func (k *convTransposeKernel) Bind(b compute.Binding) compute.Task {
	t := &convTransposeTask{op: k.op}
	t.args.X, t.args.Y = tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	if k.weight != nil {
		t.args.W = tensor.Cast[float32](b.Packed)
	} else {
		packed := scratchBytes(k.op.PackedLen())
		t.args.W = tensor.Cast[float32](b.Scratch[:packed])
		b.Scratch = b.Scratch[packed:]
		t.raw = tensor.As[float32](b.In[1])
	}
	t.scratch = perWorker(b)
	if k.bias {
		t.args.Bias = tensor.As[float32](b.In[2])
	}
	return t
}

type convTransposeTask struct {
	op      *conv.Transpose
	args    conv.Args
	raw     []float32 // weights to pack at each run, nil when they are packed already
	scratch [][]float32
}

// Run implements Task.
func (t *convTransposeTask) Run(x *compute.Exec) error {
	if t.raw != nil {
		t.op.PackWeights(t.args.W, t.raw)
	}
	return x.For(t.op.Chunks(), t)
}

// Chunk implements Region.
func (t *convTransposeTask) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }
