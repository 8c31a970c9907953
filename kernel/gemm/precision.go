package gemm

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Precision is the form in which the elements of the operands are multiplied. The operands that callers give, the sums and
// the results are float32 in any case.
type Precision uint8

const (
	// F32 multiplies as IEEE 754 single precision does.
	F32 Precision = iota
	// BF16 rounds the elements of both operands to bfloat16 (eight bits of precision, to nearest, ties to even) as they are
	// packed. Packed operands take half of the memory. With AVX512_BF16 products are computed two at a time (VDPBF16PS),
	// which takes denormal numbers for zero; elsewhere in plain Go, slowly.
	BF16
)

// Fast reports whether this processor has instructions for the precision.
func (p Precision) Fast() bool { return p == F32 || haveAssembly && cpuinfo.HasAVX512BF16() }

// Round returns what the precision makes of an element.
func (p Precision) Round(x float32) float32 {
	if p == F32 {
		return x
	}
	return math.Float32frombits(uint32(toBF16(x)) << 16)
}

// toBF16 rounds to nearest, ties to even. A NaN stays one.
func toBF16(x float32) uint16 {
	b := math.Float32bits(x)
	if x != x {
		return uint16(b>>16) | 0x40
	}
	return uint16((b + 0x7fff + b>>16&1) >> 16)
}

// joinGo rounds src, k rows of cols floats, to words that hold an element of an even row in the low half and the one below
// it in the high half. After an odd last row come zeros.
func joinGo(dst, src []float32, cols, k int) {
	for i := 0; i < k; i += 2 {
		for j := range cols {
			w := uint32(toBF16(src[i*cols+j]))
			if i+1 < k {
				w |= uint32(toBF16(src[(i+1)*cols+j])) << 16
			}
			dst[i/2*cols+j] = math.Float32frombits(w)
		}
	}
}

// tileGoBF16 defines a tile of pairs: the product of the even elements and that of the odd ones are added one after the
// other.
func tileGoBF16(t *tile) {
	for i := range t.rows {
		for j := range t.cols {
			var sum float32
			for k := range t.k {
				a, b := math.Float32bits(t.a[k*t.rows+i]), math.Float32bits(t.b[k*t.ldb+j])
				sum += math.Float32frombits(a&^0xffff) * math.Float32frombits(b&^0xffff)
				sum += math.Float32frombits(a<<16) * math.Float32frombits(b<<16)
			}
			t.finish(i, j, sum)
		}
	}
}
