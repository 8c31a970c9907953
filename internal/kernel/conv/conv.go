package conv

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// ErrParams is the kind of every error of New, NewTranspose and NewPool.
var ErrParams = errors.New("conv: bad parameters")

// maxElements bounds the elements of a tensor, so that offsets and their products with a stride fit
// an int.
const maxElements = math.MaxInt32

// Window is where a kernel looks at an image: the geometry that convolution and pooling share. Each
// field holds one value per spatial axis, D, H and W; an axis that an image does not have is of
// length 1 with a kernel of 1.
type Window struct {
	In     [3]int // image
	Kernel [3]int
	Stride [3]int // 0 stands for 1
	Dilate [3]int // distance of the elements of the kernel; 0 stands for 1
	// PadLo and PadHi are the zeros before and after the image (ONNX pads, begin and end).
	PadLo, PadHi [3]int
}

// Params describes a convolution as ONNX Conv-11 defines it, with explicit pads, and what follows
// it: bias, then residual, then clamp, then map.
type Params struct {
	Window
	N, C, M int // images, input channels, output channels
	Group   int // 0 stands for 1
	// Format is that of the multiplications; depthwise convolutions have only gemm.F32.
	Format gemm.Format
	// Bias says that Args.Bias holds one value per output channel; Residual that Args.Residual,
	// laid out as the output, is added.
	Bias, Residual bool
	// Reused says that weights are packed once for many runs, so that packing may take long and
	// make them larger. The sums of others are those of gemm.Params.Near.
	Reused bool
	// Turned says that weights are given as those of the convolution of whose operand this is the
	// gradient: C x M x kernel, whose last element is the first here. Group is 1.
	Turned bool
	// Algorithm is one of Algorithms; "" leaves the choice to the cost model.
	Algorithm Algorithm
	// Clamp limits the result to [Lo, Hi], max(Lo) first; a NaN stays. Relu is Lo 0 and Hi +Inf.
	Clamp  bool
	Lo, Hi float32
	// Map, if set, replaces finished elements x by f(x) element by element in dst, the same slice
	// as x. It is called from every goroutine that calls Run and must not keep the slices.
	Map func(dst, x []float32)
	// Silu replaces finished elements x by x/(1+exp(-x)), to the precision of bfloat16: of NHWC16
	// and Windows16 alone, instead of Map.
	Silu bool
	// Pairs says that pixels, an even number, come in pairs, whose sums Bytes gives to store
	// together: of Bytes alone.
	Pairs bool
}

// Args holds the data of one run. Y must not overlap the others, except that the residual may be Y
// itself.
type Args struct {
	X              []float32 // N x C x In
	W              []float32 // packed by PackWeights
	Bias, Residual []float32
	Y              []float32 // N x M x Out
}

// Layout identifies how PackWeights arranges weights. Convolutions with equal layouts may share
// packed weights.
type Layout struct {
	kind       kind
	m, c       int // output channels, input channels per group
	group      int
	taps       int
	panelWidth int // stands for the instruction level
	format     gemm.Format
	turned     bool
}

// A Convolution is a planned convolution. It is immutable and may be used by many goroutines at
// once.
type Convolution struct {
	p         Params // its axes rotated
	out       [3]int
	shape     [3]int // out as the caller's axes have it
	kind      kind
	dense     *gemm.Product
	depthwise depthwise
	winograd  *winograd
}

// New plans a convolution. Errors are of kind ErrParams.
func New(p Params) (*Convolution, error) {
	out, err := p.Window.setDefaults()
	if err != nil {
		return nil, err
	}
	if p.Group == 0 {
		p.Group = 1
	}
	if err := checkChannels(p.N, p.C, p.M, p.Group); err != nil {
		return nil, err
	}
	if p.Turned && p.Group > 1 {
		return nil, fmt.Errorf("%w: turned weights of %d groups, want 1", ErrParams, p.Group)
	}
	if err := checkSizes([3]int{p.N, p.C, volume(p.In)}, [3]int{p.N, p.M, volume(out)},
		[3]int{p.M, p.C / p.Group, volume(p.Kernel)}); err != nil {
		return nil, err
	}
	o := &Convolution{p: p, shape: out}
	places := o.p.Window.rotateAxes()
	o.out = rotated(out, places)
	if o.kind, err = o.p.kind(o.out); err != nil {
		return nil, err
	}
	switch o.kind {
	case kindDepthwise:
		o.depthwise = planDepthwise(&o.p, o.out)
	case kindWinograd:
		err = o.transform()
	default:
		o.dense, err = newDense(&o.p, o.out, o.kind == kindPixelRows)
	}
	return o, err
}

// transform plans the way by tiles.
func (o *Convolution) transform() (err error) {
	o.kind = kindWinograd
	o.winograd, err = planWinograd(&o.p, o.out)
	return err
}

// checkChannels checks the numbers of images, channels and groups.
func checkChannels(n, c, m, group int) error {
	if n < 0 || c < 1 || m < 1 || group < 1 || c%group != 0 || m%group != 0 {
		return fmt.Errorf(
			"%w: %d images, %d input and %d output channels in %d groups: channels must divide "+
				"into groups",
			ErrParams,
			n,
			c,
			m,
			group,
		)
	}
	return nil
}

// checkSizes checks that the elements of each shape can be counted.
func checkSizes(shapes ...[3]int) error {
	for _, n := range shapes {
		if float64(n[0])*float64(n[1])*float64(n[2]) > maxElements {
			return fmt.Errorf("%w: a tensor of %d x %d x %d elements, limit %d", ErrParams, n[0],
				n[1], n[2], maxElements)
		}
	}
	return nil
}

// setDefaults checks the window and returns the size of the output.
func (w *Window) setDefaults() (out [3]int, err error) {
	for i := range 3 {
		if err := w.checkAxis(i); err != nil {
			return out, err
		}
		room := w.In[i] + w.PadLo[i] + w.PadHi[i] - (w.Kernel[i]-1)*w.Dilate[i] - 1
		if room < 0 {
			return out, fmt.Errorf(
				"%w: axis %d: a kernel of %d with dilation %d does not fit into %d + %d + %d "+
					"elements",
				ErrParams,
				i,
				w.Kernel[i],
				w.Dilate[i],
				w.PadLo[i],
				w.In[i],
				w.PadHi[i],
			)
		}
		out[i] = room/w.Stride[i] + 1
	}
	return out, checkSizes(w.In, out, w.Kernel)
}

// checkAxis sets the defaults of one axis and checks it.
func (w *Window) checkAxis(i int) error {
	if w.Stride[i] == 0 {
		w.Stride[i] = 1
	}
	if w.Dilate[i] == 0 {
		w.Dilate[i] = 1
	}
	for _, v := range []int{w.In[i], w.Kernel[i], w.Stride[i], w.Dilate[i], w.PadLo[i] + 1,
		w.PadHi[i] + 1} {
		if v < 1 || v > maxElements {
			return fmt.Errorf("%w: axis %d has input %d, kernel %d, stride %d, dilation %d, which "+
				"must be 1 or more, and pads %d and %d, which must not be negative", ErrParams, i,
				w.In[i], w.Kernel[i], w.Stride[i], w.Dilate[i], w.PadLo[i], w.PadHi[i])
		}
	}
	return nil
}

// trivial reports whether an axis is there for its name only: a kernel of 1 on an image of 1
// without pads.
//
//go:noinline
func (w *Window) trivial(axis int) bool {
	return w.In[axis] == 1 && w.Kernel[axis] == 1 && w.PadLo[axis] == 0 && w.PadHi[axis] == 0
}

// rotateAxes rotates the axes to the right until the last one is not trivial, if there is such an
// axis, because vectors lie along the last one. (Exporters write a convolution over time as one
// over an image of T x 1.) It returns by how many places the axes have moved.
func (w *Window) rotateAxes() (places int) {
	for w.trivial(2) && places < 2 {
		for _, axes := range []*[3]int{&w.In, &w.Kernel, &w.Stride, &w.Dilate, &w.PadLo, &w.PadHi} {
			*axes = rotated(*axes, 1)
		}
		places++
	}
	return places
}

// rotated moves axes to the right, the last to the front.
func rotated(n [3]int, places int) [3]int {
	for range places {
		n = [3]int{n[2], n[0], n[1]}
	}
	return n
}

func volume(n [3]int) int { return n[0] * n[1] * n[2] }

// Out returns the spatial size of the output.
func (o *Convolution) Out() [3]int { return o.shape }

// Chunks returns the number of independent pieces of work.
func (o *Convolution) Chunks() int {
	switch o.kind {
	case kindDepthwise:
		return o.depthwise.chunks
	case kindWinograd:
		return o.p.N * o.winograd.panels * o.winograd.blocks
	}
	return o.dense.Chunks()
}

// ScratchLen returns how many floats of scratch Run needs.
func (o *Convolution) ScratchLen() int {
	switch o.kind {
	case kindDepthwise:
		return o.depthwise.scratch
	case kindWinograd:
		return o.winograd.scratchLen(&o.p)
	}
	return o.dense.ScratchLen()
}

// FLOP returns the floating-point operations of the convolution, two per multiply-add, zeros of the
// padding included.
func (o *Convolution) FLOP() int64 {
	p := &o.p
	return 2 * int64(p.N) * int64(p.M) * int64(volume(o.out)) * int64(p.C/p.Group) * int64(
		volume(p.Kernel))
}

// Layout returns the arrangement that PackWeights gives the weights.
func (o *Convolution) Layout() Layout {
	l := Layout{
		kind:  o.kind,
		m:     o.p.M,
		c:     o.p.C / o.p.Group,
		group: o.p.Group,
		taps:  volume(o.p.Kernel), turned: o.p.Turned,
	}
	if o.kind != kindDepthwise {
		l.panelWidth, l.format = o.p.Format.PanelColumns(), o.p.Format
	}
	return l
}

// PackedLen returns how many words of four bytes the packed weights take.
func (o *Convolution) PackedLen() int {
	k, m := o.p.C/o.p.Group*volume(o.p.Kernel), o.p.M/o.p.Group
	switch o.kind {
	case kindPixelRows:
		return o.p.Group * o.p.Format.PackedBLen(k, m)
	case kindDense:
		return o.p.Group * o.p.Format.PackedALen(m, k)
	case kindWinograd:
		return frequencies * o.p.M * o.p.C
	}
	return o.weightsLen()
}

func (o *Convolution) weightsLen() int { return o.p.M * o.p.C / o.p.Group * volume(o.p.Kernel) }

// PackWeights packs w, M x C/group x kernel, or as Params.Turned says, into dst, which holds
// PackedLen floats.
func (o *Convolution) PackWeights(dst, w []float32) {
	o.Repack(dst, w, make([]float32, o.RepackLen()))
}

// RepackLen returns how many floats of scratch Repack needs.
func (o *Convolution) RepackLen() int {
	switch o.kind {
	case kindDepthwise:
		return 0
	case kindWinograd:
		return frequencies * gemm.F32.PanelRows() * packedChannels
	}
	return min(o.panelChannels(), o.p.M/o.p.Group) * o.weightsLen() / o.p.M
}

// Repack is PackWeights without an allocation, for weights that each iteration computes: scratch
// holds RepackLen floats.
func (o *Convolution) Repack(dst, w, scratch []float32) {
	if len(dst) < o.PackedLen() || len(w) < o.weightsLen() {
		panic(
			fmt.Sprintf("conv: packing %d weights into %d floats; want %d into %d", len(w),
				len(dst), o.weightsLen(), o.PackedLen()),
		)
	}
	o.RepackPanels(dst, w, 0, o.Panels(), scratch)
}

// Panels returns the number of panels of packed weights, which can be packed at the same time.
func (o *Convolution) Panels() int {
	if o.kind == kindDepthwise {
		return 1
	}
	return o.p.Group * o.panelsOfGroup()
}

func (o *Convolution) panelsOfGroup() int {
	return (o.p.M/o.p.Group + o.panelChannels() - 1) / o.panelChannels()
}

// PanelStart returns the first output channel of panel i, and M when i is Panels.
func (o *Convolution) PanelStart(i int) int {
	if i == o.Panels() {
		return o.p.M
	}
	if o.kind == kindDepthwise {
		return 0
	}
	each := o.panelsOfGroup()
	return i/each*(o.p.M/o.p.Group) + i%each*o.panelChannels()
}

// From returns the weights w from where RepackPanels wants them for panels from i on.
func (o *Convolution) From(w []float32, i int) []float32 {
	if o.p.Turned {
		return w
	}
	return w[o.PanelStart(i)*(o.weightsLen()/o.p.M):]
}

// RepackPanels does the part of Repack for the panels i with from <= i < to. dst is the memory of
// all packed weights, of which it writes only those panels; w begins with the weights of channel
// PanelStart(from), unless they are turned: then it holds all of them.
func (o *Convolution) RepackPanels(dst, w []float32, from, to int, scratch []float32) {
	if o.kind == kindDepthwise {
		if from < to {
			copy(dst, w[:o.PackedLen()])
		}
		for i := 0; o.p.Turned && from < to && i < o.PackedLen(); i += volume(o.p.Kernel) {
			slices.Reverse(dst[i:][:volume(o.p.Kernel)])
		}
		return
	}
	each := o.weightsLen() / o.p.M
	if o.p.Turned {
		each, w = volume(o.p.Kernel), w[o.PanelStart(from)*volume(o.p.Kernel):]
	}
	for i := from; i < to; i++ {
		first := o.PanelStart(i)
		n := o.PanelStart(i+1) - first
		if o.kind == kindWinograd {
			o.packWinograd(dst, w, first, n, scratch)
		} else {
			o.packDense(dst, w, first, n, scratch)
		}
		w = w[n*each:]
	}
}

// Run computes chunk c of 0 <= c < Chunks. Scratch holds at least ScratchLen floats that no other
// call uses meanwhile; what it holds before does not matter. Run panics when a slice is shorter
// than the Params say.
func (o *Convolution) Run(c int, args *Args, scratch []float32) {
	p := &o.p
	y := p.N * p.M * volume(o.out)
	if len(args.X) < p.N*p.C*volume(p.In) || len(args.W) < o.PackedLen() || len(args.Y) < y ||
		p.Bias && len(args.Bias) < p.M || p.Residual && len(args.Residual) < y ||
		len(scratch) < o.ScratchLen() || uint(c) >= uint(o.Chunks()) {
		panic(
			fmt.Sprintf(
				"conv: chunk %d of %d with X %d, W %d, Y %d, bias %d, residual %d, scratch %d "+
					"floats for %d images of %d x %v to %d x %v", c, o.Chunks(), len(args.X),
				len(args.W), len(args.Y), len(args.Bias), len(args.Residual), len(scratch), p.N,
				p.C, p.In, p.M, o.out),
		)
	}
	switch o.kind {
	case kindDepthwise:
		o.runDepthwise(c, args, scratch)
	case kindWinograd:
		o.runWinograd(c, args, scratch)
	default:
		g := gemm.Args{A: args.W, B: args.X, C: args.Y, Bias: args.Bias, Residual: args.Residual}
		if o.kind == kindPixelRows {
			g.A, g.B = g.B, g.A
		}
		o.dense.Run(c, &g, scratch)
	}
}
