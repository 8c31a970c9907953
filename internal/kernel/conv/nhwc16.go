package conv

import (
	"fmt"
	"sync/atomic"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
)

// HasNHWC16 reports whether [NHWC16] has kernels, which it has on processors whose tiles multiply
// bfloat16. It asks the system for their use.
func HasNHWC16() bool { return gemm.BF16.OnTiles() }

// NHWC16 is a planned convolution of one group of images of bfloat16 on Intel's tiles. The channels
// of images and results lie in the last axis (NHWC), so that 32 channels of 16 neighbouring pixels
// are a tile's rows where they lie: nothing is packed. An output sees some stretches of 32
// channels, which begin equally far from it at all places, so that a table of distances is all that
// a product has to know of the window.
//
// An image is copied where it needs padding, is planar, or has pixels that are no whole stretches.
// In the copy, rows and columns that a stride leaves apart come to lie side by side, each remainder
// by the stride in an image of its own, a phase. Outputs follow each other as the pixels of a phase
// do, those at the end of a row, which see the next one, included: these are computed and dropped.
//
// Sums are those of TDPBF16PS in float32; bias, residual, bounds and map follow in float32, and
// then rounding to bfloat16. A NHWC16 is immutable and may be used by many goroutines at once.
type NHWC16 struct {
	p      Params // depth 1
	out    [2]int
	planar bool
	copies bool
	images int    // that are stored one after the other
	size   int    // elements of a pixel of what tiles read
	step   [2]int // from one row or column of a phase to the next, in the image
	phases [2]int // of rows and columns, those that outputs see
	high   int    // rows of a phase
	wide   int    // pixels of a row of a phase
	flat   int    // outputs of an image, those that are dropped included
	line   int    // outputs from one row to the next
	width  int    // outputs of a row that are kept
	apart  int    // elements from what an output sees to what the next does
	// offs are the bytes from where an output sees first to each stretch, and seen the elements of
	// each that are its own. In a copy of what one output sees, stretches lie where side says.
	offs []int
	seen []int
	side []int
	// a chunk is a part of an image's blocks of outputs, of so many each, and a part of the panels
	panels                 int
	blocks                 int
	blockParts, panelParts int
	// group is how many blocks of pixels each panel is multiplied by before the next.
	group int
}

// Shape of a block of results, and of what is multiplied at a time.
const (
	halfRows     = 32
	halfCols     = 32
	stretch      = 32 // elements along K
	stretchWords = stretch / 2
	// mostBlocks bounds the blocks whose sums stay in the first cache, where something else than
	// the kernel makes results of them, mostGroup those of a call.
	mostBlocks = 4
	mostGroup  = 32
)

// NewNHWC16 plans a convolution of p's geometry, which must have depth 1 and one group. The format
// of p counts for nothing. A planar image is N x C x H x W of float32, and has at most four
// channels and no dilation. Errors are of kind ErrParams.
func NewNHWC16(p Params, planar bool) (*NHWC16, error) {
	p.Group = max(p.Group, 1)
	out, err := p.setDefaults()
	if err != nil {
		return nil, err
	}
	if err := p.checkNHWC(out); err != nil {
		return nil, err
	}
	if p.Group != 1 || planar && (p.C > 4 || p.Dilate != [3]int{1, 1, 1}) {
		return nil, fmt.Errorf("%w: no convolution of pixels: %+v", ErrParams, p)
	}
	o := &NHWC16{p: p, out: [2]int{out[1], out[2]}, planar: planar}
	o.place()
	o.cut()
	return o, nil
}

// place decides where what outputs see lies.
func (o *NHWC16) place() {
	p := &o.p
	one := p.Kernel == [3]int{1, 1, 1} && p.Stride == [3]int{1, 1, 1} &&
		max(p.PadLo[1], p.PadLo[2], p.PadHi[1], p.PadHi[2]) == 0
	o.copies = o.planar || !one || p.C%stretch != 0
	if !o.copies {
		o.images, o.size, o.step, o.phases = 1, p.C, [2]int{1, 1}, [2]int{1, 1}
		o.high, o.wide = 1, p.N*p.In[1]*p.In[2]
		o.flat, o.line, o.width, o.apart = o.wide, o.wide, o.wide, p.C
		o.see(p.C)
		return
	}
	o.images = p.N
	o.step = [2]int{p.Stride[1], p.Stride[2]}
	o.size, o.apart = roundUp(p.C, stretch), roundUp(p.C, stretch)
	last := func(axis int) int { return (p.Kernel[axis] - 1) * p.Dilate[axis] }
	o.high = o.out[0] + last(1)/p.Stride[1]
	o.wide = o.out[1] + last(2)/p.Stride[2]
	o.line, o.width = o.wide, o.out[1]
	if o.planar {
		o.step[1], o.size, o.apart = 1, 4, 4*p.Stride[2]
		o.wide = roundUp((o.out[1]-1)*p.Stride[2]+p.Kernel[2], p.Stride[2])
		o.line = o.wide / p.Stride[2]
	}
	o.phases = o.step
	for i := range o.phases {
		if p.Kernel[i+1] == 1 {
			o.phases[i] = 1
		}
	}
	o.flat = (o.out[0]-1)*o.line + o.width
	o.see(p.C)
}

// see lists the stretches of c channels a tap that an output sees.
func (o *NHWC16) see(c int) {
	p := &o.p
	add := func(at, n int) {
		for i := 0; i < n; i += stretch {
			o.side = append(o.side, 2*stretch*len(o.offs))
			o.offs = append(o.offs, 2*(at+i))
			o.seen = append(o.seen, min(stretch, n-i))
		}
	}
	for ky := range p.Kernel[1] {
		y := ky * p.Dilate[1]
		if o.planar {
			add(o.pixel(y%o.step[0], 0, y/o.step[0], 0)*o.size, o.size*p.Kernel[2])
			continue
		}
		for kx := range p.Kernel[2] {
			x := kx * p.Dilate[2]
			add(o.pixel(y%o.step[0], x%o.step[1], y/o.step[0], x/o.step[1])*o.size, c)
		}
	}
}

// pixel is the place of a pixel of a phase in an image.
func (o *NHWC16) pixel(phaseY, phaseX, y, x int) int {
	return ((phaseY*o.phases[1]+phaseX)*o.high+y)*o.wide + x
}

// The work of a chunk, in products of a block by a stretch, some 25 ns each: at most what takes 50
// microseconds, at least what makes a call of it worth while.
const (
	mostHalfWork  = 2048
	leastHalfWork = 128
	halfShares    = 16
	// blockWork is what a block takes besides, to be stored and made results of.
	blockWork = 6
	// halfWeights are the bytes of weights that stay in the second cache while the pixels pass.
	halfWeights = 512 << 10
	// groupBytes are those of pixels that stay there while the weights pass.
	groupBytes = 128 << 10
)

// cut cuts the work into chunks: parts of the pixels, each multiplied by all weights, where these
// stay in the second cache; else parts of the weights.
func (o *NHWC16) cut() {
	o.panels = (o.p.M + halfCols - 1) / halfCols
	o.blocks = (o.flat + halfRows - 1) / halfRows
	steps := len(o.offs)
	o.group = min(max(groupBytes/(2*halfRows*o.apart), 4), mostGroup)
	work := steps + blockWork
	each := min(max(o.images*o.blocks*o.panels*work/halfShares, leastHalfWork), mostHalfWork)
	o.blockParts, o.panelParts = 1, 1
	if 2*stretch*halfCols*steps*o.panels <= halfWeights {
		o.blockParts = parts(o.blocks, o.panels*work, each)
		return
	}
	o.panelParts = parts(o.panels, o.blocks*work, each)
	if o.panelParts == o.panels {
		o.blockParts = parts(o.blocks, work, each)
	}
}

// parts is how many parts of n things, of so much work each, are nearest to a part's work.
func parts(n, work, part int) int {
	return min(n, max(1, (n*work+part/2)/part))
}

// Out returns the rows and columns of the output.
func (o *NHWC16) Out() [2]int { return o.out }

// Chunks returns the number of independent pieces of work.
func (o *NHWC16) Chunks() int { return o.images * o.blockParts * o.panelParts }

// k is the number of elements along K, zeros included.
func (o *NHWC16) k() int { return len(o.offs) * stretch }

// PackedLen returns how many words the packed weights take.
func (o *NHWC16) PackedLen() int { return gemm.BF16.PackedBLen(o.k(), o.panels*halfCols) }

// Layout identifies the layout of packed weights: convolutions of the same weights with equal
// values pack alike.
func (o *NHWC16) Layout() NHWC16Layout { return NHWC16Layout{planar: o.planar} }

// NHWC16Layout is the layout of the packed weights of a [NHWC16]. It can be compared.
type NHWC16Layout struct{ planar bool }

// Pack packs w, M x C x kernel, each output channel times its element of scale where that is not
// nil, into dst, which holds PackedLen words.
func (o *NHWC16) Pack(dst, w, scale []float32) {
	k, taps, c := o.k(), volume(o.p.Kernel), o.p.C
	rows := make([]float32, o.panels*halfCols*k)
	for m := range o.p.M {
		by := float32(1)
		if scale != nil {
			by = scale[m]
		}
		row := rows[m*k:][:k]
		for tap := range taps {
			at := o.tapAt(tap)
			for ch := range c {
				row[at+ch] = w[(m*c+ch)*taps+tap] * by
			}
		}
	}
	gemm.BF16.PackB(dst, rows, k, o.panels*halfCols, 0, true)
}

// tapAt is the place along K of the first channel of a tap.
func (o *NHWC16) tapAt(tap int) int {
	if o.planar {
		ky, kx := tap/o.p.Kernel[2], tap%o.p.Kernel[2]
		return ky*roundUp(o.size*o.p.Kernel[2], stretch) + kx*o.size
	}
	return tap * roundUp(o.p.C, stretch)
}

// NHWC16Args are the arguments of a run. Y must not overlap the others, except that the residual
// may be Y itself.
type NHWC16Args struct {
	X        []uint16  // N x H x W x C, of an image that is not planar
	Planes   []float32 // N x C x H x W, of one that is
	Image    []uint16  // ImageLen elements, written by FillImage
	W        []float32 // packed
	Bias     []float32 // one an output channel, or nil
	Residual []uint16  // as Y, or nil
	Y        []uint16  // N x rows x columns x M
	// odd says that the image has numbers that are not finite, which would spread to outputs that
	// do not see them.
	odd atomic.Bool
}

// Begin is called before each run, and before the image is copied.
func (a *NHWC16Args) Begin() { a.odd.Store(false) }

// ScratchLen returns the floats of scratch that a goroutine needs.
func (o *NHWC16) ScratchLen() int {
	n := halfSums + o.group*halfRows*intFloats
	if o.planar {
		n += halfRows * o.k() / 2
	}
	return n
}

// halfSums are the floats of the sums in a goroutine's scratch, behind which the table of rows lies
// and then what separate copies.
const halfSums = mostBlocks * halfRows * halfCols

// Run computes chunk c of 0 <= c < Chunks.
func (o *NHWC16) Run(c int, a *NHWC16Args, scratch []float32) {
	image, part, panel := c/(o.blockParts*o.panelParts), c%o.blockParts, c/o.blockParts%o.panelParts
	r := halfRun{o: o, a: a, image: image, sums: scratch[:halfSums],
		table: asInts(scratch[halfSums:][:o.group*halfRows*intFloats]), kept: cpuinfo.TilesKept()}
	x := a.X
	if o.copies {
		n := o.imageLen()
		x = a.Image[image*n:][:n+imageSlack16]
	}
	r.x = x
	if a.odd.Load() {
		r.apart = scratch[halfSums+o.group*halfRows*intFloats:]
	}
	lo, hi := part*o.blocks/o.blockParts, (part+1)*o.blocks/o.blockParts
	first, end := panel*o.panels/o.panelParts, (panel+1)*o.panels/o.panelParts
	for b := lo; b < hi; b += o.group {
		n := min(o.group, hi-b)
		r.list(b, n)
		r.fetch = b == lo && (part == 0 || o.panelParts > 1)
		for p := first; p < end; p++ {
			r.panel(p, b, n)
		}
	}
}

// halfRun is a chunk under way.
type halfRun struct {
	o     *NHWC16
	a     *NHWC16Args
	image int
	x     []uint16  // what tiles read
	sums  []float32 // blocks of 32 x 32
	apart []float32 // a copy of what a block sees, nil where that is read where it lies
	kept  bool      // whether the processor's tiles may be used
	fetch bool      // whether the next panel's weights are not in the second cache yet
	table []int     // where the results of a group's rows go
}

// panel computes n blocks of outputs, from block b on, of panel p of the output channels.
func (r *halfRun) panel(p, b, n int) {
	o := r.o
	each := len(o.offs) * stretchWords * halfCols
	first, end := b*halfRows, min((b+n)*halfRows, o.flat)
	c := halfCall{w: r.a.W[p*each:][:each], offs: o.offs, lda: 2 * o.apart, sums: r.sums,
		rows: end - first}
	if r.apart == nil && o.p.Map == nil {
		c.x = r.x[first*o.apart:]
		w := halfWhole{halfCall: c, finish: r.finishing(p, 0), table: r.table}
		if r.fetch && p+1 < o.panels {
			w.ahead = r.a.W[(p+1)*each:][:each]
		}
		w.compute(r.kept)
		return
	}
	for lo := first; lo < end; lo += mostBlocks * halfRows {
		hi := min(lo+mostBlocks*halfRows, end)
		c.rows = hi - lo
		if r.apart != nil {
			r.separate(&c, lo, hi)
		} else {
			c.x = r.x[lo*o.apart:]
			c.multiply(r.kept)
		}
		r.finishRows(p, lo, hi)
	}
}

// list lists where the results of n blocks go, from block b on.
func (r *halfRun) list(b, n int) {
	o := r.o
	y, x := b*halfRows/o.line, b*halfRows%o.line
	at := 2 * ((r.image*o.out[0]+y)*o.width + min(x, o.width)) * o.p.M
	for i := range r.table[:n*halfRows] {
		r.table[i] = -1
		if x < o.width && b*halfRows+i < o.flat {
			r.table[i] = at
			at += 2 * o.p.M
		}
		if x++; x == o.line {
			x = 0
		}
	}
}

// finishRows makes results of the sums of outputs from first to end.
func (r *halfRun) finishRows(p, first, end int) {
	o := r.o
	for q := first; q < end; {
		y, x := q/o.line, q%o.line
		if x >= o.width {
			q += o.line - x
			continue
		}
		rows := min(o.width-x, end-q)
		r.finish(p, (q-first)*halfCols, ((r.image*o.out[0]+y)*o.width+x)*o.p.M, rows)
		q += rows
	}
}

// finishing is what becomes of sums of panel p that go to a place of the output.
func (r *halfRun) finishing(p, to int) halfFinish {
	o, at := r.o, p*halfCols
	f := halfFinish{y: r.a.Y[to+at:], ldy: o.p.M, cols: min(halfCols, o.p.M-at),
		lo: o.p.Lo, hi: o.p.Hi, clamp: o.p.Clamp, silu: o.p.Silu}
	if r.a.Bias != nil {
		f.bias = r.a.Bias[at:][:f.cols]
	}
	if r.a.Residual != nil {
		f.residual = r.a.Residual[to+at:]
	}
	return f
}

// finish makes results of rows of sums, from a place of the sums to one of the output.
func (r *halfRun) finish(p, from, to, rows int) {
	f := r.finishing(p, to)
	f.sums, f.rows = r.sums[from:][:rows*halfCols], rows
	if r.o.p.Map == nil {
		f.run()
		return
	}
	f.keep = true
	f.run()
	r.o.p.Map(f.sums, f.sums)
	g := halfFinish{sums: f.sums, y: f.y, ldy: f.ldy, rows: rows, cols: f.cols}
	g.run()
}

// roundUp is the least multiple of by that is not below n.
func roundUp(n, by int) int { return (n + by - 1) / by * by }
