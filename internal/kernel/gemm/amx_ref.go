package gemm

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/refmath"
)

// hasTiles reports whether products are computed on tiles. It is asked for products of bfloat16 and
// of bytes alone. The first of them in a process asks the system for the use of tiles, and has them
// compared with their definition: where that fails, the path of instructions is the one below from
// then on.
func hasTiles() bool {
	return cpuinfo.WantDefinedTiles() || cpuinfo.HasTiles() && tilesDoubt() == nil
}

// SettleTiles finds out whether products are computed on tiles, if nobody has yet, for who tells of
// it: packing and planning do so by themselves.
func SettleTiles() { _ = hasTiles() }

// beneathTiles is the level that moves floats for tiles. All that asks for a level would have its
// body where it was inlined.
//
//go:noinline
func beneathTiles() level {
	if cpuinfo.HasAVX512() {
		return levelAVX512
	}
	return levelGo
}

// model defines a call, bit for bit. Where there are no more rows than a register has, the lower
// registers have one all the same, a second first row of A, which is stored as the 17th.
func (c *tileCall) model(v level, a, b, out []float32) {
	row, _ := c.strides()
	for i := range c.tiles {
		first, out := i*c.nextA/4, out[i*c.nextC/4:]
		for r := range c.rows {
			c.modelRow(v, a, first+r*row, b, out[r*c.ldc:])
		}
		if c.rows <= tileRows {
			c.modelRow(v, a, first, b, out[tileRows*c.ldc:])
		}
	}
}

// modelRow defines a row of results, of the row of A that begins at a place of a.
func (c *tileCall) modelRow(v level, a []float32, from int, b, out []float32) {
	var row, column [tileWords]uint32
	_, step := c.strides()
	if c.flags&flagAccumulate == 0 {
		clear(out[:tilesNR])
	}
	for s := range c.steps {
		for w := range tileWords {
			row[w] = math.Float32bits(a[from+s*step+w])
		}
		for j := range tilesNR {
			for w := range tileWords {
				column[w] = math.Float32bits(b[(s*tileWords+w)*tilesNR+j])
			}
			sum := tileDot(v, math.Float32bits(out[j]), row[:], column[:])
			out[j] = math.Float32frombits(sum)
		}
	}
}

// tileDot defines one element of a product of registers of a level: TDPBF16PS, or TDPBUSD and
// TDPBSUD, whose sums wrap.
func tileDot(v level, sum uint32, a, b []uint32) uint32 {
	if v.pairs() {
		return math.Float32bits(refmath.DotTDPBF16PS(math.Float32frombits(sum), a, b))
	}
	return refmath.DotTDPB(sum, a, b, v.format() == S8U8, v.format() == U8S8)
}
