package main

// simple is the body of a kernel that is one instruction of three operands.
func simple(mnemonic string) body {
	return func(a *unrolled, in []value, s []fixed, _ accumulator) value {
		// Go's operand order is reversed: the second operand stands first.
		if len(s) == 1 {
			a.op(mnemonic, s[0], in[0], in[0])
		} else {
			a.op(mnemonic, in[1], in[0], in[0])
		}
		return in[0]
	}
}

// reversed is simple with the scalar as first operand.
func reversed(mnemonic string) body {
	return func(a *unrolled, in []value, s []fixed, _ accumulator) value {
		a.op(mnemonic, in[0], s[0], in[0])
		return in[0]
	}
}

// extreme is max or min of two operands. The instruction returns its second operand where either is
// NaN, so that the first needs to be put back where it is the NaN.
func extreme(mnemonic string) body {
	return func(a *unrolled, in []value, s []fixed, _ accumulator) value {
		var second any
		if len(s) == 1 {
			second = s[0]
		} else {
			second = in[1]
		}
		if a.isNEON() {
			a.op(orNaN(mnemonic), second, in[0], in[0])
			return in[0]
		}
		result, nan := a.newValue(), a.newMask()
		a.compare(unordered, in[0], in[0], nan)
		a.op(mnemonic, second, in[0], result)
		a.choose(nan, in[0], result, result)
		return result
	}
}

// What arm64 has beside the instructions of AVX2: the greater or the less of two, NaN where either
// is.
const (
	maximumOrNaN = "VMAXPS or NaN"
	minimumOrNaN = "VMINPS or NaN"
)

// orNaN is the instruction that does not hide NaN.
func orNaN(mnemonic string) string { return mnemonic + " or NaN" }

func arithmetic() []routine {
	pair, one, scalar := []string{"a", "b"}, []string{"x"}, []string{"s"}
	narrow := map[string]int{"AVX512": 2, "AVX2": 2}
	list := []routine{}
	binary := func(name string, f body) {
		list = append(list, &kernel{name: name, inputs: pair, writes: true, copies: narrow,
			body: f})
	}
	unary := func(name string, f body) {
		list = append(list, &kernel{name: name, inputs: one, writes: true, scalars: scalar,
			copies: narrow, body: f})
	}
	binary("add", simple("VADDPS"))
	binary("sub", simple("VSUBPS"))
	binary("addBits", simple("VPADDD"))
	binary("mul", simple("VMULPS"))
	binary("div", simple("VDIVPS"))
	binary("maximum", extreme("VMAXPS"))
	binary("minimum", extreme("VMINPS"))
	unary("addBitsScalar", simple("VPADDD"))
	unary("addScalar", simple("VADDPS"))
	unary("rsubScalar", reversed("VSUBPS"))
	unary("mulScalar", simple("VMULPS"))
	unary("divScalar", simple("VDIVPS"))
	unary("rdivScalar", reversed("VDIVPS"))
	unary("maxScalar", extreme("VMAXPS"))
	unary("minScalar", extreme("VMINPS"))
	return append(list, products(narrow)...)
}

// products are those that add, too.
func products(copies map[string]int) []routine {
	return []routine{
		&kernel{name: "axpy", inputs: []string{"x", "y"}, writes: true, scalars: []string{"a"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VFMADD231PS", s[0], in[0], in[1])
				return in[1]
			}, copies: copies},
		&kernel{name: "axpyBits", inputs: []string{"x", "y"}, writes: true, scalars: []string{"a"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VPMULLD", s[0], in[0], in[0])
				a.op("VPADDD", in[0], in[1], in[1])
				return in[1]
			}, copies: copies},
		&kernel{name: "fma", inputs: []string{"a", "b", "c"}, writes: true,
			body: func(a *unrolled, in []value, _ []fixed, _ accumulator) value {
				a.op("VFMADD231PS", in[0], in[1], in[2])
				return in[2]
			}, copies: copies},
		&kernel{name: "affine", inputs: []string{"x"}, writes: true,
			scalars: []string{"scale", "bias"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VFMADD213PS", s[1], s[0], in[0])
				return in[0]
			}, copies: copies},
	}
}
