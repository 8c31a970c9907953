package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// HasNHWC reports whether [NHWC] and [NHWCWindows] have kernels, which they have on processors
// with AVX-512 VNNI. Elsewhere they must not run.
func HasNHWC() bool { return hasNHWC && cpuinfo.HasAVX512VNNI() }

// NHWC is a planned convolution of one group, of unsigned bytes by signed bytes, whose results are
// bytes again. The channels of images and results lie in the last axis (NHWC). So the bytes of a
// pixel already form the words of four neighbours along K that the kernel multiplies, and the
// pixels that a row of weights sees lie side by side: an image is copied only if it needs padding,
// is planar or signed, or has pixels that are no whole words. Sums are exact and wrap in 32 bits.
// An NHWC is immutable and may be used by many goroutines at once.
type NHWC struct {
	p      Params // depth 1
	out    [2]int
	planar bool // the image has its channels in axis 1
	copies bool // the image is copied: padded, brought to whole words, its bytes flipped
	// A pixel has so many bytes, an image high rows of wide pixels.
	size, high, wide int
	runs, run        int // stretches of words that an output sees, and words of each
	// lines of outputs whose inputs lie equally far apart, and outputs of a line
	lines, width  int
	panels, panel int // panels of weights, and output channels of each
	shift         int32
	tiles         *tiled // nil where the convolution is not computed on tiles
	// a chunk is a part of the lines, or of the only line, and a part of the panels
	lineParts  int
	panelParts int
}

// panelWide is how many output channels tiles have.
const panelWide = 32

// NewNHWC plans a convolution of p's geometry, which must have depth 1, one group and no dilation;
// the epilogue, the format and the residual of p must not be set. A planar image is N x C x H x W
// and has at most four channels. With flip the bytes of the image are signed, so that it must be
// copied. The weights multiply as if shift, at most 127 in magnitude, were added to each; a panel
// then holds one output channel less, and weights of 1 in its place. Errors are of kind ErrParams.
func NewNHWC(p Params, planar, flip bool, shift int32) (*NHWC, error) {
	p.Group = max(p.Group, 1)
	out, err := p.setDefaults()
	if err != nil {
		return nil, err
	}
	if err := p.checkNHWC(out); err != nil {
		return nil, err
	}
	if p.Group != 1 || p.Dilate != [3]int{1, 1, 1} || planar && p.C > 4 {
		return nil, fmt.Errorf("%w: no convolution of pixels: %+v", ErrParams, p)
	}
	o := &NHWC{p: p, out: [2]int{out[1], out[2]}, planar: planar, size: (p.C + 3) / 4 * 4,
		shift: shift}
	// a stretch may end with bytes of the next pixel, which meet weights of 0
	if planar && (p.Kernel[2]*p.C+3)/4 < p.Kernel[2] {
		o.size = p.C
	}
	o.high, o.wide = p.In[1]+p.PadLo[1]+p.PadHi[1], p.In[2]+p.PadLo[2]+p.PadHi[2]
	o.copies = planar || flip || p.C%4 != 0 || o.high > p.In[1] || o.wide > p.In[2]
	o.runs, o.run = p.Kernel[1], (p.Kernel[2]*o.size+3)/4
	if p.Kernel[2] == o.wide && o.size%4 == 0 { // the rows of a window follow each other
		o.runs, o.run = 1, p.Kernel[1]*o.run
	}
	o.lines, o.width = p.N*o.out[0], o.out[1]
	if p.Kernel == [3]int{1, 1, 1} && p.Stride == [3]int{1, 1, 1} {
		o.lines, o.width = 1, p.N*o.high*o.wide
	}
	o.planTiles(flip)
	o.cut()
	return o, nil
}

// checkNHWC checks what all kernels for pixels want of a geometry with that output.
func (p *Params) checkNHWC(out [3]int) error {
	if err := checkChannels(p.N, p.C, p.M, p.Group); err != nil {
		return err
	}
	flat := out[0] == 1 && p.Kernel[0] == 1 && p.In[0] == 1 && p.PadLo[0]+p.PadHi[0] == 0
	if !flat || min(p.PadLo[1], p.PadLo[2], p.PadHi[1], p.PadHi[2]) < 0 || p.N < 1 || p.C < 1 ||
		p.M < 1 || volume(out) < 1 {
		return fmt.Errorf("%w: no images of pixels: %+v", ErrParams, p)
	}
	high, wide := p.In[1]+p.PadLo[1]+p.PadHi[1], p.In[2]+p.PadLo[2]+p.PadHi[2]
	return checkSizes([3]int{p.N, p.C + 3, high * wide}, [3]int{p.N, p.M, volume(out)},
		[3]int{p.M, p.C/p.Group + 3, volume(p.Kernel)})
}

// The work of a chunk, in multiply-adds of words, and how many bytes of an image, and of the rows
// of a chunk, stay in a cache while the weights are read.
const (
	chunkWords  = 1 << 18
	longWords   = 1 << 22 // some 100 microseconds
	mostChunks  = 16      // of less than that
	manyPixels  = 256 << 10
	manyRows    = 64 << 10
	tallestTile = 14
	// times 16: what a call of a kernel multiplies at most, some tens of microseconds
	callWords    = 1 << 17
	wordsOfPanel = 16
)

// cut cuts the output channels into panels, and the work into chunks.
func (o *NHWC) cut() {
	o.panel = panelWide
	if o.shift != 0 {
		o.panel--
	}
	o.panels = (o.p.M + o.panel - 1) / o.panel
	if o.shift != 0 {
		o.panel = (o.p.M + o.panels - 1) / o.panels
	}
	o.cutWork()
}

// cutWork cuts what the panels compute into chunks.
func (o *NHWC) cutWork() {
	if o.tiles != nil {
		o.cutBlocks()
		return
	}
	words := o.lines * o.width * o.panels * panelWide * o.k()
	n := max(min(words/chunkWords, mostChunks), words/longWords, 1)
	units := o.lines
	if o.lines == 1 {
		units = (o.width + tallestTile - 1) / tallestTile
	}
	// Parts of the panels keep calls long and see weights once; parts of the lines see an image
	// once.
	pairs := (o.panels + 1) / 2
	o.panelParts, o.lineParts = min(n, pairs), 1
	if image := o.size * o.high * o.wide * o.p.N; image > manyPixels && 4*o.k()*o.p.M < image {
		o.panelParts = 1
	}
	if o.panelParts < n {
		o.lineParts = min((n+o.panelParts-1)/o.panelParts, units)
	}
}

// Out returns the rows and columns of the output.
func (o *NHWC) Out() [2]int { return o.out }

// Chunks returns the number of independent pieces of work.
func (o *NHWC) Chunks() int { return o.lineParts * o.panelParts }

// k is the number of words that an output sees.
func (o *NHWC) k() int {
	if o.tiles != nil {
		return len(o.tiles.places) * tiledStep / 4
	}
	return o.runs * o.run
}

// packed is the format in which the weights are packed: without tiles they are words, whatever a
// product of bytes would have them be.
func (o *NHWC) packed() gemm.Format {
	if o.tiles != nil {
		return gemm.U8S8
	}
	return gemm.F32
}

// PackedLen returns how many words the packed weights take.
func (o *NHWC) PackedLen() int { return o.packed().PackedBLen(o.k(), o.panels*panelWide) }

// Layout identifies the layout of packed weights: convolutions of the same weights with equal
// values pack alike.
func (o *NHWC) Layout() NHWCLayout {
	l := NHWCLayout{size: o.size, shift: o.shift}
	if o.tiles != nil {
		l.phases, l.pixel = o.tiles.phases[1], o.tiles.pixel
	}
	return l
}

// NHWCLayout is the layout of the packed weights of [NHWC] or [NHWCWindows]. It can be
// compared.
type NHWCLayout struct {
	size   int // bytes of a pixel; 0 for windows
	phases int // of columns, and bytes from pixel to pixel, on tiles
	pixel  int
	shift  int32
	three  bool
	repeat int
}

// at is the place of output channel c in the panels.
func (o *NHWC) at(c int) int { return c/o.panel*panelWide + c%o.panel }

// Pack packs w, M x C x kernel bytes, into dst, which holds PackedLen words, and adds up each
// output channel, shift included, in sums, which holds M. With flip the bytes are unsigned and
// become signed ones that are less by 128.
func (o *NHWC) Pack(dst []float32, sums []int32, w []byte, flip bool) {
	taps, c, wide := volume(o.p.Kernel), o.p.C, o.p.Kernel[2]
	cols := wide // of the kernel that lie side by side
	if t := o.tiles; t != nil && (t.phases[1] > 1 || t.pixel != o.size) {
		cols = 1
	}
	rows, flipped := make([]byte, 4*o.panels*panelWide*o.k()), make([]byte, c*taps)
	for i := range o.p.M {
		from := w[i*c*taps:][:c*taps]
		unsigned := from
		vec.FlipBytes(flipped, from)
		if flip {
			from = flipped
		} else {
			unsigned = flipped
		}
		sums[i] = (o.shift-128)*int32(c*taps) + vec.SumBytes(unsigned)
		for ky := range o.p.Kernel[1] {
			for kx := 0; kx < wide; kx += cols {
				vec.TransposeBytes(o.weights(rows, o.at(i), ky, kx), from[ky*wide+kx:], c, cols,
					o.size, taps)
			}
		}
	}
	for p := 0; p < o.panels && o.shift != 0; p++ {
		for tap := range taps {
			fillBytes(o.weights(rows, p*panelWide+panelWide-1, tap/wide, tap%wide)[:c], 1)
		}
	}
	o.packed().PackB(dst, vec.AsFloats(rows), o.k(), o.panels*panelWide, 0, true)
}

// weights are those of a pixel, and of what lies beside it, for a place in the panels, in rows of
// all that an output sees.
func (o *NHWC) weights(rows []byte, place, ky, kx int) []byte {
	rows = rows[4*place*o.k():]
	if t := o.tiles; t != nil {
		return rows[t.taps[ky*o.p.Kernel[2]+kx]:]
	}
	return rows[ky*(4*o.k()/o.p.Kernel[1])+kx*o.size:]
}

// Grid returns one for the convolution's channels, which must be set before it is used.
func (o *NHWC) Grid() *NHWCGrid {
	return newNHWCGrid(o.panels*panelWide, panelWide, o.at)
}

// NHWCArgs are the arguments of a run.
type NHWCArgs struct {
	X, Y    []byte
	Weights []float32 // packed
	Image   []byte    // ImageLen bytes, written by FillImage
	Grid    *NHWCGrid
	Zero    byte // what the image is padded with, as it is multiplied
	Flip    bool // whether X is signed
}

// pixelTile is a call of a kernel: tiles of pixels lda bytes apart, which see runs of run words, by
// one panel of weights. The assembly reads this struct and counts tiles down.
type pixelTile struct {
	a, dst    *byte
	b         *float32
	lda, ldd  int
	runs, run int
	skip      int // bytes from the end of a run to the next
	// weights that are fetched meanwhile, from here on and to about there; the assembly moves ahead
	ahead, end     uintptr
	tiles          int
	nextA, nextDst int // bytes to the next tile
	mask           uint32
	shift          int32
	at             pixelScale
}

// Run computes chunk c of 0 <= c < Chunks. It reads X, N x H x W x C, or, where the plan copies the
// image (ImageLen is not 0), the copy in Image. Y is N x rows x columns x M.
func (o *NHWC) Run(c int, a *NHWCArgs) {
	if o.tiles != nil {
		o.runTiles(c, a)
		return
	}
	image := a.X
	if o.copies {
		image = a.Image
	}
	if len(image) < o.p.N*o.high*o.wide*o.size || len(a.Y) < o.p.N*o.out[0]*o.out[1]*o.p.M ||
		len(a.Weights) < o.PackedLen() {
		panic(fmt.Sprintf("conv: %d bytes of an image, %d of a result and %d words of weights are "+
			"too few", len(image), len(a.Y), len(a.Weights)))
	}
	part, panels := c%o.lineParts, c/o.lineParts
	pairs := (o.panels + 1) / 2 // 64 channels, so that no two chunks write to one line of a cache
	for p := 2 * (panels * pairs / o.panelParts); p < min(2*((panels+1)*pairs/o.panelParts),
		o.panels); p++ {
		t := pixelTile{b: &a.Weights[p*panelWide*o.k()], lda: o.p.Stride[2] * o.size, ldd: o.p.M,
			runs: o.runs, run: o.run,
			skip: o.wide*o.size - 4*o.run, shift: o.shift, at: a.Grid.from(p * panelWide)}
		if next := (p + 1) * panelWide * o.k(); p+1 < o.panels {
			t.fetch(a.Weights[next:][:panelWide*o.k()])
		} else {
			t.fetch(a.Weights[p*panelWide*o.k():][:1])
		}
		t.mask = uint32(1)<<min(o.panel, o.p.M-p*o.panel) - 1
		if o.lines == 1 {
			units := (o.width + tallestTile - 1) / tallestTile
			lo, hi := part*units/o.lineParts*tallestTile, (part+1)*units/o.lineParts*tallestTile
			o.line(&t, image[lo*t.lda:], a.Y[lo*o.p.M+p*o.panel:], min(hi, o.width)-lo)
			continue
		}
		for lo, hi := part*o.lines/o.lineParts, (part+1)*o.lines/o.lineParts; lo < hi; {
			n, y := lo/o.out[0], lo%o.out[0]
			end := min(hi, (n+1)*o.out[0])
			o.block(&t, image[(n*o.high+y*o.p.Stride[1])*o.wide*o.size:],
				a.Y[lo*o.width*o.p.M+p*o.panel:], end-lo)
			lo = end
		}
	}
}

// line computes n outputs of one line: tiles one after another.
func (o *NHWC) line(t *pixelTile, image, y []byte, n int) {
	for _, rows := range pixelRows {
		if tiles := n / rows; tiles > 0 {
			t.nextA, t.nextDst = rows*t.lda, rows*t.ldd
			o.call(t, image, y, rows, tiles)
			n -= tiles * rows
			if n == 0 {
				return
			}
			image, y = image[tiles*t.nextA:], y[tiles*t.nextDst:]
		}
	}
}

// block computes whole lines: tiles one below another while the rows that they see stay in the
// first cache.
func (o *NHWC) block(t *pixelTile, image, y []byte, lines int) {
	if next := o.p.Stride[1] * o.wide * o.size; lines*next > manyRows && o.width >= 2*tallestTile {
		for i := range lines {
			o.line(t, image[i*next:], y[i*o.width*t.ldd:], o.width)
		}
		return
	}
	t.nextA, t.nextDst = o.p.Stride[1]*o.wide*o.size, o.width*t.ldd
	for x := 0; x < o.width; {
		for _, rows := range pixelRows {
			if o.width-x >= rows {
				o.call(t, image[x*t.lda:], y[x*t.ldd:], rows, lines)
				x += rows
				break
			}
		}
	}
}

// call runs tiles of so many pixels, some at a time.
func (o *NHWC) call(t *pixelTile, image, y []byte, rows, tiles int) {
	most := max(1, callWords/(rows*o.k()*panelWide/wordsOfPanel))
	for at := 0; at < tiles; at += most {
		t.tiles = min(most, tiles-at)
		t.a, t.dst = &image[at*t.nextA], &y[at*t.nextDst]
		runPixelTile(rows, t)
	}
}

// pixelRows are the heights of tiles that there are kernels for.
var pixelRows = [...]int{tallestTile, 8, 7, 4, 2, 1}
