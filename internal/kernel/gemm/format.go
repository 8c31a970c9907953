package gemm

import (
	"math"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Format is the number format in which the elements of the operands are multiplied. The operands
// that callers give, the sums and the results are float32 in any case.
type Format uint8

const (
	// F32 multiplies as IEEE 754 single precision does.
	F32 Format = iota
	// BF16 rounds the elements of both operands to bfloat16 (eight bits of precision, to nearest,
	// ties to even) as they are packed. A packed B takes half of the memory, and a packed A too
	// where there are dot products. With AVX512_BF16 products are computed two at a time
	// (VDPBF16PS), which takes denormal numbers for zero; with BFMMLA of arm64 four at a time, each
	// sum of two rounded to odd, denormal numbers taken for zero; elsewhere in plain Go, slowly.
	BF16
	// U8S8 multiplies bytes, those of A unsigned and those of B signed, and adds the products up in
	// 32-bit integers, which wrap: every path gives the same bits. Both operands are given as
	// words. A word is a float32 whose four bytes, from the lowest on, are four neighbours along K;
	// K and the leading dimensions count words. With AVX512_VNNI (VPDPBUSD) one instruction
	// multiplies and adds four bytes, as do SDOT and UDOT of arm64, and with USMMLA eight; with
	// AVX2 or AVX-512 alone bytes are widened to 16 bits, whose products do not saturate
	// (VPMADDWD), and with NEON alone products have 16 bits and are added to 32 (UMULL, UADALP);
	// elsewhere products are computed in plain Go, slowly. The sums have no epilogue: they go to
	// [Args.Store].
	U8S8
	// S8U8 is U8S8 with A signed and B unsigned.
	S8U8
)

// Fast reports whether this processor multiplies in the format faster than in F32.
func (p Format) Fast() bool {
	switch p {
	case BF16:
		return p.hasDot() || p.hasMatrix() || hasTiles()
	case U8S8, S8U8:
		return cpuinfo.HasAVX2FMA() || cpuinfo.HasDotProd()
	}
	return true
}

// hasDot reports whether the processor has dot products for the format.
func (p Format) hasDot() bool {
	switch p {
	case BF16:
		return cpuinfo.HasAVX512BF16()
	case U8S8, S8U8:
		return cpuinfo.HasAVX512VNNI()
	}
	return false
}

// hasMatrix reports whether the processor has products of matrices for the format.
func (p Format) hasMatrix() bool {
	switch p {
	case BF16:
		return cpuinfo.HasBF16()
	case U8S8, S8U8:
		return cpuinfo.HasI8MM()
	}
	return false
}

// bytes reports whether operands are words of bytes.
func (p Format) bytes() bool { return p == U8S8 || p == S8U8 }

// Round returns what the format makes of an element that is a number.
func (p Format) Round(x float32) float32 {
	if p != BF16 {
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

// joinGo rounds src, k rows of cols floats that lie ld apart, to words that hold an element of an
// even row in the low half and the one below it in the high half. After an odd last row come zeros.
func joinGo(dst, src []float32, ld, cols, k int) {
	for i := 0; i < k; i += 2 {
		for j := range cols {
			w := uint32(toBF16(src[i*ld+j]))
			if i+1 < k {
				w |= uint32(toBF16(src[(i+1)*ld+j])) << 16
			}
			dst[i/2*cols+j] = math.Float32frombits(w)
		}
	}
}

// joinRowsGo joins neighbours in rows of k floats, ld apart, as joinGo does those of one column. 16
// words of each row follow each other, then the next 16 of each. Zeros fill the last.
func joinRowsGo(dst, src []float32, ld, rows, k int) {
	for k0 := 0; k0 < k; k0 += 2 * tileWords {
		for i := range rows {
			group := dst[(k0/2*rows + i*tileWords):][:tileWords]
			clear(group)
			joinGo(group, src[i*ld+k0:], 1, 1, min(2*tileWords, k-k0))
		}
	}
}

// tileGoBF16 defines a tile of pairs: the product of the even elements and that of the odd ones are
// added one after the other.
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

// widenGo makes two words of each word of bytes: the even bytes and then the odd ones, each in 16
// bits.
func widenGo(dst, src []float32, signed bool) {
	for i, x := range src {
		w := math.Float32bits(x)
		even, odd := w&0x00ff00ff, w>>8&0x00ff00ff
		if signed { // ones above each byte that is negative
			even |= even & 0x00800080 * 0x1fe
			odd |= odd & 0x00800080 * 0x1fe
		}
		dst[2*i], dst[2*i+1] = math.Float32frombits(even), math.Float32frombits(odd)
	}
}

// tileGoU8S8 and tileGoS8U8 define tiles of words of bytes.
func tileGoU8S8(t *tile) { tileGoBytes(t, false) }

func tileGoS8U8(t *tile) { tileGoBytes(t, true) }

func tileGoBytes(t *tile, signedA bool) {
	for i := range t.rows {
		for j := range t.cols {
			var sum int32
			for k := range t.k {
				sum += dot4(t.a[k*t.rows+i], t.b[k*t.ldb+j], signedA)
			}
			at := i*t.ldc + j
			if t.flags&flagAccumulate != 0 {
				sum += int32(math.Float32bits(t.c[at]))
			}
			t.c[at] = math.Float32frombits(uint32(sum))
		}
	}
}

// dot4 multiplies the bytes of two words, of which one is signed, and adds up.
func dot4(a, b float32, signedA bool) (sum int32) {
	x, y := math.Float32bits(a), math.Float32bits(b)
	if signedA {
		x, y = y, x
	}
	for range 4 {
		sum += int32(x&0xff) * int32(int8(y))
		x, y = x>>8, y>>8
	}
	return sum
}
