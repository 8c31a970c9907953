package main

// pure makes a body of a function that replaces one vector by another.
func pure(f func(a *unrolled, x value)) body {
	return func(a *unrolled, in []value, _ []fixed, _ accumulator) value {
		f(a, in[0])
		return in[0]
	}
}

func elementary() []routine {
	unary := func(name string, wide, narrow int, f func(a *unrolled, x value)) routine {
		return &kernel{name: name, inputs: []string{"x"}, writes: true, body: pure(f),
			copies: map[string]int{"AVX512": wide, "AVX2": narrow}}
	}
	return []routine{
		unary("neg", 2, 2, func(a *unrolled, x value) { a.op("VXORPS", a.bits(signBit), x, x) }),
		unary("abs", 2, 2, func(a *unrolled, x value) { a.op("VANDPS", a.bits(restBits), x, x) }),
		unary("square", 2, 2, func(a *unrolled, x value) { a.op("VMULPS", x, x, x) }),
		unary("cube", 2, 2, func(a *unrolled, x value) {
			t := a.newValue()
			a.op("VMULPS", x, x, t)
			a.op("VMULPS", x, t, x)
		}),
		unary("roundEven", 2, 2, toInteger(8)),
		unary("floor", 2, 2, toInteger(9)),
		unary("ceil", 2, 2, toInteger(10)),
		unary("sqrt", 2, 2, func(a *unrolled, x value) { a.op("VSQRTPS", x, x) }),
		unary("rsqrt", 2, 2, func(a *unrolled, x value) {
			a.op("VSQRTPS", x, x)
			a.op("VDIVPS", x, a.pin(1), x)
		}),
		unary("exp", 4, 2, func(a *unrolled, x value) {
			clamp(a, x, -104, 89)
			exponential(a, x, a.newValue())
		}),
		unary("log", 2, 1, logarithm),
		unary("tanh", 4, 2, hyperbolicTangent),
		unary("erf", 2, 2, errorFunction),
	}
}

// toInteger rounds to an integral number in the mode of the instruction's control byte, without a
// report of inexactness.
func toInteger(mode int) func(a *unrolled, x value) {
	return func(a *unrolled, x value) {
		round := "VROUNDPS"
		if a.Wide() {
			round = "VRNDSCALEPS"
		}
		a.op(round, mode, x, x)
	}
}

// hyperbolicTangent replaces x by tanh(x) = m/(m+2), m = exp(2x) - 1, which has rounded to ±1
// beyond 10.
func hyperbolicTangent(a *unrolled, x value) {
	n := a.newValue()
	clamp(a, x, -10, 10)
	a.op("VADDPS", x, x, x)
	expm1(a, x, n)
	a.op("VADDPS", a.c(2), x, n)
	a.op("VDIVPS", n, x, x)
}
