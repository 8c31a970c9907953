package conv

import (
	"math/bits"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
)

// On tiles, the pixels that outputs see are rows of A where they lie: 64 bytes from a pixel on are
// a step along K, whatever bytes of the pixels behind it they end with, which meet weights of 0.
// The image is one run of positions, as many in a row as the padded image has pixels, and positions
// that no output stands for, those at the end of a row, are computed and dropped. So an output
// sees, from the pixel of its position on, the same places whatever row it is in. Where outputs
// stand more than a pixel apart, the image is copied in phases, each of which has every so many
// rows and columns.

// Geometry of blocks of positions.
const (
	tiledRows = 32 // positions of a block
	tiledStep = 64 // bytes along K
	// tileRows are the rows of a register.
	tileRows = 16
	// fewestTiled is the number of outputs from which on tiles are used.
	fewestTiled = 8
	// seenOnce are the bytes of a pixel from which on those that one output sees are not kept in
	// the first cache.
	seenOnce = 1024
)

// tiled is the part of an [NHWC] that is its own on tiles.
type tiled struct {
	// places says how far from its position's pixel the bytes of each step lie.
	places []int
	width  int  // bytes of a step whose weights are not all 0, less where stretches are short
	once   bool // whether most bytes are seen by one output
	// pixel is how many bytes lie from one pixel to the next. In a copy whose pixels are an even
	// number of lines of a cache there is one more: rows of A an odd number of lines apart are
	// loaded fastest.
	pixel int
	// taps says for each element of the kernel at which byte of the packed K its pixel begins.
	taps []int
	// A copy has planes of the image, one for each phase of rows and columns: phases in each
	// direction, high rows of wide pixels for each image of N.
	phases, planes [2]int
	high, wide     int
	lda            int // bytes from one position to the next
	pitch          int // positions of a row
	positions      int // up to the last output
	// of each block, the mask of the positions that are outputs, and how many come before
	kept   []uint32
	before []int
	// Where the image is not copied, blocks from number tail on read beyond its end, or would: they
	// read a copy of what is left. It is the number of blocks where none does.
	tail int
}

// planTiles lays the convolution out for tiles, where it pays.
func (o *NHWC) planTiles(flip bool) {
	if o.p.N*o.out[0]*o.out[1] < fewestTiled || !gemm.U8S8.OnTiles() {
		return
	}
	p := &o.p
	t := &tiled{phases: [2]int{p.Stride[1], p.Stride[2]}}
	if o.tiles = t; !o.planar {
		o.size = p.C
	} else {
		t.phases[1] = 1 // a stretch is several pixels
	}
	for i := range t.planes {
		t.planes[i] = min(t.phases[i], p.Kernel[i+1])
	}
	o.copies = o.planar || flip || t.phases != [2]int{1, 1} || o.high > p.In[1] || o.wide > p.In[2]
	if t.pixel = o.size; o.copies && t.pixel >= tiledStep {
		t.pixel = ((t.pixel+tiledStep-1)/tiledStep | 1) * tiledStep
	}
	apart := p.Stride[2] / t.phases[1] // pixels of a plane between outputs
	t.lda = apart * t.pixel
	t.high = o.out[0] + (p.Kernel[1]-1)/t.phases[0]
	t.wide = (o.out[1]-1)*apart + (p.Kernel[2]-1)/t.phases[1] + 1
	if o.planar { // whose rows are copied whole
		t.wide = max(t.wide, o.wide)
	}
	t.wide = (t.wide + apart - 1) / apart * apart
	t.pitch = t.wide / apart
	t.positions = ((p.N-1)*t.high+o.out[0]-1)*t.pitch + o.out[1]
	t.once = volume(p.Kernel) == 1 && o.size >= seenOnce
	o.listPlaces()
	o.keep()
	o.findTail()
}

// findTail finds the blocks that read beyond an image that is not copied.
func (o *NHWC) findTail() {
	t := o.tiles
	t.tail = len(t.kept)
	read := func(positions int) int {
		return (positions-1)*t.lda + t.places[len(t.places)-1] + t.width
	}
	for !o.copies && t.tail > 0 && read(min(t.tail*tiledRows, t.positions)) > o.plane() {
		t.tail--
	}
}

// plane is the number of bytes of a plane.
func (o *NHWC) plane() int { return o.p.N * o.tiles.high * o.tiles.wide * o.tiles.pixel }

// listPlaces lists what an output sees: stretches of bytes that lie side by side, in whole steps.
func (o *NHWC) listPlaces() {
	t, k := o.tiles, o.p.Kernel
	t.taps = make([]int, k[1]*k[2])
	longest := 0
	for ky := range k[1] {
		for px := range t.planes[1] {
			at := (ky%t.phases[0]*t.planes[1]+px)*o.plane() + ky/t.phases[0]*t.wide*t.pixel
			first := len(t.places)
			for kx := px; kx < k[2]; kx += t.phases[1] {
				begin := kx / t.phases[1] * t.pixel // in the stretch
				if t.pixel != o.size {              // each pixel is one of its own
					at, begin, first = at+min(begin, t.pixel), 0, len(t.places)
				}
				t.taps[ky*k[2]+kx] = first*tiledStep + begin
				longest = max(longest, begin+o.size)
				for (len(t.places)-first)*tiledStep < begin+o.size {
					t.places = append(t.places, at+(len(t.places)-first)*tiledStep)
				}
			}
		}
	}
	t.width = min((longest+3)/4*4, tiledStep)
}

// keep lists the positions of outputs.
func (o *NHWC) keep() {
	t := o.tiles
	t.kept = make([]uint32, (t.positions+tiledRows-1)/tiledRows)
	for i := range t.positions {
		if i%t.pitch < o.out[1] && i/t.pitch%t.high < o.out[0] {
			t.kept[i/tiledRows] |= 1 << (i % tiledRows)
		}
	}
	n := 0
	for _, m := range t.kept {
		t.before = append(t.before, n)
		n += bits.OnesCount32(m)
	}
}

// tailAt is the byte of the image at which block number tail begins.
func (t *tiled) tailAt() int { return t.tail * tiledRows * t.lda }

// tiledImageLen is ImageLen on tiles.
func (o *NHWC) tiledImageLen() int {
	t := o.tiles
	switch {
	case o.copies:
		return t.planes[0]*t.planes[1]*o.plane() + tiledStep
	case t.tail < len(t.kept):
		return o.plane() - t.tailAt() + tiledStep
	}
	return 0
}

// tiledImageRows is how many rows the copy of the image has, and their bytes: one where it is only
// the end of the image.
func (o *NHWC) tiledImageRows() (rows, pitch int) {
	t := o.tiles
	switch {
	case o.copies:
		return t.planes[0] * t.planes[1] * o.p.N * t.high, t.wide * t.pixel
	case t.tail < len(t.kept):
		return 1, o.plane() - t.tailAt()
	}
	return 0, 1
}

// fillTiledRow makes row r of the copy of the image.
func (o *NHWC) fillTiledRow(row []byte, r int, a *NHWCArgs) {
	t, p := o.tiles, &o.p
	if !o.copies {
		copy(row, a.X[t.tailAt():])
		return
	}
	plane, n, y := r/(p.N*t.high), r/t.high%p.N, r%t.high
	y = y*t.phases[0] + plane/t.planes[1] - p.PadLo[1]
	if y < 0 || y >= p.In[1] {
		fillBytes(row, a.Zero)
		return
	}
	// of column x of the plane, the image has x*phases - first
	first := p.PadLo[2] - plane%t.planes[1]
	lo := max(first+t.phases[1]-1, 0) / t.phases[1]
	hi := min((p.In[2]-1+first)/t.phases[1]+1, t.wide)
	if p.In[2]-1+first < 0 || hi <= lo {
		fillBytes(row, a.Zero)
		return
	}
	fillBytes(row[:lo*t.pixel], a.Zero)
	if to := row[lo*t.pixel : hi*t.pixel]; o.planar {
		o.joinPlanes(to, a, n, y)
	} else {
		from := a.X[((n*p.In[1]+y)*p.In[2]+lo*t.phases[1]-first)*p.C:]
		if t.phases[1] == 1 && t.pixel == p.C {
			vec.CopyRows(to, 0, from, 0, len(to), 1, a.Flip)
		} else {
			vec.CopyRows(to, t.pixel, from, t.phases[1]*p.C, p.C, hi-lo, a.Flip)
		}
	}
	fillBytes(row[hi*t.pixel:], a.Zero)
}
