package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/kernel/vec"
)

// NHWCWindows is a planned operation that takes windows of each channel by itself, on images of
// bytes with their channels in the last axis: either a convolution by signed bytes whose results
// are bytes again, as [NHWC] makes them, or the maximum. It is immutable and may be used by many
// goroutines at once.
type NHWCWindows struct {
	p    Params
	out  [2]int
	max  bool
	wide int // pixels of a padded row
	// where the elements of a window lie from the first on, whole groups of four for a convolution
	taps   []int
	rows   int // of the output in a chunk
	band   int // bytes of the padded rows of a chunk
	parts  int // chunks of an image
	groups int
	shift  int32
	three  bool // windows of 3 x 3 that are read where they lie
	// repeat is the number of neighbouring pixels that make one block where pixels have few
	// channels: the block repeats the channels so often. It is 1 where a block is part of a pixel.
	repeat int
}

const (
	channelBlock = 64 // channels that kernels compute together
	bandSlack    = channelBlock
	windowParts  = 8
	chunkBytes   = 8 << 10 // results of a chunk at least, where an image has so many
	fewestRows   = 4
	repeatedMost = 16
	maxTaps      = 1 << 12
)

// NewNHWCWindows plans a convolution with as many groups as channels, or pooling by the greatest
// byte, of p's geometry, which has depth 1. The weights multiply as if shift, at most 127 in
// magnitude, were added to each. Errors are of kind ErrParams.
func NewNHWCWindows(p Params, largest bool, shift int32) (*NHWCWindows, error) {
	p.Group, p.M = p.C, p.C
	out, err := p.setDefaults()
	if err != nil {
		return nil, err
	}
	if err := p.checkNHWC(out); err != nil {
		return nil, err
	}
	if p.Kernel[1]*p.Kernel[2] > maxTaps {
		return nil, fmt.Errorf("%w: a window of %d x %d, want at most %d elements", ErrParams,
			p.Kernel[1], p.Kernel[2], maxTaps)
	}
	o := &NHWCWindows{p: p, out: [2]int{out[1], out[2]}, max: largest, shift: shift,
		wide: p.In[2] + p.PadLo[2] + p.PadHi[2]}
	o.list()
	parts := min(max(2*(volume(out)*p.C/(2*chunkBytes)), 1), windowParts)
	if o.rows = (o.out[0] + parts - 1) / parts; !o.three {
		o.rows = min(max(o.rows, fewestRows), o.out[0])
	}
	o.parts = (o.out[0] + o.rows - 1) / o.rows
	o.band = o.seen(o.rows) * o.wide * p.C
	return o, nil
}

// list lists the elements of a window. For a convolution they are listed in groups of four; the
// last group is filled up with elements whose weights are 0. Where weights are shifted, all
// elements are listed twice.
func (o *NHWCWindows) list() {
	p := &o.p
	last := (o.out[1]-1)*p.Stride[2] + 2 - p.PadLo[2]
	if o.repeat = 1; p.C <= repeatedMost && channelBlock%p.C == 0 && p.Stride[2] == 1 {
		o.repeat = channelBlock / p.C
	}
	o.three = !o.max && o.repeat == 1 && p.Kernel == [3]int{1, 3, 3} &&
		p.Dilate == [3]int{1, 1, 1} && p.Stride[1] == p.Stride[2] && p.Stride[2] <= 2 &&
		p.PadLo[2] <= 1 && last <= p.In[2]
	n := p.Kernel[1] * p.Kernel[2]
	o.groups = n
	if !o.max {
		n = (n + 3) / 4 * 4
		o.groups = n / 4
	}
	o.taps = make([]int, n)
	for ky := range p.Kernel[1] {
		for kx := range p.Kernel[2] {
			o.taps[o.place(ky*p.Kernel[2]+kx)] = (ky*p.Dilate[1]*o.wide + kx*p.Dilate[2]) * p.C
		}
	}
	if o.shift != 0 {
		o.taps, o.groups = append(o.taps, o.taps...), 2*o.groups
	}
}

// place is the number of element t of the window in the list: a group is a column of windows of 3 x
// 3.
func (o *NHWCWindows) place(t int) int {
	if o.three {
		return t%3*4 + t/3
	}
	return t
}

// seen is how many rows of the image so many of the output see.
func (o *NHWCWindows) seen(rows int) int {
	return (rows-1)*o.p.Stride[1] + (o.p.Kernel[1]-1)*o.p.Dilate[1] + 1
}

// Out returns the rows and columns of the output.
func (o *NHWCWindows) Out() [2]int { return o.out }

// Chunks returns the number of independent pieces of work.
func (o *NHWCWindows) Chunks() int { return o.p.N * o.parts }

// ScratchLen returns how many bytes of scratch Run needs.
func (o *NHWCWindows) ScratchLen() int { return o.band + bandSlack }

// blocks is the number of blocks of channels.
func (o *NHWCWindows) blocks() int { return (o.p.C + channelBlock - 1) / channelBlock }

// PackedLen returns how many bytes the packed weights take.
func (o *NHWCWindows) PackedLen() int { return o.blocks() * o.groups * 4 * channelBlock }

// Layout is described with [NHWC.Layout].
func (o *NHWCWindows) Layout() NHWCLayout {
	return NHWCLayout{shift: o.shift, three: o.three, repeat: o.repeat}
}

// inBlock is where the kernels have channel c of a block: unpacking bytes to words leaves four
// neighbours in each lane.
func inBlock(c int) int { return c%16/4*16 + c/16*4 + c%4 }

// Pack packs w, C x kernel bytes, into dst, which holds PackedLen bytes, and adds up each channel,
// shift included, in sums, which holds C. With flip the bytes are unsigned and become signed ones
// that are less by 128.
func (o *NHWCWindows) Pack(dst []byte, sums []int32, w []byte, flip bool) {
	clear(dst[:o.PackedLen()])
	taps := volume(o.p.Kernel)
	for at := range o.p.C * o.repeat {
		c, sum := at%o.p.C, o.shift*int32(taps)
		to := dst[at/channelBlock*o.groups*4*channelBlock+4*inBlock(at%channelBlock):]
		for t, b := range w[c*taps:][:taps] {
			if flip {
				b ^= 0x80
			}
			sum += int32(int8(b))
			i := o.place(t)
			to[i/4*4*channelBlock+i%4] = b
			if i += len(o.taps) / 2; o.shift != 0 {
				to[i/4*4*channelBlock+i%4] = byte(o.shift)
			}
		}
		sums[c] = sum
	}
}

// Grid returns one for the convolution's channels, which must be set before it is used.
func (o *NHWCWindows) Grid() *NHWCGrid {
	g := newNHWCGrid(o.p.C, channelBlock, func(c int) int {
		return c/channelBlock*channelBlock + inBlock(c%channelBlock)
	})
	g.repeat, g.channels = o.repeat, o.p.C
	return g
}

// NHWCWindowArgs are the arguments of a run: X is N x H x W x C and Y N x rows x columns x C.
// Pooling has neither weights nor a grid; its Zero is the least byte, 0, as Flip leaves it.
type NHWCWindowArgs struct {
	X, Y    []byte
	Weights []byte // packed
	Grid    *NHWCGrid
	Zero    byte // what the image is padded with, as it is multiplied
	Flip    bool // whether X is signed
}

// pixelLines is a call of a kernel: lines of pixels of 64 channels. The assembly reads this struct,
// counts lines down and moves srcAt and dstAt: a pointer beyond the end of what it pointed to would
// not be one to the garbage collector.
type pixelLines struct {
	src, dst         *byte
	w                *byte
	taps             *int
	groups           int
	pixels           int
	step, ldd        int // bytes from pixel to pixel
	lines            int
	nextSrc, nextDst int    // bytes from line to line
	mask             uint64 // of the channels
	at               pixelScale
	//lint:ignore U1000 the assembly's: where a call is
	srcAt, dstAt uintptr
}

// Run computes chunk c of 0 <= c < Chunks with ScratchLen bytes of scratch that no other call uses
// meanwhile.
func (o *NHWCWindows) Run(c int, a *NHWCWindowArgs, scratch []byte) {
	n, first := c/o.parts, c%o.parts*o.rows
	rows := min(o.rows, o.out[0]-first)
	if o.three {
		o.runThree(a, scratch, n, first, rows)
		return
	}
	o.fillBand(scratch, a, n, first*o.p.Stride[1]-o.p.PadLo[1], o.seen(rows))
	y := a.Y[(n*o.out[0]+first)*o.out[1]*o.p.C:][:rows*o.out[1]*o.p.C]
	t := pixelLines{taps: &o.taps[0], groups: o.groups, step: o.p.Stride[2] * o.p.C, ldd: o.p.C,
		nextSrc: o.p.Stride[1] * o.wide * o.p.C, nextDst: o.out[1] * o.p.C, pixels: o.out[1]}
	for b := range o.blocks() {
		switch {
		case !o.max:
			t.w, t.at = &a.Weights[b*o.groups*4*channelBlock], a.Grid.from(b*channelBlock)
		case a.Flip:
			t.at.flip = 0x80808080
		}
		if o.repeat > 1 {
			o.blocksOfPixels(&t, scratch, y, rows)
			return
		}
		t.mask = blockMask(o.p.C - b*channelBlock)
		o.lines(&t, scratch[b*channelBlock:], y[b*channelBlock:], rows)
	}
}

// blockMask is the mask of the first n channels of a block, or all of them.
func blockMask(n int) uint64 { return ^uint64(0) >> (channelBlock - min(channelBlock, n)) }

// blocksOfPixels computes lines of which several pixels make a block: the whole blocks of each and
// what is left.
func (o *NHWCWindows) blocksOfPixels(t *pixelLines, scratch, y []byte, rows int) {
	whole := t.nextDst / channelBlock
	t.step, t.ldd = channelBlock, channelBlock
	if t.pixels, t.mask = whole, blockMask(channelBlock); whole > 0 {
		o.lines(t, scratch, y, rows)
	}
	if left := t.nextDst % channelBlock; left > 0 {
		t.pixels, t.mask = 1, blockMask(left)
		o.lines(t, scratch[whole*channelBlock:], y[whole*channelBlock:], rows)
	}
}

// lines computes rows, some at a time.
func (o *NHWCWindows) lines(t *pixelLines, scratch, y []byte, rows int) {
	most := max(1, callWords/(t.pixels*(len(o.taps)+4)))
	for r := 0; r < rows; r += most {
		t.lines = min(most, rows-r)
		t.src, t.dst = &scratch[r*t.nextSrc], &y[r*t.nextDst]
		runPixelLines(o.max, t)
	}
}

// fillBand copies rows of image n from row y on, with padding around them.
func (o *NHWCWindows) fillBand(dst []byte, a *NHWCWindowArgs, n, y, rows int) {
	c := o.p.C
	pitch, lo, size := o.wide*c, o.p.PadLo[2]*c, o.p.In[2]*c
	for r := range rows {
		row := dst[r*pitch:][:pitch]
		if y+r < 0 || y+r >= o.p.In[1] {
			fillBytes(row, a.Zero)
			continue
		}
		fillBytes(row[:lo], a.Zero)
		vec.CopyRows(row[lo:], 0, a.X[(n*o.p.In[1]+y+r)*size:], 0, size, 1, a.Flip)
		fillBytes(row[lo+size:], a.Zero)
	}
}

// pixelThree is a call of a kernel for windows of 3 x 3: lines of pixels of 64 channels. The
// assembly reads this struct, counts lines down and moves rowsAt and dstAt, as those of pixelLines.
type pixelThree struct {
	rows    **byte // the first of three rows of the image
	dst     *byte
	w       *byte
	first   int // where in a row the first column begins
	column  int // bytes from column to column
	pixels  int
	lines   int
	nextDst int    // bytes from line to line
	shift   uint32 // of three weights
	pads    uint32 // 1 where the first column is padding, 2 where the last is
	pad     uint32 // four bytes of it
	flip    uint32 // what makes unsigned bytes of signed ones
	mask    uint64 // of the channels
	at      pixelScale

	//lint:ignore U1000 the assembly's: where a call is
	rowsAt, dstAt uintptr
}

// linesOfThree is how many lines a call computes at most.
const linesOfThree = 14

// runThree computes rows of image n from row first on. The rows of padding are in scratch.
func (o *NHWCWindows) runThree(a *NHWCWindowArgs, scratch []byte, n, first, rows int) {
	p := &o.p
	size, stride := p.In[2]*p.C, p.Stride[1]
	image, padding := a.X[n*p.In[1]*size:][:p.In[1]*size], scratch[:size]
	var table [2*linesOfThree + 1]*byte
	filled := false
	for lines := 0; rows > 0; first, rows = first+lines, rows-lines {
		lines = min(rows, linesOfThree)
		for i := range (lines-1)*stride + 3 {
			y := first*stride - p.PadLo[1] + i
			if y >= 0 && y < p.In[1] {
				table[i] = &image[y*size]
				continue
			}
			if table[i] = &padding[0]; !filled {
				fillBytes(padding, a.Zero^flipOf(a.Flip))
				filled = true
			}
		}
		o.blocksOfThree(a, &table, a.Y[(n*o.out[0]+first)*o.out[1]*p.C:][:lines*o.out[1]*p.C],
			lines)
	}
}

// blocksOfThree computes lines of all channels.
func (o *NHWCWindows) blocksOfThree(a *NHWCWindowArgs, table *[2*linesOfThree + 1]*byte, y []byte,
	lines int) {
	p := &o.p
	t := pixelThree{column: p.C, pixels: o.out[1], nextDst: o.out[1] * p.C,
		pad: uint32(a.Zero) * 0x01010101, flip: 0x80808080,
		shift: uint32(uint8(o.shift)) * 0x00010101}
	if p.PadLo[2] > 0 {
		t.pads = 1
	}
	if (o.out[1]-1)*p.Stride[2]+2-p.PadLo[2] == p.In[2] {
		t.pads |= 2
	}
	most := max(1, callWords/(o.out[1]*channelBlock))
	for b := range o.blocks() {
		t.mask = blockMask(p.C - b*channelBlock)
		t.w, t.at, t.first = &a.Weights[b*o.groups*4*channelBlock], a.Grid.from(b*channelBlock),
			b*channelBlock
		for r := 0; r < lines; r += most {
			t.lines = min(most, lines-r)
			t.rows, t.dst = &table[r*p.Stride[1]], &y[r*t.nextDst+b*channelBlock]
			runPixelThree(p.Stride[1], a.Flip, &t)
		}
	}
}

// flipOf is what bytes differ by from those that are multiplied.
func flipOf(flip bool) byte {
	if flip {
		return 0x80
	}
	return 0
}
