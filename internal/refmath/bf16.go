package refmath

import "math"

// DotBF16 is what each of the two steps of BFMMLA of arm64 adds to a result: the products of the
// halves of a and b, bfloat16 each, added to each other and then to sum. Each product and each sum
// is a float32 rounded to odd: cut, and its last bit set where that was not exact. Subnormal
// operands and results count as zeros with their sign, and every NaN is 0x7fc00000. (Arm
// Architecture Reference Manual, DDI 0487, shared/functions/float/bfloat, BFDotAdd where FPCR.EBF
// is 0, as it is where nobody sets it: the modes of FPCR have no effect then.)
func DotBF16(sum float32, a, b uint32) float32 {
	low := oddProduct(a<<16, b<<16)
	high := oddProduct(a&^0xffff, b&^0xffff)
	return oddSum(sum, oddSum(low, high))
}

// oddProduct multiplies two floats, given as their bits, of which the upper half is not zero.
func oddProduct(a, b uint32) float32 {
	return toOdd(normal(math.Float32frombits(a)) * normal(math.Float32frombits(b)))
}

// oddSum adds exactly, as Knuth's TwoSum does, and rounds what does not fit 53 bits to odd, which
// rounding to odd again, to 24 bits, does not see.
func oddSum(a, b float32) float32 {
	x, y := normal(a), normal(b)
	sum := x + y
	part := sum - x
	rest := x - (sum - part) + (y - part)
	bits := math.Float64bits(sum)
	if rest != 0 && rest == rest && bits&1 == 0 {
		if rest > 0 == (sum > 0) {
			bits++
		} else {
			bits--
		}
	}
	return toOdd(math.Float64frombits(bits))
}

// normal is a float whose subnormal numbers are zeros.
func normal(x float32) float64 {
	if bits := math.Float32bits(x); bits&0x7f800000 == 0 {
		x = math.Float32frombits(bits & (1 << 31))
	}
	return float64(x)
}

// toOdd rounds to 24 bits of precision. What is below the least normal float becomes a zero.
func toOdd(x float64) float32 {
	const cut = 1<<29 - 1
	switch size := math.Abs(x); {
	case x != x:
		return math.Float32frombits(0x7fc00000)
	case size < 0x1p-126:
		return float32(math.Copysign(0, x))
	case size >= 0x1p128:
		return float32(math.Inf(1)) * float32(math.Copysign(1, x))
	}
	bits := math.Float64bits(x)
	y := math.Float32bits(float32(math.Float64frombits(bits &^ cut)))
	if bits&cut != 0 {
		y |= 1
	}
	return math.Float32frombits(y)
}
