package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// pixel16Kernels are the operators on images of bfloat16 with their channels in the last axis, on
// processors with tiles: weir's NhwcConv of two spatial axes with one group, or one group for each
// channel, with constant weights, and NhwcGlobalAveragePool. NhwcMaxPool is among the operators on
// bytes.
var pixel16Kernels = map[opKey]builder{
	{op.FusedDomain, "NhwcConv"}:              conv16,
	{op.FusedDomain, "NhwcGlobalAveragePool"}: mean16,
}

// conv16Call is what the kernels of a convolution know of the call.
type conv16Call struct {
	weight, scale, bias *tensor.Tensor
	resid               bool
}

// Absorbed implements [compute.Absorbing].
func (k *conv16Call) Absorbed() []int { return []int{1} }

// maybeFloats are the elements of a tensor, nil for none.
func maybeFloats(t *tensor.Tensor) []float32 {
	if t == nil {
		return nil
	}
	return tensor.As[float32](t)
}

func conv16(r *request) (compute.Kernel, error) {
	planar := r.Call.Attrs.Bool("planar", false)
	x, dx, ok := r.in(0)
	w, dw, _ := r.in(1)
	_, _, bias := r.in(2)
	_, _, resid := r.in(3)
	_, _, scale := r.in(convScale)
	k := conv16Call{weight: r.constant(1), bias: r.constant(2), scale: r.constant(convScale),
		resid: resid}
	if !ok || dw != tensor.Float32 || planar != (dx == tensor.Float32) || len(x) != 4 ||
		len(w) != 4 || count(x) == 0 || count(w) == 0 || k.weight == nil ||
		bias && k.bias == nil || scale && k.scale == nil || !conv.HasNHWC16() {
		return nil, nil
	}
	n, c, image := x[0], x[3], x[1:3]
	if planar {
		c, image = x[1], x[2:]
	}
	win, group, ok := convWindow(r.Call, image, w[2:])
	var e gemm.Epilogue
	if !ok || !setActivation(r.Call, &e) {
		return nil, nil
	}
	p := conv.Params{Window: win, N: n, C: c, M: w[0], Group: group, Bias: bias, Residual: resid,
		Clamp: e.Clamp, Lo: e.Lo, Hi: e.Hi, Map: e.Map}
	if r.Call.Attrs.String("activation", "") == "Silu" {
		p.Map, p.Silu = nil, true
	}
	switch {
	case group == 1 && (!planar || c <= 4 && max(win.Dilate[1], win.Dilate[2]) <= 1):
		o, err := conv.NewNHWC16(p, planar)
		return &halfConv{conv16Call: k, op: o}, err
	case group == c && w[1] == 1 && w[0] == c && !planar && !resid &&
		w[2]*w[3] <= conv.MostWindow16:
		o, err := conv.NewWindows16(p, conv.Depthwise16)
		return &depthwise16{conv16Call: k, op: o}, err
	}
	return nil, nil
}

// halfConv is a convolution of one group.
type halfConv struct {
	conv16Call
	op *conv.NHWC16
}

// Name implements Kernel.
func (k *halfConv) Name() string { return "conv.bf16.nhwc" }

// InPlace implements [compute.InPlace]: each element of the residual is read where the result goes.
func (k *halfConv) InPlace() []int {
	if k.resid {
		return []int{3}
	}
	return nil
}

// PackedBytes implements Kernel.
func (k *halfConv) PackedBytes() int { return 4 * k.op.PackedLen() }

// Pack implements Kernel.
func (k *halfConv) Pack(dst []byte) {
	k.op.Pack(tensor.Cast[float32](dst[:k.PackedBytes()]), maybeFloats(k.weight),
		maybeFloats(k.scale))
}

// Packing implements [compute.Packing].
func (k *halfConv) Packing() any {
	type packing struct {
		weight, scale *tensor.Tensor
		layout        conv.NHWC16Layout
	}
	return packing{k.weight, k.scale, k.op.Layout()}
}

// imageBytes is the scratch that the copy of the image takes.
func (k *halfConv) imageBytes() int { return (2*k.op.ImageLen() + 63) &^ 63 }

// ScratchBytes implements Kernel: the copy of the image, and each worker's.
func (k *halfConv) ScratchBytes(workers int) int {
	return k.imageBytes() + workers*scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *halfConv) Bind(b compute.Binding) compute.Task {
	image := k.imageBytes()
	t := &halfTask{of: k, args: &conv.NHWC16Args{
		Image: tensor.Cast[uint16](b.Scratch[:2*k.op.ImageLen()]),
		W:     tensor.Cast[float32](b.Packed[:k.PackedBytes()]),
		Bias:  maybeFloats(k.bias),
		Y:     tensor.Cast[uint16](b.Out[0].Data),
	}}
	if b.In[0].DType == tensor.Float32 {
		t.args.Planes = tensor.As[float32](b.In[0])
	} else {
		t.args.X = tensor.Cast[uint16](b.In[0].Data)
	}
	if k.resid {
		t.args.Residual = tensor.Cast[uint16](b.In[3].Data)
	}
	b.Scratch = b.Scratch[image:]
	t.scratch = perWorker(b)
	t.image.t = t
	return t
}

type halfTask struct {
	of      *halfConv
	args    *conv.NHWC16Args
	scratch [][]float32
	image   halfImage
}

// halfImage is the region that copies the image.
type halfImage struct{ t *halfTask }

// Chunk implements Region.
func (r *halfImage) Chunk(i, _ int) { r.t.of.op.FillImage(i, r.t.args) }

// Run implements Task.
func (t *halfTask) Run(x *compute.Exec) error {
	t.args.Begin()
	if n := t.of.op.ImageChunks(); n > 0 {
		if err := x.For(n, &t.image); err != nil {
			return err
		}
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *halfTask) Chunk(i, worker int) { t.of.op.Run(i, t.args, t.scratch[worker]) }

// depthwise16 is a convolution of one group a channel.
type depthwise16 struct {
	conv16Call
	op *conv.Windows16
}

// Name implements Kernel.
func (k *depthwise16) Name() string { return "conv.bf16.nhwc.depthwise" }

// PackedBytes implements Kernel.
func (k *depthwise16) PackedBytes() int { return 4 * k.op.PackedLen() }

// Pack implements Kernel.
func (k *depthwise16) Pack(dst []byte) {
	k.op.Pack(tensor.Cast[float32](dst[:k.PackedBytes()]), maybeFloats(k.weight),
		maybeFloats(k.bias), maybeFloats(k.scale))
}

// ScratchBytes implements Kernel.
func (k *depthwise16) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *depthwise16) Bind(b compute.Binding) compute.Task {
	return &windows16Task{op: k.op, scratch: perWorker(b), args: conv.Window16Args{
		X: tensor.Cast[uint16](b.In[0].Data),
		W: tensor.Cast[float32](b.Packed[:k.PackedBytes()]),
		Y: tensor.Cast[uint16](b.Out[0].Data),
	}}
}

// windows16Task runs windows.
type windows16Task struct {
	op      *conv.Windows16
	args    conv.Window16Args
	scratch [][]float32
}

// Run implements Task.
func (t *windows16Task) Run(x *compute.Exec) error { return x.For(t.op.Chunks(), t) }

// Chunk implements Region.
func (t *windows16Task) Chunk(i, worker int) { t.op.Run(i, &t.args, t.scratch[worker]) }

// pool16 takes the greatest numbers, or the means of images.
type pool16 struct {
	name string
	op   *conv.Windows16
}

// Name implements Kernel.
func (k *pool16) Name() string { return k.name }

// PackedBytes implements Kernel.
func (k *pool16) PackedBytes() int { return 0 }

// Pack implements Kernel.
func (k *pool16) Pack([]byte) {}

// ScratchBytes implements Kernel.
func (k *pool16) ScratchBytes(workers int) int { return workers * scratchBytes(k.op.ScratchLen()) }

// Bind implements Kernel.
func (k *pool16) Bind(b compute.Binding) compute.Task {
	t := &windows16Task{op: k.op, scratch: perWorker(b),
		args: conv.Window16Args{X: tensor.Cast[uint16](b.In[0].Data)}}
	if b.Out[0].DType == tensor.Float32 {
		t.args.Means = tensor.As[float32](b.Out[0])
	} else {
		t.args.Y = tensor.Cast[uint16](b.Out[0].Data)
	}
	return t
}

// max16 is NhwcMaxPool of bfloat16.
func max16(r *request, x []int) (compute.Kernel, error) {
	win, ok := poolWindow(r.Call, x[1:3])
	if !ok || !conv.HasNHWC16() {
		return nil, nil
	}
	o, err := conv.NewWindows16(conv.Params{Window: win, N: x[0], C: x[3]}, conv.Max16)
	if err != nil {
		return nil, nil // windows that nothing can be said about are the reference's
	}
	if out := r.outShape(); o.Out() != [2]int{out[1], out[2]} || emptyWindows(&win) {
		return nil, nil // rounded up, or of padding alone
	}
	return &pool16{name: "pool.bf16.nhwc", op: o}, nil
}

// emptyWindows reports whether a window may see nothing of the image.
func emptyWindows(w *conv.Window) bool {
	return slices.ContainsFunc([]int{1, 2}, func(axis int) bool {
		return max(w.PadLo[axis], w.PadHi[axis]) >= w.Kernel[axis] || w.Dilate[axis] > 1
	})
}

func mean16(r *request) (compute.Kernel, error) {
	x, d, ok := r.in(0)
	if !ok || d != tensor.BFloat16 || len(x) != 4 || count(x) == 0 || !conv.HasNHWC16() {
		return nil, nil
	}
	p := conv.Params{N: x[0], C: x[3], Window: conv.Window{In: [3]int{1, x[1], x[2]}}}
	o, err := conv.NewWindows16(p, conv.Mean16)
	return &pool16{name: "mean.bf16.nhwc", op: o}, err
}
