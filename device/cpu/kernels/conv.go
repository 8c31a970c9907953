package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/tensor"
)

// convKernels are Conv (ONNX 1, 11, 22) with one to three spatial axes and weir's fused form.
var convKernels = map[opKey]builder{
	{"", "Conv"}: convolution, {"weir", "Conv"}: convolution,
}

// convKernel is a convolution that internal/kernel/conv computes, its weights packed at load when
// they are constant, else at each run.
type convKernel struct {
	op     *conv.Convolution
	weight *tensor.Tensor
	// what each output channel's weights are multiplied by as they are packed, nil for none
	scale *tensor.Tensor
	bias  bool
	resid bool

	format   gemm.Format
	params   conv.Params // as the cost model was asked
	measured bool        // whether it was overruled, or confirmed, by measuring
}

// convScale is the input of weir:Conv that scales weights.
const convScale = 4

func convolution(r *request) (compute.Kernel, error) {
	x, _, _ := r.in(0)
	w, _, _ := r.in(1)
	if !r.allFloat32(-1) || len(x) < 3 || len(x) > 5 || len(w) != len(x) || count(x) == 0 ||
		count(w) == 0 {
		return nil, nil
	}
	win, group, ok := convWindow(r.Call, x[2:], w[2:])
	if !ok {
		return nil, nil
	}
	k := &convKernel{weight: r.constant(1), scale: r.constant(convScale)}
	m, turned := w[0], r.Call.Attrs.Bool("turned", false)
	if turned {
		if m = w[1]; k.weight != nil || group > 1 {
			return nil, nil
		}
	}
	if _, _, scaled := r.in(convScale); scaled && (k.scale == nil || k.weight == nil) {
		return nil, nil
	}
	_, _, k.bias = r.in(2)
	_, _, k.resid = r.in(3)
	var e gemm.Epilogue
	if !setActivation(r.Call, &e) {
		return nil, nil
	}
	k.format = formatOf(r.Call)
	if k.format != gemm.F32 && group == x[1] {
		return nil, nil
	}
	k.params = conv.Params{
		Window:   win,
		N:        x[0],
		C:        x[1],
		M:        m,
		Group:    group,
		Format:   k.format,
		Bias:     k.bias,
		Residual: k.resid,
		Reused:   k.weight != nil,
		Turned:   turned,
		Clamp:    e.Clamp,
		Lo:       e.Lo,
		Hi:       e.Hi,
		Map:      e.Map,
	}
	var err error
	k.op, err = conv.New(k.choose(r.Choices))
	return k, err
}

// choose returns the parameters with the way that was measured, if there is one.
func (k *convKernel) choose(c compute.Choices) conv.Params {
	p := k.params
	if len(c) == 0 {
		return p
	}
	if way := conv.Algorithm(c[p.Problem()]); way != "" && slices.Contains(p.Algorithms(), way) {
		p.Algorithm, k.measured = way, true
	}
	return p
}

// Problem implements [compute.Choosing].
func (k *convKernel) Problem() string { return k.params.Problem() }

// Algorithms implements [compute.Choosing].
func (k *convKernel) Algorithms() []string {
	var names []string
	for _, w := range k.params.Algorithms() {
		names = append(names, string(w))
	}
	return names
}

// Algorithm implements [compute.Choosing].
func (k *convKernel) Algorithm() string { return string(k.op.Algorithm()) }

// Taken implements [compute.Fewer].
func (k *convKernel) Taken() int64 { return k.op.Taken() }

// Measured implements [compute.Choosing].
func (k *convKernel) Measured() bool { return k.measured }

// InPlace implements [compute.InPlace]: each element of the residual is read where the result goes.
func (k *convKernel) InPlace() []int {
	if k.resid {
		return []int{3}
	}
	return nil
}

// Name implements Kernel.
func (k *convKernel) Name() string {
	name := "conv." + string(k.op.Algorithm())
	if k.format == gemm.BF16 {
		name += ".bf16"
	}
	return name
}

// Absorbed implements [compute.Absorbing].
func (k *convKernel) Absorbed() []int { return absorbed(k.weight != nil) }

// PackedBytes implements Kernel.
func (k *convKernel) PackedBytes() int {
	if k.weight == nil {
		return 0
	}
	return 4 * k.op.PackedLen()
}

// Packing implements [compute.Packing].
func (k *convKernel) Packing() any {
	type packing struct {
		weight, scale *tensor.Tensor
		layout        conv.Layout
	}
	return packing{k.weight, k.scale, k.op.Layout()}
}

// ScratchBytes implements Kernel: each worker's, and when weights are packed at each run, those,
// for which workers need scratch before.
func (k *convKernel) ScratchBytes(workers int) int {
	if k.weight != nil {
		return workers * scratchBytes(k.op.ScratchLen())
	}
	return workers*scratchBytes(max(k.op.ScratchLen(), k.op.RepackLen())) +
		scratchBytes(k.op.PackedLen())
}

// Bind implements Kernel.
func (k *convKernel) Bind(b compute.Binding) compute.Task {
	t := &convTask{op: k.op}
	t.args.X, t.args.Y = tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	if k.bias {
		t.args.Bias = tensor.As[float32](b.In[2])
	}
	if k.resid {
		t.args.Residual = tensor.As[float32](b.In[3])
	}
	if k.weight != nil {
		t.args.W = tensor.Cast[float32](b.Packed)
	} else {
		packed := scratchBytes(k.op.PackedLen())
		t.args.W = tensor.Cast[float32](b.Scratch[:packed])
		b.Scratch = b.Scratch[packed:]
		t.raw = tensor.As[float32](b.In[1])
	}
	t.scratch = perWorker(b)
	return t
}

type convTask struct {
	op      *conv.Convolution
	args    conv.Args
	raw     []float32 // weights to pack at each run, nil when they are packed already
	scratch [][]float32
}

// Run implements Task.
func (t *convTask) Run(x *compute.Exec) error {
	if t.raw != nil {
		if err := x.For(t.packings(), (*convPacking)(t)); err != nil {
			return err
		}
	}
	return x.For(t.op.Chunks(), t)
}

// packings is how many chunks weights are packed in.
func (t *convTask) packings() int { return partsOf(4*len(t.raw), t.op.Panels()) }

// convPacking packs weights.
type convPacking convTask

// Chunk implements Region: some panels.
func (t *convPacking) Chunk(i, worker int) {
	n, panels := (*convTask)(t).packings(), t.op.Panels()
	from, to := panels*i/n, panels*(i+1)/n
	t.op.RepackPanels(t.args.W, t.op.From(t.raw, from), from, to, t.scratch[worker])
}

// Chunk implements Region.
func (t *convTask) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }

// Pack implements Kernel.
func (k *convKernel) Pack(dst []byte) { packParts(k, dst) }

// PackParts implements [compute.Parted].
func (k *convKernel) PackParts() (n, scratch int) {
	if k.weight == nil {
		return 0, 0
	}
	n, scratch = partsOf(k.PackedBytes(), k.op.Panels()), k.op.RepackLen()
	if k.scale != nil {
		scratch += k.rowsOfPart(n) * k.rowLen()
	}
	return n, scratch
}

// rowLen is the number of weights of an output channel.
func (k *convKernel) rowLen() int { return k.weight.Len() / k.weight.Shape[0] }

// rowsOfPart is the most output channels that one of n parts has.
func (k *convKernel) rowsOfPart(n int) (most int) {
	for i := range n {
		from, to := k.panelsOfPart(i, n)
		most = max(most, k.op.PanelStart(to)-k.op.PanelStart(from))
	}
	return most
}

// panelsOfPart are those of part i of n.
func (k *convKernel) panelsOfPart(i, n int) (from, to int) {
	return k.op.Panels() * i / n, k.op.Panels() * (i + 1) / n
}

// PackPart implements [compute.Parted]: some panels of output channels.
func (k *convKernel) PackPart(dst []byte, part int, scratch []float32) {
	n := partsOf(k.PackedBytes(), k.op.Panels())
	from, to := k.panelsOfPart(part, n)
	first, end, each := k.op.PanelStart(from), k.op.PanelStart(to), k.rowLen()
	w := tensor.As[float32](k.weight)[first*each : end*each]
	if k.scale != nil {
		w = scaledRows(scratch[k.op.RepackLen():], w, tensor.As[float32](k.scale)[first:end])
	}
	k.op.RepackPanels(tensor.Cast[float32](dst), w, from, to, scratch)
}

// scaledRows writes the rows of a matrix, each times a number, and returns them.
func scaledRows(dst, w, by []float32) []float32 {
	n := len(w) / len(by)
	for i, s := range by {
		to := dst[i*n:][:n]
		for j, v := range w[i*n:][:n] {
			to[j] = v * s
		}
	}
	return dst[:len(w)]
}
