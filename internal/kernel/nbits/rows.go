package nbits

import "math"

// Format is the number format in which rows are multiplied by weights.
type Format uint8

const (
	// F32 multiplies floats.
	F32 Format = iota
	// Int8 rounds each block of a row to bytes that share a scale, multiplies these by the weights
	// as whole numbers, exactly, and adds up blocks as floats, each times both scales. The scale is
	// the largest magnitude of the block over 127, and an element becomes itself times 127 over
	// that magnitude, rounded to nearest, ties to even. A scale below the smallest normal float
	// counts as zero; one of a block that holds NaN or an infinity is NaN.
	Int8
)

// Packed rows hold, block by block, with zeros after the last element,
//
//	F32    the floats, and their sum
//	Int8   -8 times the sum of the bytes as an int32, the bytes, the scale, and the sum of
//	       the bytes as a float32

// rowBlock is the size of a block of a packed row.
func (w *Weights) rowBlock(p Format) int {
	if p == Int8 {
		return w.Block + 12
	}
	return 4*w.Block + 4
}

// RowBytes is the size of a packed row.
func (w *Weights) RowBytes(p Format) int { return w.blocks * w.rowBlock(p) }

// PackRow brings a row of K floats into the form that Product multiplies; dst is RowBytes long and
// aligned to 4 bytes.
func (w *Weights) PackRow(p Format, dst []byte, row []float32) {
	whole := w.K / w.Block
	if p == F32 {
		w.packFloats(floatsOf(dst[:w.RowBytes(p)]), row[:w.K])
		return
	}
	if whole > 0 {
		w.quantise(dst[:whole*w.rowBlock(p)], row[:whole*w.Block], w.Block)
	}
	if whole < w.blocks {
		var last [maxBlock]float32
		copy(last[:w.Block], row[whole*w.Block:w.K])
		w.quantise(dst[whole*w.rowBlock(p):][:w.rowBlock(p)], last[:w.Block], w.Block)
	}
}

func (w *Weights) packFloats(dst, row []float32) {
	for g := range w.blocks {
		to := dst[g*(w.Block+1):][:w.Block+1]
		clear(to[copy(to, row[g*w.Block:min((g+1)*w.Block, w.K)]):])
		if w.Zeros != Centred {
			to[w.Block] = sum(to[:w.Block])
		}
	}
}

// sum adds up floats, a multiple of four of them.
func sum(x []float32) float32 {
	var a, b, c, d float32
	for ; len(x) >= 4; x = x[4:] {
		a, b, c, d = a+x[0], b+x[1], c+x[2], d+x[3]
	}
	return a + c + (b + d)
}

// scaleOf is the scale of a block, and 127 over its largest magnitude; both are zero when the scale
// is, and the scale is NaN when an element is no finite number.
func scaleOf(x []float32) (scale, inverse float32) {
	most := uint32(0)
	for _, v := range x {
		most = max(most, math.Float32bits(v)&^(1<<31))
	}
	scale = math.Float32frombits(most) / 127
	switch {
	case most >= 0x7f800000:
		return float32(math.NaN()), 0
	case math.Float32bits(scale) < 0x00800000:
		return 0, 0
	}
	return scale, 127 / math.Float32frombits(most)
}

// nearest is the whole number nearest to a finite x times inverse, and 0 where inverse is.
func nearest(x, inverse float32) float32 {
	if inverse == 0 {
		return 0
	}
	return float32(math.RoundToEven(float64(x * inverse)))
}
