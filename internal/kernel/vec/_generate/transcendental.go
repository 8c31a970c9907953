package main

import "math"

const (
	signBit  = 1 << 31
	restBits = signBit - 1
	ln2High  = 0.693359375 // 355/512: its product with an integer below 2^15 is exact
	ln2Low   = math.Ln2 - ln2High
)

// clamp moves x to lo or hi where it lies outside. NaN stays: the instructions return the operand
// that stands first here where either is NaN.
func clamp(a *unrolled, x value, lo, hi float64) {
	a.op("VMAXPS", x, a.pin(lo), x)
	a.op("VMINPS", x, a.pin(hi), x)
}

// reduce splits x into n*ln 2 + r with an integer n and |r| <= ln 2 / 2, and leaves r in x (Cody
// and Waite, "Software Manual for the Elementary Functions", 1980, chapter 6).
func reduce(a *unrolled, x, n value) {
	a.op("VMULPS", a.c(math.Log2E), x, n)
	if a.Wide() {
		a.op("VRNDSCALEPS", 8, n, n)
	} else {
		a.op("VROUNDPS", 8, n, n)
	}
	a.op("VFNMADD231PS", a.c(ln2High), n, x)
	a.op("VFNMADD231PS", a.c(ln2Low), n, x)
}

// leastExp is an argument whose exponential rounds to zero.
const leastExp = -104

// exponential replaces x, at least leastExp and at most 89, by exp(x). Value n is overwritten.
//
// With masks, leastExp itself is not scaled: VSCALEFPS takes 220 cycles on Intel's processors where
// a result is below the normal numbers, zeros among them, and softmax has many of those.
func exponential(a *unrolled, x, n value) {
	p := a.newValue()
	if a.Wide() {
		counts := a.newMask()
		a.compare(moreOrNaN, x, a.c(leastExp), counts)
		reduce(a, x, n)
		a.polynomial(append([]float32{1, 1}, expPoly...), x, p)
		a.op("VSCALEFPS.Z", n, p, counts, x)
		return
	}
	reduce(a, x, n)
	a.polynomial(append([]float32{1, 1}, expPoly...), x, p)
	// 2^n itself may be out of range while the product is not, so that it is applied in two halves.
	a.op("VCVTPS2DQ", n, n)
	a.op("VPSRAD", 1, n, x)
	a.op("VPSUBD", x, n, n)
	for _, e := range []value{x, n} {
		a.op("VPSLLD", 23, e, e)
		a.op("VPADDD", a.c(1), e, e)
	}
	a.op("VMULPS", x, p, p)
	a.op("VMULPS", n, p, x)
}

// exponentialNormal is exponential for arguments whose result is a normal number. Value p is
// overwritten too.
func exponentialNormal(a *unrolled, x, n, p value) {
	reduce(a, x, n)
	a.polynomial(append([]float32{1, 1}, expPoly...), x, p)
	if a.Wide() {
		a.op("VSCALEFPS", n, p, x)
		return
	}
	a.op("VCVTPS2DQ", n, n)
	a.op("VPSLLD", 23, n, n)
	a.op("VPADDD", n, p, x)
}

// expm1 replaces x, at least -80 and at most 80, by exp(x) - 1 without cancellation: with p =
// exp(r) - 1 it is 2^n * p + (2^n - 1). Value n is overwritten.
func expm1(a *unrolled, x, n value) {
	p, square := a.newValue(), a.newValue()
	reduce(a, x, n)
	a.polynomial(expPoly, x, p)
	a.op("VMULPS", x, x, square)
	a.op("VFMADD213PS", x, square, p)
	a.op("VCVTPS2DQ", n, n)
	a.op("VPSLLD", 23, n, n)
	a.op("VPADDD", a.c(1), n, n)
	a.op("VSUBPS", a.c(1), n, x)
	a.op("VFMADD231PS", n, p, x)
}

// split replaces f, a positive normal number, by f' and sets e, with f = 2^e * (1 + f') and √½ <= 1
// + f' < √2. Value p is overwritten.
func split(a *unrolled, f, e, p value) {
	const sqrtHalf = 0x3f3504f3
	a.op("VPSUBD", a.bits(sqrtHalf), f, e)
	a.op("VPSRAD", 23, e, e)
	a.op("VPSLLD", 23, e, p)
	a.op("VPSUBD", p, f, f)
	a.op("VCVTDQ2PS", e, e)
	a.op("VSUBPS", a.c(1), f, f)
}

// joinLogarithm replaces f by e*ln 2 + log(1 + f), the latter as f + f²(f*P(f) - ½). Value p is
// overwritten.
func joinLogarithm(a *unrolled, f, e, p value) {
	square := a.newValue()
	a.op("VMULPS", f, f, square)
	a.polynomial(logPoly, f, p)
	a.op("VFMSUB213PS", a.c(0.5), f, p)
	a.op("VMULPS", square, p, p)
	a.op("VFMADD231PS", a.c(ln2Low), e, p)
	a.op("VADDPS", p, f, f)
	a.op("VFMADD231PS", a.c(ln2High), e, f)
}

// logarithm replaces x by its natural logarithm.
func logarithm(a *unrolled, x value) {
	e, f, p, special := a.newValue(), a.newValue(), a.newValue(), a.newMask()
	a.compare(less, x, a.c(0x1p-126), special)
	a.op("VMULPS", a.c(0x1p23), x, p)
	a.choose(special, p, x, f)
	split(a, f, e, p)
	a.op("VSUBPS", a.c(23), e, p)
	a.choose(special, p, e, e)
	joinLogarithm(a, f, e, p)
	// Outside 0 < x < +Inf: +Inf gives itself, zeros give -Inf, the rest NaN.
	a.compare(greater, x, a.c(0), special)
	a.choose(special, f, a.pin(math.NaN()), f)
	a.compare(equal, x, a.c(0), special)
	a.choose(special, a.pin(math.Inf(-1)), f, f)
	a.compare(equal, x, a.c(math.Inf(1)), special)
	a.choose(special, x, f, x)
}

// erfSplit is where the two branches of the error function meet; each holds a little beyond it.
const erfSplit = 0.921875

// errorFunction replaces x by erf(x): x + x*P(x²) near zero; elsewhere 1 - exp(t*Q(t) - t) with the
// sign of x, t = |x|. At 4 the result has rounded to 1, so that t stops there.
func errorFunction(a *unrolled, x value) {
	t, near, far, p, isNear := a.newValue(), a.newValue(), a.newValue(), a.newValue(), a.newMask()
	a.op("VMULPS", x, x, near)
	a.polynomial(erfNear, near, p)
	a.op("VMOVAPS", x, near)
	a.op("VFMADD231PS", x, p, near)
	a.op("VANDPS", a.bits(restBits), x, t)
	a.compare(less, t, a.c(erfSplit), isNear)
	a.op("VMINPS", t, a.pin(4), t)
	a.polynomial(erfFar, t, far)
	a.op("VFMSUB213PS", t, t, far)
	exponentialNormal(a, far, t, p)
	a.op("VSUBPS", far, a.pin(1), far)
	a.op("VANDPS", a.bits(signBit), x, x)
	a.op("VORPS", x, far, x)
	a.choose(isNear, near, x, x)
}

// logistic replaces x by 1/(1 + exp(-x)). With e = exp(-|x|) it is 1/(1+e) or e/(1+e), neither of
// which overflows.
func logistic(a *unrolled, x value) {
	e, n, negative := a.newValue(), a.newValue(), a.newMask()
	a.op("VORPS", a.bits(signBit), x, e)
	a.compare(less, x, a.c(0), negative)
	a.op("VMAXPS", e, a.pin(-104), e)
	exponential(a, e, n)
	a.op("VADDPS", a.c(1), e, n)
	a.choose(negative, e, a.pin(1), x)
	a.op("VDIVPS", n, x, x)
}
