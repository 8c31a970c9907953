//go:build !noasm

package conv

// tiledConfig is what LDTILECFG reads: palette 1, and the rows and bytes of a row of each register.
type tiledConfig struct {
	palette  uint8
	_        [15]uint8
	colBytes [16]uint16
	rows     [16]uint8
}

// tiledArgs is a call of the assembly, which reads this struct, counts blocks down and moves ahead.
// Distances are bytes.
type tiledArgs struct {
	config     tiledConfig
	a, dst     *byte
	b          *float32
	steps      *int    // the place of each
	kept       *uint32 // of each block
	lda, ldd   int
	aTile      int // from the first position of a block to the 17th
	count      int // of steps
	blocks     int
	ahead, end uintptr // weights that are fetched meanwhile, 1 KB at a time
	mask       uint32  // of the channels
	shift      int32
	at         pixelScale
}

// run computes a call with the processor's tiles.
func (c *tiledCall) run() {
	t := tiledArgs{a: &c.image[0], dst: &c.y[0], b: &c.weights[0], steps: &c.places[0],
		kept: &c.kept[0], lda: c.lda, ldd: c.ldd, aTile: tileRows * c.lda, count: len(c.places),
		blocks: len(c.kept), mask: uint32(1)<<c.channels - 1, shift: c.shift,
		at: c.grid.from(c.first)}
	upper, lower := min(c.rows, tileRows), c.rows-tileRows
	if lower < 1 { // one row, whose results nobody reads, stays inside of the image
		lower, t.aTile = 1, 0
	}
	t.config.palette = 1
	for i, rows := range [8]int{upper, upper, lower, lower, upper, lower, tileRows, tileRows} {
		t.config.rows[i], t.config.colBytes[i] = uint8(rows), tiledStep
	}
	_ = c.image[((len(c.kept)-1)*tiledRows+c.rows-1)*c.lda+c.places[len(c.places)-1]+tiledStep-1]
	_ = c.weights[len(c.places)*tileRows*panelWide-1]
	t.ahead, t.end = c.ahead, c.end
	tiledPixels(&t)
	c.ahead = t.ahead
}
