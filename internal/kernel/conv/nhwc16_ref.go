package conv

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// halfCall is a product of rows of pixels, lda bytes apart, by a panel of weights.
type halfCall struct {
	x    []uint16
	offs []int // bytes to each stretch that a row sees
	lda  int
	w    []float32
	sums []float32 // rows of 32
	rows int
}

// multiply computes a call: by the definition, which is slow and has the same bits, where the
// processor's tiles may not be used now.
func (c *halfCall) multiply(kept bool) {
	if cpuinfo.TilesDefined() || !kept {
		c.model()
		return
	}
	c.run()
}

// model defines a call, bit for bit.
func (c *halfCall) model() {
	var row, column [stretchWords]uint32
	for r := range c.rows {
		out := c.sums[r*halfCols:][:halfCols]
		clear(out)
		for s, off := range c.offs {
			at := c.x[(r*c.lda+off)/2:][:stretch]
			for i := range row {
				row[i] = uint32(at[2*i]) | uint32(at[2*i+1])<<16
			}
			w := c.w[s*stretchWords*halfCols:]
			for j := range out {
				for i := range column {
					column[i] = math.Float32bits(w[i*halfCols+j])
				}
				out[j] = refmath.DotTDPBF16PS(out[j], row[:], column[:])
			}
		}
	}
}

// halfWhole is a product and what is made of its sums. The place of each row in finish.y, and in
// its residual, is in a table, in bytes, whole blocks of them; it is negative for rows that are
// dropped. The sums are of two blocks, whatever the rows.
type halfWhole struct {
	halfCall
	finish halfFinish // of one row; ldy counts for nothing
	table  []int
	ahead  []float32 // weights that are fetched meanwhile, or nil
}

// compute computes a call, by the definition where the processor's tiles may not be used now.
func (w *halfWhole) compute(kept bool) {
	if cpuinfo.TilesDefined() || !kept {
		w.model()
		return
	}
	w.run()
}

// model defines a call.
func (w *halfWhole) model() {
	one, f := w.halfCall, w.finish
	one.rows, f.rows = 1, 1
	f.sums = w.sums[:halfCols]
	for r, at := range w.table[:w.rows] {
		if at < 0 {
			continue
		}
		one.x = w.x[r*w.lda/2:]
		one.model()
		f.y = w.finish.y[at/2:]
		if f.residual != nil {
			f.residual = w.finish.residual[at/2:]
		}
		f.model()
	}
}

// halfFinish makes results of rows of 32 sums.
type halfFinish struct {
	sums     []float32
	bias     []float32 // of cols channels, or nil
	residual []uint16  // ldy elements from one row to the next, or nil
	y        []uint16
	ldy      int
	rows     int
	cols     int // results of a row
	clamp    bool
	lo, hi   float32
	silu     bool // instead of limits
	keep     bool // the results replace the sums
}

// model defines the results. Subnormal numbers become zeros of their sign as they are rounded.
func (f *halfFinish) model() {
	for r := range f.rows {
		for j, v := range f.sums[r*halfCols:][:f.cols] {
			if f.bias != nil {
				v += f.bias[j]
			}
			if f.residual != nil {
				v += math.Float32frombits(uint32(f.residual[r*f.ldy+j]) << 16)
			}
			if f.clamp {
				v = clampTo(v, f.lo, f.hi)
			}
			if f.silu {
				v = silu16(v)
			}
			if f.keep {
				f.sums[r*halfCols+j] = v
				continue
			}
			f.y[r*f.ldy+j] = roundFlushed(v)
		}
	}
}

// silu16 is x/(1+exp(-x)), of which kernels need only be right to bfloat16.
func silu16(x float32) float32 { return float32(float64(x) / (1 + math.Exp(-float64(x)))) }

// clampTo limits v to lo and hi, lo first; a NaN stays.
func clampTo(v, lo, hi float32) float32 {
	if v < lo {
		v = lo
	}
	if v > hi {
		v = hi
	}
	return v
}

// roundFlushed rounds v to bfloat16 as VCVTNE2PS2BF16 does: a subnormal number is zero.
func roundFlushed(v float32) uint16 {
	bits := math.Float32bits(v)
	if bits&0x7f800000 == 0 {
		return uint16(bits >> 16 & 0x8000)
	}
	return uint16(tensor.BHalfOf(v))
}

// spreadGo copies n pixels of c elements, step elements apart, to pixels of size elements, whose
// rest becomes zero.
func spreadGo(dst, src []uint16, n, c, step, size int) {
	for i := range n {
		to := dst[i*size:][:size]
		copy(to[:c], src[i*step:])
		clear(to[c:])
	}
}

// joinPlanesGo makes n pixels of four elements of c planes, and says whether any of them is not
// finite.
func joinPlanesGo(dst []uint16, planes []float32, plane, c, n int) (odd bool) {
	for i := range n {
		clear(dst[4*i:][:4])
		for ch := range c {
			v := roundFlushed(planes[ch*plane+i])
			odd = odd || v&0x7f80 == 0x7f80
			dst[4*i+ch] = v
		}
	}
	return odd
}
