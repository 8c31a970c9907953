package nbits

import (
	"encoding/binary"
	"math"
)

func floatAt(b []byte, i int) float32 {
	return math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
}

// number is the number of four bits, less 8, of column c and step k of a block's chunks.
func number(q []byte, lanes, c, k int) int {
	b := q[4*(k/8*lanes+c)+k%4]
	return int(b>>(k%8/4*4)&15) - 8
}

// offCentre is 8 less the zero point of a column of a block.
func (t *tile) offCentre(block, c int) float32 {
	if t.zeros == nil {
		return 0
	}
	return 8 - float32(t.zeros[block*t.lanes+c])
}

// each computes the elements of a tile, to each of which every block of K adds what block returns:
// of column c, whose numbers begin at byte q, with a scale and a distance of the zero point from 8,
// and of a row whose block begins at byte a.
func (t *tile) each(rowBlock int, block func(c, q, a int, scale, off float32) float32) {
	for i := range t.rows {
		for c := range t.lanes {
			sum := float32(0)
			for g := range t.blocks {
				at := g * 4 * t.lanes * (1 + t.chunks)
				sum += block(c, at+4*t.lanes, i*t.lda+g*rowBlock, floatAt(t.q[at:], c),
					t.offCentre(g, c))
			}
			t.c[i*t.ldc/4+c] = sum
		}
	}
}

// floatsGo defines a tile of F32.
func floatsGo(t *tile) {
	n := 8 * t.chunks
	t.each(4*n+4, func(c, q, a int, scale, off float32) (sum float32) {
		for k := range n {
			sum += floatAt(t.a[a:], k) * float32(number(t.q[q:], t.lanes, c, k))
		}
		if t.zeros != nil {
			sum += off * floatAt(t.a[a:], n)
		}
		return sum * scale
	})
}

// bytesGo defines a tile of Int8.
func bytesGo(t *tile) {
	n := 8 * t.chunks
	t.each(n+12, func(c, q, a int, scale, off float32) float32 {
		sum := int32(0)
		for k := range n {
			sum += int32(int8(t.a[a+4+k])) * int32(number(t.q[q:], t.lanes, c, k))
		}
		behind := t.a[a+4+n:]
		return (float32(sum) + off*floatAt(behind, 1)) * (scale * floatAt(behind, 0))
	})
}

// widenGo defines a strip.
func widenGo(x *strip) {
	for g := range x.blocks {
		for c := range x.lanes {
			scale, zero := floatAt(x.scales[g*4*x.lanes*(1+x.chunks):], c), x.zero(g, c)
			for k := range 8 * x.chunks {
				q := number(x.q[g*4*x.lanes*(1+x.chunks):], x.lanes, c, k)
				x.dst[(g*8*x.chunks+k)*x.stride/4+c] = (float32(q) - zero) * scale
			}
		}
	}
}

// zero is the zero point, less 8, of a column of a block.
func (x *strip) zero(block, c int) float32 {
	switch at := block*x.lanes + c; {
	case x.zeros == nil:
		return 0
	case x.wide:
		return floatAt(x.zeros, at) - 8
	default:
		return float32(x.zeros[at]) - 8
	}
}

// quantiseGo rounds the blocks of a row.
func quantiseGo(dst []byte, x []float32, block int) {
	for ; len(x) > 0; x, dst = x[block:], dst[block+12:] {
		scale, inverse := scaleOf(x[:block])
		sum := int32(0)
		for i, v := range x[:block] {
			b := int8(nearest(v, inverse))
			dst[4+i] = byte(b)
			sum += int32(b)
		}
		binary.LittleEndian.PutUint32(dst, uint32(-8*sum))
		binary.LittleEndian.PutUint32(dst[4+block:], math.Float32bits(scale))
		binary.LittleEndian.PutUint32(dst[8+block:], math.Float32bits(float32(sum)))
	}
}
