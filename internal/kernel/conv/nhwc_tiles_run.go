package conv

import (
	"fmt"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// The work of a chunk of blocks, in steps of a block, of some 20 nanoseconds, and what a block
// takes besides its steps; and the most that one call computes, some tens of microseconds.
const (
	chunkSteps = 128
	longSteps  = 4096
	blockSteps = 3
	callSteps  = 1024
)

// cutBlocks is cutWork on tiles.
func (o *NHWC) cutBlocks() {
	t := o.tiles
	blocks := len(t.kept)
	steps := blocks * o.panels * (len(t.places) + blockSteps)
	n := max(min(steps/chunkSteps, mostChunks), steps/longSteps, 1)
	pairs := (o.panels + 1) / 2
	o.panelParts, o.lineParts = min(n, pairs), 1
	if image := t.planes[0] * t.planes[1] * o.plane(); image > manyPixels && 4*o.k()*o.p.M < image {
		o.panelParts = 1
	}
	if o.panelParts < n {
		o.lineParts = min((n+o.panelParts-1)/o.panelParts, blocks)
	}
}

// tiledCall is some blocks of positions below each other by one panel of weights.
type tiledCall struct {
	image    []byte // from the pixel of the first position on
	y        []byte // from the first result on
	weights  []float32
	places   []int
	width    int      // bytes of a step that are multiplied
	once     bool     // whether most bytes are seen once
	kept     []uint32 // of each block
	rows     int      // positions of a block
	lda, ldd int      // bytes between positions, and between results
	channels int
	grid     *NHWCGrid
	first    int // the first channel's number in the grid
	shift    int32
	// ahead is the address of weights that are fetched meanwhile, up to about end: see
	// [pixelTile.fetch]
	ahead, end uintptr
}

// runTiles is Run on tiles.
func (o *NHWC) runTiles(c int, a *NHWCArgs) {
	t, image := o.tiles, a.X
	if o.copies {
		image = a.Image
	}
	if len(image) < o.plane() || len(a.Image) < o.ImageLen() ||
		len(a.Y) < o.p.N*o.out[0]*o.out[1]*o.p.M || len(a.Weights) < o.PackedLen() {
		panic(fmt.Sprintf("conv: %d bytes of an image, %d of a result and %d words of weights are "+
			"too few", len(image), len(a.Y), len(a.Weights)))
	}
	part, panels, blocks := c%o.lineParts, c/o.lineParts, len(t.kept)
	pairs, words := (o.panels+1)/2, panelWide*o.k()
	lo, hi := part*blocks/o.lineParts, (part+1)*blocks/o.lineParts
	for p := 2 * (panels * pairs / o.panelParts); p < min(2*((panels+1)*pairs/o.panelParts),
		o.panels); p++ {
		call := tiledCall{weights: a.Weights[p*words:][:words], places: t.places,
			width: t.width, once: t.once, lda: t.lda, ldd: o.p.M,
			channels: min(o.panel, o.p.M-p*o.panel), grid: a.Grid, first: p * panelWide,
			shift: o.shift}
		if p+1 < o.panels {
			call.fetch(a.Weights[(p+1)*words:][:words])
		}
		y := a.Y[p*o.panel:]
		if lo < t.tail {
			o.blocks(&call, image, 0, y, lo, min(hi, t.tail))
		}
		if hi > t.tail {
			o.blocks(&call, a.Image, t.tailAt(), y, max(lo, t.tail), hi)
		}
	}
}

// blocks computes those from lo up to hi, some at a time. The image begins at some byte of all.
func (o *NHWC) blocks(c *tiledCall, image []byte, begin int, y []byte, lo, hi int) {
	t := o.tiles
	most := max(1, callSteps/(len(t.places)+blockSteps))
	for lo < hi {
		n := min(most, hi-lo)
		c.rows = tiledRows
		if left := t.positions - lo*tiledRows; left < tiledRows {
			c.rows = left
		} else if n*tiledRows > left {
			n-- // the last block has fewer positions
		}
		c.image, c.y = image[lo*tiledRows*t.lda-begin:], y[t.before[lo]*c.ldd:]
		c.kept = t.kept[lo : lo+n]
		c.multiply()
		lo += n
	}
}

// multiply computes a call: by the definition, which is slow and has the same bits, where the
// system keeps no tiles any more or permits none, as on a machine that the program was moved to.
func (c *tiledCall) multiply() {
	if cpuinfo.TilesDefined() || !cpuinfo.TilesKept() {
		c.model()
		return
	}
	c.run()
}
