package conv

import (
	order "encoding/binary"
	"math"

	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/refmath"
)

// model defines a call, bit for bit: the sums of each position that is kept, by TDPBUSD, and what
// becomes of them.
func (c *tiledCall) model() {
	at := 0
	for b, kept := range c.kept {
		for r := range c.rows {
			if kept>>r&1 == 0 {
				continue
			}
			sums := c.sums(c.image[(b*tiledRows+r)*c.lda:])
			for j := range c.channels {
				i := c.first + j
				c.grid.finish(c.y[at+j:at+j+1], i, sums[j]+c.shift*sums[panelWide-1])
			}
			at += c.ldd
		}
	}
}

// sums are those of the position whose pixel an image begins with.
func (c *tiledCall) sums(image []byte) (sums [panelWide]int32) {
	var row, column [tileRows]uint32
	for s, place := range c.places {
		for w := range c.width / 4 {
			row[w] = order.LittleEndian.Uint32(image[place+4*w:])
		}
		for j := range sums {
			for w := range column {
				column[w] = math.Float32bits(c.weights[(s*tileRows+w)*panelWide+j])
			}
			sums[j] = int32(refmath.DotTDPB(uint32(sums[j]), row[:], column[:], false, true))
		}
	}
	return sums
}

// finish makes the byte of a sum of the channel with this number.
func (g *NHWCGrid) finish(y []byte, i int, sum int32) {
	var r vec.Requantization
	r.Sums(g.add[i], g.scale[i], g.to)
	if g.twice {
		r.Then(g.thenScale[i], g.thenBias[i], g.then)
	}
	vec.RequantizeInts(y, []int32{sum}, &r)
}
