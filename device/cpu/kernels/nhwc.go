package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/conv"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// pixelKernels are the operators on images of bytes with their channels in the last axis: weir's
// NhwcMaxPool, and NhwcQLinearConv with one group, or one group for each channel, with constant
// weights, scales and zero points, and the same zero point for all weights.
var pixelKernels = map[opKey]builder{
	{op.FusedDomain, "NhwcQLinearConv"}: nhwcConv, {op.FusedDomain, "NhwcMaxPool"}: nhwcMaxPool,
}

// pixelCall is what the kernels of a convolution know of the call.
type pixelCall struct {
	weight       *tensor.Tensor
	m            int // output channels
	in           productInputs
	bias         int
	signed       bool // whether the results are
	then         *rescaling
	flipX, flipW bool
	shift        int32 // of the weights as they are multiplied: their zero point, negated
}

func nhwcConv(r *request) (compute.Kernel, error) {
	x, _, ok := r.in(0)
	if !ok {
		return nil, nil
	}
	return nhwcConvOf(r, x)
}

// vectorsConv is a convolution, in ONNX's layout, of several images of one pixel: as pixels of one
// image with its channels in the last axis they lie where they did, and its rows fill vectors.
func vectorsConv(r *request) (compute.Kernel, error) {
	x, _, ok := r.in(0)
	if !ok || len(x) != 4 || x[0] < 2 || x[2]*x[3] != 1 {
		return nil, nil
	}
	if w, _, ok := r.in(op.QLinearB); !ok || len(w) != 4 || w[1] != x[1] || w[2]*w[3] != 1 ||
		count(r.outShape()) != x[0]*w[0] {
		return nil, nil
	}
	return nhwcConvOf(r, []int{1, 1, x[0], x[1]})
}

// nhwcConvOf is the call with an image of that shape.
func nhwcConvOf(r *request, x []int) (compute.Kernel, error) {
	in := qLinearInputs
	_, dx, _ := r.in(0)
	w, dw, ok := r.in(in.b)
	k := pixelCall{
		weight: r.constant(in.b),
		in:     in,
		bias:   op.QLinearBias,
		flipX:  dx == tensor.Int8,
		flipW:  dw == tensor.Uint8,
		signed: r.Out[0].DType == tensor.Int8,
	}
	if !conv.HasNHWC() || !ok || k.weight == nil || len(x) != 4 || len(w) != 4 || count(x) == 0 ||
		count(w) == 0 || !isByte(dx) || !isByte(dw) {
		return nil, nil
	}
	k.m = w[0]
	if b, d, ok := r.in(k.bias); !in.serve(r, k.m) || !k.takeShift(r) || !in.constants(r, k.bias) ||
		ok && (d != tensor.Int32 || count(b) != k.m) || !k.takeThen(r) {
		return nil, nil
	}
	planar := r.Call.Attrs.Bool("planar", false)
	n, c, image := x[0], x[3], x[1:3]
	if planar {
		c, image = x[1], x[2:]
	}
	win, group, ok := convWindow(r.Call, image, w[2:])
	p := conv.Params{Window: win, N: n, C: c, M: k.m, Group: group}
	switch {
	case !ok:
		return nil, nil
	case p.Group == c && w[1] == 1 && k.m == c && c > 1 && !planar:
		op, err := conv.NewNHWCWindows(p, false, k.shift)
		return &pixelWindows{pixelCall: k, op: op}, err
	case p.Group == 1 && max(win.Dilate[1], win.Dilate[2]) <= 1 && (!planar || c <= 4):
		op, err := conv.NewNHWC(p, planar, k.flipX, k.shift)
		return &pixelConv{pixelCall: k, op: op}, err
	}
	return nil, nil
}

// takeShift takes the zero point of the weights; false where it is none that is served.
func (k *pixelCall) takeShift(r *request) bool {
	zero := r.constant(k.in.bZero)
	if zero == nil || zero.Len() == 0 ||
		slices.ContainsFunc(zero.Data, func(z byte) bool { return z != zero.Data[0] }) {
		return false
	}
	k.shift = int32(flippedZero(k.flipW)) - int32(zeroAt(zero, 0))
	return k.shift >= -127 && k.shift <= 127
}

// takeThen takes what follows the convolution; false where it cannot.
func (k *pixelCall) takeThen(r *request) bool {
	if _, _, ok := r.in(9); !ok {
		return true
	}
	then, ok := r.rescaling(9, r.outShape())
	if !ok {
		return false
	}
	k.then = &then
	for c := range max(1, then.scale.Len()) {
		if scale, bias, _ := then.channel(c); !conv.InRange(scale, bias) {
			return false
		}
	}
	return then.scale.Len() == 1 || then.scale.Len() == k.m
}

// Absorbed implements [compute.Absorbing].
func (k *pixelCall) Absorbed() []int { return []int{k.in.b} }

// packing identifies what a kernel for the call packs in a layout.
func (k *pixelCall) packing(layout conv.NHWCLayout) any {
	type packing struct {
		weight *tensor.Tensor
		flip   bool
		layout conv.NHWCLayout
	}
	return packing{k.weight, k.flipW, layout}
}

// Packing implements [compute.Packing].
func (k *pixelConv) Packing() any { return k.packing(k.op.Layout()) }

// Packing implements [compute.Packing].
func (k *pixelWindows) Packing() any { return k.packing(k.op.Layout()) }

// zeroX is the zero point of the image as it is multiplied.
func (k *pixelCall) zeroX(in []*tensor.Tensor) byte {
	return byte(int32(zeroAt(in[k.in.aZero], 0)) + int32(flippedZero(k.flipX)))
}

// grid sets what becomes of the sums, from the operands and the sums of the weights of each output
// channel.
func (k *pixelCall) grid(g *conv.NHWCGrid, in []*tensor.Tensor, sums []int32) {
	scale := tensor.As[float32](in[k.in.bScale])
	common := float64(tensor.As[float32](in[k.in.aScale])[0]) / float64(
		tensor.As[float32](in[k.in.yScale])[0])
	to, zero := gridOf(in[k.in.yZero]), int32(k.zeroX(in))
	for c := range k.m {
		add := -zero * sums[c]
		if k.bias < len(in) && in[k.bias] != nil {
			add += tensor.As[int32](in[k.bias])[c]
		}
		g.Set(c, add, float32(common*float64(scale[c%len(scale)])), to)
		if k.then != nil {
			scale, bias, to := k.then.channel(c)
			g.Then(c, scale, bias, to)
		}
	}
}

// pixelConv is a convolution of one group.
type pixelConv struct {
	pixelCall
	op *conv.NHWC
}

// Name implements Kernel.
func (k *pixelConv) Name() string { return "conv.int8.nhwc" }

// PackedBytes implements Kernel: the weights, and the sums of each output channel.
func (k *pixelConv) PackedBytes() int { return scratchBytes(k.op.PackedLen()) + 4*k.m }

// sums is where in the packed copy those of the output channels are.
func (k *pixelConv) sums(packed []byte) []int32 {
	return tensor.Cast[int32](packed[scratchBytes(k.op.PackedLen()):][:4*k.m])
}

// Pack implements Kernel.
func (k *pixelConv) Pack(dst []byte) {
	k.op.Pack(tensor.Cast[float32](dst[:4*k.op.PackedLen()]), k.sums(dst), k.weight.Data, k.flipW)
}

// ScratchBytes implements Kernel.
func (k *pixelConv) ScratchBytes(int) int { return (k.op.ImageLen() + 63) &^ 63 }

// Bind implements Kernel.
func (k *pixelConv) Bind(b compute.Binding) compute.Task {
	t := &pixelConvTask{
		of:   k,
		in:   b.In,
		sums: k.sums(b.Packed),
		args: conv.NHWCArgs{
			X:       b.In[0].Data,
			Y:       b.Out[0].Data,
			Weights: tensor.Cast[float32](b.Packed[:4*k.op.PackedLen()]),
			Image:   b.Scratch[:k.op.ImageLen()],
			Grid:    k.op.Grid(),
			Flip:    k.flipX,
		},
	}
	t.image.t = t
	return t
}

type pixelConvTask struct {
	of    *pixelConv
	in    []*tensor.Tensor
	sums  []int32
	args  conv.NHWCArgs
	image pixelImage
	ready bool // whether the grid is set
}

// pixelImage is the region that copies the image.
type pixelImage struct{ t *pixelConvTask }

// Chunk implements Region.
func (r *pixelImage) Chunk(i, _ int) { r.t.of.op.FillImage(i, &r.t.args) }

// Run implements Task.
func (t *pixelConvTask) Run(x *compute.Exec) error {
	if !t.ready {
		t.of.grid(t.args.Grid, t.in, t.sums)
		t.args.Zero, t.ready = t.of.zeroX(t.in), true
	}
	if n := t.of.op.ImageChunks(); n > 0 {
		if err := x.For(n, &t.image); err != nil {
			return err
		}
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *pixelConvTask) Chunk(i, _ int) { t.of.op.Run(i, &t.args) }

// pixelWindows is a convolution of one group a channel.
type pixelWindows struct {
	pixelCall
	op *conv.NHWCWindows
}

// Name implements Kernel.
func (k *pixelWindows) Name() string { return "conv.int8.nhwc.depthwise" }

// PackedBytes implements Kernel: the weights, and the sums of each channel.
func (k *pixelWindows) PackedBytes() int { return k.op.PackedLen() + 4*k.m }

// Pack implements Kernel.
func (k *pixelWindows) Pack(dst []byte) {
	n := k.op.PackedLen()
	k.op.Pack(dst[:n], tensor.Cast[int32](dst[n:][:4*k.m]), k.weight.Data, k.flipW)
}

// ScratchBytes implements Kernel.
func (k *pixelWindows) ScratchBytes(workers int) int { return workers * bandBytes(k.op) }

// bandBytes is the scratch of a worker.
func bandBytes(o *conv.NHWCWindows) int { return (o.ScratchLen() + 63) &^ 63 }

// Bind implements Kernel.
func (k *pixelWindows) Bind(b compute.Binding) compute.Task {
	n := k.op.PackedLen()
	t := &pixelWindowsTask{
		of:   k,
		in:   b.In,
		sums: tensor.Cast[int32](b.Packed[n:][:4*k.m]),
		args: conv.NHWCWindowArgs{X: b.In[0].Data, Y: b.Out[0].Data,
			Weights: b.Packed[:n], Grid: k.op.Grid(), Flip: k.flipX},
	}
	t.scratch = bands(k.op, b)
	return t
}

// bands are the scratches of the workers.
func bands(o *conv.NHWCWindows, b compute.Binding) (scratch [][]byte) {
	take := taker(b.Scratch)
	for range b.Workers {
		scratch = append(scratch, take(bandBytes(o)))
	}
	return scratch
}

type pixelWindowsTask struct {
	of      *pixelWindows
	in      []*tensor.Tensor
	sums    []int32
	args    conv.NHWCWindowArgs
	scratch [][]byte
	ready   bool // whether the grid is set
}

// Run implements Task.
func (t *pixelWindowsTask) Run(x *compute.Exec) error {
	if !t.ready {
		t.of.grid(t.args.Grid, t.in, t.sums)
		t.args.Zero, t.ready = t.of.zeroX(t.in), true
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *pixelWindowsTask) Chunk(i, worker int) { t.of.op.Run(i, &t.args, t.scratch[worker]) }

func nhwcMaxPool(r *request) (compute.Kernel, error) {
	x, d, _ := r.in(0)
	if d == tensor.BFloat16 && len(x) == 4 && count(x) > 0 {
		return max16(r, x)
	}
	if !conv.HasNHWC() || !isByte(d) || len(x) != 4 || count(x) == 0 {
		return nil, nil
	}
	win, ok := poolWindow(r.Call, x[1:3])
	if !ok {
		return nil, nil
	}
	op, err := conv.NewNHWCWindows(conv.Params{Window: win, N: x[0], C: x[3]}, true, 0)
	if err != nil {
		return nil, nil // windows that nothing can be said about are the reference's
	}
	if out := r.outShape(); op.Out() != [2]int{out[1], out[2]} {
		return nil, nil // rounded up
	}
	return &pixelPool{op: op, signed: d == tensor.Int8}, nil
}

// pixelPool takes the greatest bytes.
type pixelPool struct {
	op     *conv.NHWCWindows
	signed bool
}

// Name implements Kernel.
func (k *pixelPool) Name() string { return "pool.int8.nhwc" }

// PackedBytes implements Kernel.
func (k *pixelPool) PackedBytes() int { return 0 }

// Pack implements Kernel.
func (k *pixelPool) Pack([]byte) {}

// ScratchBytes implements Kernel.
func (k *pixelPool) ScratchBytes(workers int) int { return workers * bandBytes(k.op) }

// Bind implements Kernel.
func (k *pixelPool) Bind(b compute.Binding) compute.Task {
	return &pixelPoolTask{
		of:      k,
		args:    conv.NHWCWindowArgs{X: b.In[0].Data, Y: b.Out[0].Data, Flip: k.signed},
		scratch: bands(k.op, b),
	}
}

type pixelPoolTask struct {
	of      *pixelPool
	args    conv.NHWCWindowArgs
	scratch [][]byte
}

// Run implements Task.
func (t *pixelPoolTask) Run(x *compute.Exec) error { return x.For(t.of.op.Chunks(), t) }

// Chunk implements Region.
func (t *pixelPoolTask) Chunk(i, worker int) { t.of.op.Run(i, &t.args, t.scratch[worker]) }
