package refmath

import "math"

// DotTDPBF16PS is one element of TDPBF16PS of Intel's Advanced Matrix Extensions, which neither
// MXCSR nor anything else changes: c and the products of up to 16 pairs of bfloat16, the words of a
// and b with their even element in the low half. From zero one sum takes the products of the even
// elements in, by fused multiply-adds, another those of the odd ones; the two are added, and their
// sum to c. Each step rounds to nearest, ties to even. Subnormal operands, c and results count as
// zeros with their sign, where a result is subnormal once it is rounded to 24 bits of any exponent.
// Of several NaN the first operand stays, made quiet: a, b and the sum; c; the sum of the even
// products and that of the odd ones. An operation that is invalid gives 0xffc00000.
//
// (Intel, "Software Developer's Manual", volume 2, TDPBF16PS, says in which order; all else was
// measured: 3.7 million elements of a processor with tiles had these bits.)
func DotTDPBF16PS(c float32, a, b []uint32) float32 {
	var even, odd float32
	for i, x := range a {
		even = tileFMA(tileNumber(x<<16), tileNumber(b[i]<<16), even)
		odd = tileFMA(tileNumber(x&^0xffff), tileNumber(b[i]&^0xffff), odd)
	}
	return tileAdd(tileNumber(math.Float32bits(c)), tileAdd(even, odd))
}

// tileNumber is the float of these bits, zero of its sign where it is subnormal.
func tileNumber(bits uint32) float32 {
	if bits&0x7f800000 == 0 {
		bits &= 1 << 31
	}
	return math.Float32frombits(bits)
}

// tileAdd adds numbers that are not subnormal.
func tileAdd(x, y float32) float32 {
	if x != x || y != y {
		return firstNaN(x, y, 0)
	}
	return tileSum(float64(x), float64(y))
}

// tileFMA is x·y + z, rounded once, for x and y of so few bits that a float64 holds their product.
func tileFMA(x, y, z float32) float32 {
	if x != x || y != y || z != z {
		return firstNaN(x, y, z)
	}
	return tileSum(float64(x)*float64(y), float64(z))
}

// firstNaN is the first of its arguments that is none, made quiet.
func firstNaN(x ...float32) float32 {
	for _, f := range x {
		if f != f {
			return math.Float32frombits(math.Float32bits(f) | 1<<22)
		}
	}
	return 0
}

// tileSum adds numbers of at most 24 bits and rounds to float32: that float64 has rounded the sum
// before changes nothing, as its 53 bits are twice as many and more (Figueroa, "When is double
// rounding innocuous?", SIGNUM 30, 1995). A result is judged to be subnormal after it is rounded to
// 24 bits, which multiplying by a power of two has float32 do.
func tileSum(x, y float64) float32 {
	s := x + y
	switch {
	case s != s:
		return math.Float32frombits(0xffc00000)
	case math.IsInf(s, 0):
		return float32(s)
	}
	const up = 0x1p64
	if math.Abs(s) >= 0x1p-120 {
		return float32(s)
	}
	f := float32(s * up)
	if math.Abs(float64(f)) >= up*0x1p-126 {
		return f / up
	}
	return float32(math.Copysign(0, s))
}

// DotTDPB is one element of TDPBSSD, TDPBSUD, TDPBUSD and TDPBUUD: sum and the products of the four
// bytes of each word of a, and b, signed where it is said. It wraps.
func DotTDPB(sum uint32, a, b []uint32, signedA, signedB bool) uint32 {
	signA, signB := signBit(signedA), signBit(signedB)
	for i, x := range a {
		y := b[i]
		sum += byteOf(x, signA)*byteOf(y, signB) + byteOf(x>>8, signA)*byteOf(y>>8, signB) +
			byteOf(x>>16, signA)*byteOf(y>>16, signB) + byteOf(x>>24, signA)*byteOf(y>>24, signB)
	}
	return sum
}

// signBit is the bit of a byte that counts as negative.
func signBit(signed bool) uint32 {
	if signed {
		return 0x80
	}
	return 0
}

// byteOf is the lowest byte of a word as a number of 32 bits, whose bit sign, if not 0, counts as
// negative.
func byteOf(x, sign uint32) uint32 { return x&0xff ^ sign - sign }
