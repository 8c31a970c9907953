package tensor

import "math"

// Half is an IEEE 754 binary16 number as stored in Float16 tensors.
type Half uint16

// BHalf is a bfloat16 number (the upper half of a float32) as stored in BFloat16 tensors.
type BHalf uint16

// Float32 widens h exactly.
func (h Half) Float32() float32 {
	sign := uint32(h&0x8000) << 16
	exp := uint32(h>>10) & 0x1f
	frac := uint32(h & 0x3ff)
	switch {
	case exp == 0x1f:
		return math.Float32frombits(sign | 0x7f800000 | frac<<13)
	case exp != 0:
		return math.Float32frombits(sign | (exp+112)<<23 | frac<<13)
	}
	v := float32(frac) * (1.0 / (1 << 24)) // subnormal: frac × 2⁻²⁴
	return math.Float32frombits(math.Float32bits(v) | sign)
}

// HalfOf rounds f to the nearest binary16, ties to even; overflow gives an infinity and NaN stays
// NaN.
func HalfOf(f float32) Half {
	b := math.Float32bits(f)
	sign := Half(b >> 16 & 0x8000)
	b &= 0x7fffffff
	switch {
	case b > 0x7f800000:
		return sign | 0x7e00
	case b >= 0x477ff000: // at or above 65520, halfway between the largest half and 2¹⁶
		return sign | 0x7c00
	case b < 0x38800000: // below 2⁻¹⁴: a subnormal half
		v := math.Float32frombits(b) * (1 << 24)
		return sign | Half(math.RoundToEven(float64(v)))
	}
	b += 0xfff + b>>13&1
	return sign | Half(b>>13-(112<<10))
}

// Float32 widens b exactly.
func (b BHalf) Float32() float32 { return math.Float32frombits(uint32(b) << 16) }

// BHalfOf rounds f to the nearest bfloat16, ties to even; NaN stays NaN.
func BHalfOf(f float32) BHalf {
	b := math.Float32bits(f)
	if b&0x7fffffff > 0x7f800000 {
		return BHalf(b>>16 | 0x40)
	}
	return BHalf((b + 0x7fff + b>>16&1) >> 16)
}
