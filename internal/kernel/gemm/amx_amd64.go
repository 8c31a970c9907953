//go:build amd64 && !noasm

package gemm

import (
	"fmt"
	"math"
	"sync"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// tileConfig is what LDTILECFG reads: palette 1, and the rows and bytes of a row of each register.
type tileConfig struct {
	palette  uint8
	_        [15]uint8
	colBytes [16]uint16
	rows     [16]uint8
}

// tileArgs is a call of the assembly, which reads this struct. Distances are bytes.
type tileArgs struct {
	config         tileConfig
	a, b, c        *float32
	aRow           int // from one row of A to the next
	aTile          int // from the first row of a panel of A to the 17th
	aStep          int // from one 16 words along K to the next
	aPanel, cPanel int // from one panel of rows to the next
	ldc            int
	steps, panels  int
	add            int     // 1: to what c holds
	ahead          uintptr // what is fetched meanwhile
	aheadStep      int
}

// args makes the assembly's call of c.
func (c *tileCall) args(t *tileArgs) {
	lower := c.rows - tileRows
	row, step := c.strides()
	t.aRow, t.aTile, t.aStep = 4*row, 4*tileRows*row, 4*step
	if lower < 1 { // one row, whose results nobody reads, stays inside of A
		lower, t.aTile = 1, 0
	}
	upper := min(c.rows, tileRows)
	t.config.palette = 1
	for i, rows := range [8]int{upper, upper, lower, lower, upper, lower, tileRows, tileRows} {
		t.config.rows[i], t.config.colBytes[i] = uint8(rows), 4*tileWords
	}
	t.aPanel, t.cPanel, t.ldc = c.nextA, c.nextC, 4*c.ldc
	t.steps, t.panels, t.add = c.steps, c.tiles, int(c.flags&flagAccumulate)
	t.ahead, t.aheadStep = c.ahead, c.aheadStep
}

// run computes a call with the processor's tiles.
func (c *tileCall) run(v level, a, b, out []float32) {
	if c.steps == 0 || c.tiles == 0 {
		c.model(v, a, b, out)
		return
	}
	var t tileArgs
	c.args(&t)
	row, step := c.strides()
	_ = a[(c.tiles-1)*c.nextA/4+(c.rows-1)*row+(c.steps-1)*step+tileWords-1]
	_ = b[c.steps*tileWords*tilesNR-1]
	_ = out[(c.tiles-1)*c.nextC/4+(max(c.rows, tileRows+1)-1)*c.ldc+tilesNR-1]
	t.a, t.b, t.c = &a[0], &b[0], &out[0]
	switch v.format() {
	case BF16:
		tilesAMXBF16(&t)
	case U8S8:
		tilesAMXU8S8(&t)
	default:
		tilesAMXS8U8(&t)
	}
}

// RunTilesPeak runs n rounds, at least 1, of independent products of tiles in registers, which
// nothing in the format can be faster than, and returns their operations, two for each product of
// elements. It is 0 where products of the format are not computed on tiles.
func RunTilesPeak(p Format, n int) (flop int64) {
	if !p.OnTiles() || cpuinfo.TilesDefined() || !cpuinfo.TilesKept() {
		return 0
	}
	c := tileCall{steps: n, rows: tilesMR, tiles: 1}
	var t tileArgs
	c.args(&t)
	perWord := int64(4)
	if p == BF16 {
		peakAMXBF16(&t)
	} else {
		perWord = 8
		peakAMXBytes(&t)
	}
	return perWord * int64(n) * tilesMR * tilesNR * tileWords
}

// tilesDoubt says why tiles are not used, nil where they are: the system permits none, or they
// compute something else than their definition.
var tilesDoubt = sync.OnceValue(func() error {
	err := settled(cpuinfo.PermitTiles, (*tileCall).run)
	if err != nil && cpuinfo.HasTiles() {
		cpuinfo.DistrustTiles(err)
	}
	return err
})

// settled asks for the use of tiles and compares them with the definition.
func settled(permit func() error, run func(c *tileCall, v level, a, b, out []float32)) error {
	if err := permit(); err != nil {
		return err
	}
	return tilesDiffer(run)
}

// tilesDiffer compares what a function makes of a call of each level with the definition, of few
// rows and of two tiles below each other. Each process with a plan pays for it, so it is as little
// as shows each register.
func tilesDiffer(run func(c *tileCall, v level, a, b, out []float32)) error {
	for _, v := range []level{levelTilesBF16, levelTilesU8S8, levelTilesS8U8} {
		for _, rows := range []int{3, tileRows + 3} {
			c := tileCall{steps: 2, rows: rows, tiles: 1, ldc: tilesNR + 5}
			if rows > tileRows { // two tiles, whose rows of A lie apart
				c.rowA = c.steps*tileWords + 4
				c.tiles, c.nextA, c.nextC = 2, 4*rows*c.rowA, 4*rows*c.ldc
			}
			a, b := make([]float32, 8*tilesMR*tileWords), make([]float32, 3*tileWords*tilesNR)
			state := uint32(rows)
			scramble(v, a, &state)
			scramble(v, b, &state)
			got, want := make([]float32, 2*tilesMR*c.ldc), make([]float32, 2*tilesMR*c.ldc)
			for range 2 { // from nothing, and to what is there
				run(&c, v, a, b, got)
				c.model(v, a, b, want)
				c.flags = flagAccumulate
			}
			for i, w := range want[:c.tiles*rows*c.ldc] {
				if math.Float32bits(got[i]) != math.Float32bits(w) {
					return fmt.Errorf("tiles of %d rows, format %d: element %d is %#x, want %#x",
						rows, v.format(), i, math.Float32bits(got[i]), math.Float32bits(w))
				}
			}
		}
	}
	return nil
}

// scramble makes up words: bytes, or bfloat16 between 1/8 and 8 of either sign.
func scramble(v level, x []float32, state *uint32) {
	for i := range x {
		*state = *state*1664525 + 1013904223
		w := *state ^ *state>>15
		if v.pairs() {
			w = w&0x81ff81ff | 0x3e003e00 + w>>9&0x01000100
		}
		x[i] = math.Float32frombits(w)
	}
}
