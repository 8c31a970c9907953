//go:build !noasm

package conv

// tiledArgs is a call of the assembly, which reads this struct, counts blocks down and moves ahead.
// Distances are bytes.
type tiledArgs struct {
	config     tileConfig
	a, dst     *byte
	b          *float32
	places     *int    // of each step
	kept       *uint32 // of each block
	lda, ldd   int
	aTile      int // from the first position of a block to the 17th
	count      int // of steps
	left       int // of them: the assembly's
	blocks     int
	pairs      int     // of pixels of a block that bytes are made of in a step of the next
	ahead, end uintptr // weights that are fetched meanwhile, 1 KB at a time
	once       uint32  // 1: pixels are loaded past the first cache
	// plain is 1 where all channels are kept, and their sums only scaled; 2 otherwise
	plain uint32
	mask  uint32 // of the channels
	shift int32
	at    pixelScale
}

// run computes a call with the processor's tiles.
func (c *tiledCall) run() {
	steps := len(c.places)
	t := tiledArgs{a: &c.image[0], dst: &c.y[0], b: &c.weights[0], places: &c.places[0],
		kept: &c.kept[0], lda: c.lda, ldd: c.ldd, aTile: tileRows * c.lda, count: steps,
		left: steps, blocks: len(c.kept), pairs: (tileRows + steps - 1) / steps, plain: 2,
		mask: uint32(1)<<c.channels - 1, shift: c.shift, at: c.grid.from(c.first)}
	if c.once {
		t.once = 1
	}
	if c.channels == panelWide && t.shift == 0 && t.at.twice == 0 {
		t.plain = 1
	}
	c.configure(&t)
	_ = c.image[((len(c.kept)-1)*tiledRows+c.rows-1)*c.lda+c.places[steps-1]+c.width-1]
	_ = c.weights[steps*tileRows*panelWide-1]
	t.ahead, t.end = c.ahead, c.end
	tiledPixels(&t)
	c.ahead = t.ahead
}

// configure says which parts of the registers are used.
func (c *tiledCall) configure(t *tiledArgs) {
	upper, lower := min(c.rows, tileRows), c.rows-tileRows
	if lower < 1 { // one row of sums, which is not computed
		lower, t.aTile = 1, 0
	}
	t.config.palette = 1
	for i, rows := range [8]int{upper, upper, lower, lower, upper, lower, c.width / 4,
		c.width / 4} {
		t.config.rows[i], t.config.colBytes[i] = uint8(rows), tiledStep
	}
	t.config.colBytes[4], t.config.colBytes[5] = uint16(c.width), uint16(c.width)
}
