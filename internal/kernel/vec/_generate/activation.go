package main

import "math"

func activation() []routine {
	x := []string{"x"}
	list := []routine{}
	add := func(name string, wide, narrow int, scalars []string, f body) {
		list = append(list, &kernel{name: name, inputs: x, writes: true, scalars: scalars, body: f,
			copies: map[string]int{"AVX512": wide, "AVX2": narrow}})
	}
	add("relu", 2, 2, nil, pure(func(a *unrolled, x value) { a.op("VMAXPS", x, a.pin(0), x) }))
	add("clip", 2, 2, []string{"lo", "hi"},
		func(a *unrolled, in []value, s []fixed, _ accumulator) value {
			a.op("VMAXPS", in[0], s[0], in[0])
			a.op("VMINPS", in[0], s[1], in[0])
			return in[0]
		})
	add("grid", 2, 2, []string{"scale", "least", "most", "inverse", "rest"}, grid)
	add("leakyRelu", 2, 2, []string{"alpha"}, leakyRelu)
	add("hardSigmoid", 2, 2, []string{"alpha", "beta"}, hardSigmoid)
	add("hardSwish", 2, 2, nil, pure(hardSwish))
	add("sigmoid", 2, 2, nil, pure(logistic))
	add("silu", 2, 2, nil, pure(silu))
	add("gelu", 2, 1, nil, pure(gelu))
	add("geluTanh", 2, 2, nil, pure(geluTanh))
	add("softplus", 2, 1, nil, pure(softplus))
	add("elu", 2, 2, []string{"alpha"}, elu)
	add("mish", 2, 2, nil, pure(mish))
	return list
}

// grid rounds x to a multiple of scale. Dividing takes ten cycles for a register, so it multiplies
// by the inverse, and by the rest that the inverse lacks, which gives one of the two numbers about
// the quotient; one step of Markstein's ("Computation of elementary functions on the IBM RISC
// System/6000 processor", 1990, theorem 7) then gives the quotient, rounded as division rounds it.
// The bound comes second in the maximum, which the instruction returns for NaN, and adding zero to
// the product makes +0 of -0.
func grid(a *unrolled, in []value, s []fixed, _ accumulator) value {
	round := "VROUNDPS"
	if a.Wide() {
		round = "VRNDSCALEPS"
	}
	scale, least, most, inverse, rest := s[0], s[1], s[2], s[3], s[4]
	x, q := in[0], a.newValue()
	a.op("VMAXPS", least, x, x)
	a.op("VMINPS", most, x, x)
	a.op("VMULPS", rest, x, q)
	a.op("VFMADD231PS", inverse, x, q)
	a.op("VFNMADD231PS", scale, q, x)
	a.op("VFMADD213PS", q, inverse, x)
	a.op(round, 0, x, x)
	a.op("VFMADD213PS", a.pin(0), scale, x)
	return x
}

func leakyRelu(a *unrolled, in []value, s []fixed, _ accumulator) value {
	scaled, negative := a.newValue(), a.newMask()
	a.compare(less, in[0], a.pin(0), negative)
	a.op("VMULPS", s[0], in[0], scaled)
	a.choose(negative, scaled, in[0], in[0])
	return in[0]
}

func hardSigmoid(a *unrolled, in []value, s []fixed, _ accumulator) value {
	a.op("VFMADD213PS", s[1], s[0], in[0])
	a.op("VMINPS", in[0], a.pin(1), in[0])
	a.op("VMAXPS", in[0], a.pin(0), in[0])
	return in[0]
}

func hardSwish(a *unrolled, x value) {
	gate := a.newValue()
	a.op("VMOVAPS", x, gate)
	a.op("VFMADD213PS", a.pin(0.5), a.pin(1.0/6), gate)
	a.op("VMINPS", gate, a.pin(1), gate)
	a.op("VMAXPS", gate, a.pin(0), gate)
	a.op("VMULPS", gate, x, x)
}

func silu(a *unrolled, x value) {
	gate := a.newValue()
	a.op("VMOVAPS", x, gate)
	logistic(a, gate)
	a.op("VMULPS", gate, x, x)
}

func elu(a *unrolled, in []value, s []fixed, _ accumulator) value {
	x, y, n, negative := in[0], a.newValue(), a.newValue(), a.newMask()
	a.op("VMOVAPS", x, y)
	clamp(a, y, -20, 0)
	expm1(a, y, n)
	a.op("VMULPS", s[0], y, y)
	a.compare(less, x, a.c(0), negative)
	a.choose(negative, y, x, x)
	return x
}

// gelu replaces x by x/2 * (1 + erf(x/√2)).
func gelu(a *unrolled, x value) {
	y := a.newValue()
	a.op("VMULPS", a.c(math.Sqrt2/2), x, y)
	errorFunction(a, y)
	a.op("VMULPS", a.c(0.5), x, x)
	a.op("VFMADD213PS", x, y, x)
}

// geluTanh uses (1 + tanh(u))/2 = 1/(1 + exp(-2u)).
func geluTanh(a *unrolled, x value) {
	const slope = 2 * math.Sqrt2 / math.SqrtPi
	y := a.newValue()
	a.op("VMULPS", x, x, y)
	a.op("VFMADD213PS", a.c(slope), a.pin(slope*0.044715), y)
	a.op("VMULPS", x, y, y)
	logistic(a, y)
	a.op("VMULPS", y, x, x)
}

// softplus replaces x by max(x, 0) + log(1 + e), e = exp(-|x|). With u the rounded 1 + e, log(1 +
// e) is log(u) + (e - (u - 1))/u.
func softplus(a *unrolled, x value) {
	e, n, u := a.newValue(), a.newValue(), a.newValue()
	a.op("VORPS", a.bits(signBit), x, e)
	a.op("VMAXPS", e, a.pin(-104), e)
	exponential(a, e, n)
	a.op("VADDPS", a.c(1), e, u)
	a.op("VSUBPS", a.c(1), u, n)
	a.op("VSUBPS", n, e, e)
	a.op("VDIVPS", u, e, e)
	p := a.newValue()
	split(a, u, n, p)
	joinLogarithm(a, u, n, p)
	a.op("VADDPS", e, u, u)
	a.op("VMAXPS", x, a.pin(0), x)
	a.op("VADDPS", u, x, x)
}

// mish uses tanh(log(1 + e)) = m/(m + 2), m = e(e + 2), e = exp(x), which has rounded to 1 beyond
// 30.
func mish(a *unrolled, x value) {
	e, n := a.newValue(), a.newValue()
	a.op("VMOVAPS", x, e)
	clamp(a, e, -104, 30)
	exponential(a, e, n)
	a.op("VADDPS", a.c(2), e, n)
	a.op("VMULPS", n, e, e)
	a.op("VADDPS", a.c(2), e, n)
	a.op("VDIVPS", n, e, e)
	a.op("VMULPS", e, x, x)
}
