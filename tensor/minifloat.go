package tensor

import "math"

// minifloat is a floating-point format of a sign and at most 7 bits.
type minifloat struct {
	exp, frac int     // widths in bits
	bias      int     // of the exponent
	max       float64 // largest finite value
	maxCode   uint8   // and its code
	over, nan uint8   // codes of overflow that does not saturate, and of NaN
	inf       bool    // over is infinity
	fnuz      bool    // no negative zero: its code is the only NaN
}

// The formats: OCP 8-bit Floating Point Specification (E4M3, E5M2) and OCP Microscaling Formats
// Specification 1.0 (E2M1); Noune et al., "8-bit Numerical Formats for Deep Neural Networks", 2022
// (FNUZ). E2M1 has neither infinity nor NaN: it always saturates, and ONNX's cases make a zero of
// NaN.
var (
	e4m3fn   = minifloat{exp: 4, frac: 3, bias: 7, max: 448, maxCode: 0x7e, over: 0x7f, nan: 0x7f}
	e4m3fnuz = minifloat{exp: 4, frac: 3, bias: 8, max: 240, maxCode: 0x7f, over: 0x80, nan: 0x80,
		fnuz: true}
	e5m2 = minifloat{exp: 5, frac: 2, bias: 15, max: 57344, maxCode: 0x7b, over: 0x7c,
		nan: 0x7e, inf: true}
	e5m2fnuz = minifloat{exp: 5, frac: 2, bias: 16, max: 57344, maxCode: 0x7f, over: 0x80,
		nan: 0x80, fnuz: true}
	e2m1 = minifloat{exp: 2, frac: 1, bias: 1, max: 6, maxCode: 0x7, over: 0x7, nan: 0x8}
)

// minifloats are the formats by type, and minifloatValues the value of each code.
var (
	minifloats = map[DType]*minifloat{Float8E4M3FN: &e4m3fn, Float8E4M3FNUZ: &e4m3fnuz,
		Float8E5M2:     &e5m2,
		Float8E5M2FNUZ: &e5m2fnuz, Float4E2M1: &e2m1}
	minifloatValues = valuesOf(minifloats)
)

func valuesOf(formats map[DType]*minifloat) (values [Int2 + 1]*[256]float32) {
	for d, m := range formats {
		values[d] = new([256]float32)
		for code := range 1 << (1 + m.exp + m.frac) {
			values[d][code] = m.value(uint8(code))
		}
	}
	values[Float8E8M0] = new([256]float32)
	for code := range 255 {
		values[Float8E8M0][code] = float32(math.Ldexp(1, code-e8m0Bias))
	}
	values[Float8E8M0][e8m0NaN] = float32(math.NaN())
	return values
}

func (m *minifloat) value(code uint8) float32 {
	sign := code >> (m.exp + m.frac)
	rest := int(code) & (1<<(m.exp+m.frac) - 1)
	e, f := rest>>m.frac, rest&(1<<m.frac-1)
	var v float64
	switch {
	case m.isNaN(code):
		v = math.NaN()
	case m.inf && uint8(rest) == m.over:
		v = math.Inf(1)
	case e == 0:
		v = math.Ldexp(float64(f), 1-m.bias-m.frac)
	default:
		v = math.Ldexp(float64(f+1<<m.frac), e-m.bias-m.frac)
	}
	if sign != 0 {
		v = -v
	}
	return float32(v)
}

func (m *minifloat) isNaN(code uint8) bool {
	if m.fnuz {
		return code == m.nan
	}
	last := m.maxCode
	if m.inf {
		last = m.over
	}
	return code&(1<<(m.exp+m.frac)-1) > last
}

// code rounds v to the nearest value, ties to even.
func (m *minifloat) code(v float64, saturate bool) uint8 {
	var sign uint8
	if math.Signbit(v) {
		sign = 1 << (m.exp + m.frac)
	}
	if v != v {
		if m.fnuz {
			return m.nan
		}
		return m.nan ^ sign
	}
	c := m.magnitude(math.Abs(v), saturate)
	if m.fnuz && (c == 0 || c == m.nan) {
		return c
	}
	return c | sign
}

func (m *minifloat) magnitude(v float64, saturate bool) uint8 {
	if v < math.Inf(1) {
		e := 1 - m.bias // of subnormal numbers
		if v != 0 {
			e = max(e, math.Ilogb(v))
		}
		steps := math.RoundToEven(math.Ldexp(v, m.frac-e))
		if math.Ldexp(steps, e-m.frac) <= m.max {
			// the hidden bit adds one to the exponent
			return uint8((e+m.bias-1)<<m.frac + int(steps))
		}
	}
	if saturate {
		return m.maxCode
	}
	return m.over
}

// Minifloat returns the value of an element by its bits. d is a type for which [DType.IsMinifloat]
// holds; others panic. The conversion is exact.
func (d DType) Minifloat(code uint8) float32 { return minifloatValues[d][code] }

// MinifloatOf rounds v to the nearest element of type d, ties to even, and returns its bits: ONNX
// operator Cast, version 19 to 25. Out of range it gives the largest finite value when saturate is
// set, else infinity where the type has one and NaN where it has not; Float4E2M1, which has
// neither, always saturates. d is a type of [DType.IsMinifloat] but Float8E8M0, for which there is
// [E8M0Of]; others panic.
func MinifloatOf(d DType, v float64, saturate bool) uint8 { return minifloats[d].code(v, saturate) }

// Round says to which power of two a number is rounded that is not one itself.
type Round uint8

// The values of Cast's attribute round_mode.
const (
	RoundUp      Round = iota // away from zero
	RoundDown                 // towards zero
	RoundNearest              // to the nearest, up when both are as near
)

const (
	e8m0Bias = 127
	e8m0NaN  = 0xff
	e8m0Max  = 0xfe // 2^127
)

// E8M0Of rounds v to a power of two from 2⁻¹²⁷ to 2¹²⁷, the values of Float8E8M0, and returns its
// bits (ONNX operator Cast, version 24 and 25; OCP Microscaling Formats Specification 1.0, section
// 5.4.1). Beyond the range, infinity and zero included, it gives the nearest end when saturate is
// set and NaN otherwise. NaN stays NaN. Negative numbers also become NaN; ONNX leaves their result
// open.
func E8M0Of(v float64, round Round, saturate bool) uint8 {
	switch {
	case v != v || v < 0 || !saturate && (v < 0x1p-127 || math.IsInf(v, 1)):
		return e8m0NaN
	case v < 0x1p-127:
		return 0
	case math.IsInf(v, 1):
		return e8m0Max
	}
	f, e := math.Frexp(v) // 0.5 <= f < 1
	code := e - 1 + e8m0Bias
	if round == RoundUp && f > 0.5 || round == RoundNearest && f >= 0.75 {
		code++
	}
	switch {
	case code <= e8m0Max:
		return uint8(code)
	case saturate:
		return e8m0Max
	}
	return e8m0NaN
}
