package conv

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// Window16Kind is what a [Windows16] makes of the elements of a window.
type Window16Kind int

// The kinds.
const (
	// Depthwise16 is a convolution with as many groups as channels, by weights of float32, and what
	// follows it, summed up in float32.
	Depthwise16 Window16Kind = iota
	// Max16 is the greatest element; a NaN is greater than all.
	Max16
	// Mean16 is the mean of the whole image, in float32.
	Mean16
)

// Windows16 is a planned operation that takes windows of each channel by itself, on images of
// bfloat16 with their channels in the last axis. Its results are bfloat16, but for Mean16. It is
// immutable and may be used by many goroutines at once. It has kernels where [HasNHWC16] says so.
type Windows16 struct {
	p      Params // depth 1
	kind   Window16Kind
	out    [2]int
	blocks int // of 32 channels
	rows   int // of results in a chunk
	parts  int // of the channels of an image, each a chunk of Mean16
}

const (
	block16 = 32
	// MostWindow16 bounds the elements of a window, other than that of Mean16.
	MostWindow16 = 256
	// elements of results in a chunk, and of images in one of Mean16
	chunk16 = 16 << 10
	mean16  = 32 << 10
)

// NewWindows16 plans windows of p's geometry, which has depth 1. For Mean16 only N, C and the size
// of the image count. Errors are of kind ErrParams.
func NewWindows16(p Params, kind Window16Kind) (*Windows16, error) {
	p.Group, p.M = p.C, p.C
	if kind == Mean16 {
		p.Kernel = p.In
	}
	out, err := p.setDefaults()
	if err != nil {
		return nil, err
	}
	if err := p.checkNHWC(out); err != nil {
		return nil, err
	}
	if n := p.Kernel[1] * p.Kernel[2]; kind != Mean16 && n > MostWindow16 {
		return nil, fmt.Errorf("%w: a window of %d elements, want at most %d", ErrParams, n,
			MostWindow16)
	}
	o := &Windows16{p: p, kind: kind, out: [2]int{out[1], out[2]},
		blocks: (p.C + block16 - 1) / block16}
	o.rows = max(1, chunk16/(o.out[1]*p.C))
	o.parts = min(max(1, p.In[1]*p.In[2]*p.C/mean16), o.blocks)
	return o, nil
}

// Out returns the rows and columns of the output.
func (o *Windows16) Out() [2]int { return o.out }

// Chunks returns the number of independent pieces of work.
func (o *Windows16) Chunks() int {
	if o.kind == Mean16 {
		return o.p.N * o.parts
	}
	return o.p.N * ((o.out[0] + o.rows - 1) / o.rows)
}

// taps is the number of elements of a window.
func (o *Windows16) taps() int { return o.p.Kernel[1] * o.p.Kernel[2] }

// PackedLen returns how many floats the packed weights take, 0 for what has none.
func (o *Windows16) PackedLen() int {
	if o.kind != Depthwise16 {
		return 0
	}
	return o.blocks * (o.taps() + 1) * block16
}

// Pack packs w, C x 1 x kernel, each channel times its element of scale, and bias, one a channel,
// where these are not nil, into dst, which holds PackedLen floats.
func (o *Windows16) Pack(dst, w, bias, scale []float32) {
	clear(dst)
	taps := o.taps()
	for c := range o.p.C {
		by := float32(1)
		if scale != nil {
			by = scale[c]
		}
		block := dst[c/block16*(taps+1)*block16:]
		at := inBlock16(c % block16)
		if bias != nil {
			block[at] = bias[c]
		}
		for t := range taps {
			block[(t+1)*block16+at] = w[c*taps+t] * by
		}
	}
}

// inBlock16 is where the kernels have channel c of a block: those of even numbers first.
func inBlock16(c int) int { return c%2*block16/2 + c/2 }

// Window16Args are the arguments of a run.
type Window16Args struct {
	X     []uint16  // N x H x W x C
	W     []float32 // packed
	Y     []uint16  // N x rows x columns x C
	Means []float32 // N x C, of Mean16
}

// ScratchLen returns the floats of scratch that a goroutine needs.
func (o *Windows16) ScratchLen() int {
	switch {
	case o.kind == Mean16:
		return o.p.C + 2*block16
	case o.p.Map == nil:
		return 0
	}
	return o.out[1] * o.p.C
}

// Run computes chunk c of 0 <= c < Chunks.
func (o *Windows16) Run(c int, a *Window16Args, scratch []float32) {
	if o.kind == Mean16 {
		o.mean(c, a, scratch)
		return
	}
	per := (o.out[0] + o.rows - 1) / o.rows
	image, first := c/per, c%per*o.rows
	for y := first; y < min(first+o.rows, o.out[0]); y++ {
		o.row(image, y, a, scratch)
	}
}

// mean adds up a part of the channels of an image.
func (o *Windows16) mean(c int, a *Window16Args, scratch []float32) {
	pixels, size := o.p.In[1]*o.p.In[2], o.p.C
	image, part := c/o.parts, c%o.parts
	lo := part * o.blocks / o.parts * block16
	n := min((part+1)*o.blocks/o.parts*block16, size) - lo
	var offs, at [MostWindow16]int
	sums := a.Means[image*size+lo:][:n]
	clear(sums)
	x := a.X[image*pixels*size:][:pixels*size][lo:]
	some, ones := scratch[:n], scratch[size:][:2*block16]
	for i := range block16 {
		ones[i], ones[block16+i] = 0, 1/float32(pixels)
	}
	for first := 0; first < pixels; first += MostWindow16 {
		taps := min(MostWindow16, pixels-first)
		for i := range taps {
			offs[i] = 2 * i * size
		}
		w := windows16Call{x: x[first*size:], w: ones, wide: some, offs: offs[:taps],
			at: at[:taps], pixels: 1, channels: n, lo: negInf, hi: posInf}
		w.run()
		vec.Add(sums, sums, some)
	}
}

var posInf = float32(math.Inf(1))

// row computes a row of results: those whose windows lie in the image between its left and its
// right edge together, others one by one.
func (o *Windows16) row(image, y int, a *Window16Args, scratch []float32) {
	p, c := &o.p, o.p.C
	lo, hi := o.inside()
	place := (image*o.out[0] + y) * o.out[1] * c
	w := windows16Call{w: a.W, block: (o.taps() + 1) * block16, xStep: p.Stride[2] * c,
		channels: c, max: o.kind == Max16, silu: p.Silu, lo: negInf, hi: posInf}
	if p.Clamp {
		w.lo, w.hi = p.Lo, p.Hi
	}
	var offs, at [MostWindow16]int
	for x := 0; x < o.out[1]; x += w.pixels {
		w.pixels = 1
		if x == lo && hi > lo {
			w.pixels = hi - lo
		}
		n := o.see(y, x, &offs, &at)
		w.offs, w.at, w.three = offs[:n], at[:n], n == 9 && o.three()
		w.x = a.X[image*p.In[1]*p.In[2]*c:][:p.In[1]*p.In[2]*c]
		w.y = a.Y[place+x*c:][:w.pixels*c]
		if p.Map == nil {
			w.run()
			continue
		}
		wide := scratch[:w.pixels*c]
		w.wide = wide
		w.run()
		p.Map(wide, wide)
		vec.Float32ToBFloat16(w.y, wide)
	}
}

// three reports whether windows are those that there is a kernel for.
func (o *Windows16) three() bool {
	p := &o.p
	return p.Kernel[1] == 3 && p.Kernel[2] == 3 && p.Dilate[2] == 1 && p.Stride[2] <= 2 && !p.Silu
}

// inside is the range of results of a row whose windows do not reach beyond its ends.
func (o *Windows16) inside() (lo, hi int) {
	p := &o.p
	last := (p.Kernel[2] - 1) * p.Dilate[2]
	lo = (p.PadLo[2] + p.Stride[2] - 1) / p.Stride[2]
	if reach := p.In[2] - 1 - last + p.PadLo[2]; reach >= 0 {
		hi = min(o.out[1], reach/p.Stride[2]+1)
	}
	return lo, hi
}

// see lists the elements of the window of a result that lie in the image, column by column: the
// bytes from the image's start, and those from the start of a block of weights.
func (o *Windows16) see(y, x int, offs, at *[MostWindow16]int) (n int) {
	p := &o.p
	for kx := range p.Kernel[2] {
		ix := x*p.Stride[2] + kx*p.Dilate[2] - p.PadLo[2]
		if ix < 0 || ix >= p.In[2] {
			continue
		}
		for ky := range p.Kernel[1] {
			iy := y*p.Stride[1] + ky*p.Dilate[1] - p.PadLo[1]
			if iy < 0 || iy >= p.In[1] {
				continue
			}
			offs[n] = 2 * (iy*p.In[2] + ix) * p.C
			at[n] = 4 * block16 * (ky*p.Kernel[2] + kx)
			n++
		}
	}
	return n
}
