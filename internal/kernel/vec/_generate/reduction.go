package main

import "math"

func joinSum(a *unrolled, x, acc string) {
	if a.isNEON() {
		a.vec("FADD", acc, acc, x)
		return
	}
	a.Line("\tVADDPS %s, %s, %s", x, acc, acc)
}

// joinExtreme keeps NaN that either register holds: the instruction returns x, its second operand,
// where either is NaN.
func joinExtreme(mnemonic string) func(a *unrolled, x, acc string) {
	return func(a *unrolled, x, acc string) {
		if a.isNEON() {
			a.vec(neonNames[orNaN(mnemonic)], acc, acc, x)
			return
		}
		size := acc[:1]
		old, isNaN := size+"4", size+"5"
		a.Line("\tVMOVAPS %s, %s", acc, old)
		a.Line("\t%s %s, %s, %s", mnemonic, x, acc, acc)
		if size == "Z" {
			a.Line("\tVCMPPS $%d, %s, %s, K2\n\tVMOVAPS %s, K2, %s", unordered, old, old, old, acc)
			return
		}
		a.Line("\tVCMPPS $%d, %s, %s, %s", unordered, old, old, isNaN)
		a.Line("\tVBLENDVPS %s, %s, %s, %s", isNaN, old, acc, acc)
	}
}

func extremeStep(mnemonic string) body {
	return func(a *unrolled, in []value, _ []fixed, acc accumulator) value {
		if a.isNEON() {
			a.op(orNaN(mnemonic), in[0], acc, acc)
			return 0
		}
		isNaN := a.newMask()
		a.compare(unordered, acc, acc, isNaN)
		a.op(mnemonic, in[0], acc, in[0])
		a.choose(isNaN, acc, in[0], acc)
		return 0
	}
}

func reduction() []routine {
	x := []string{"x"}
	return []routine{
		&kernel{name: "sum", inputs: x, sums: true, combine: joinSum, lanes: 64,
			copies: map[string]int{"AVX512": 4, "AVX2": 4},
			body: func(a *unrolled, in []value, _ []fixed, acc accumulator) value {
				a.op("VADDPS", in[0], acc, acc)
				return 0
			}},
		&kernel{name: "dot", inputs: []string{"a", "b"}, sums: true, combine: joinSum,
			lanes: 64, copies: map[string]int{"AVX512": 4, "AVX2": 2},
			body: func(a *unrolled, in []value, _ []fixed, acc accumulator) value {
				a.op("VFMADD231PS", in[0], in[1], acc)
				return 0
			}},
		&kernel{name: "sumSquaredDiff", inputs: x, sums: true, scalars: []string{"mean"},
			combine: joinSum, lanes: 64,
			copies: map[string]int{"AVX512": 4, "AVX2": 4},
			body: func(a *unrolled, in []value, s []fixed, acc accumulator) value {
				a.op("VSUBPS", s[0], in[0], in[0])
				a.keepLive(in[0])
				a.op("VFMADD231PS", in[0], in[0], acc)
				return 0
			}},
		&kernel{name: "maxReduce", inputs: x, sums: true, start: math.Inf(-1),
			combine: joinExtreme("VMAXPS"),
			copies:  map[string]int{"AVX512": 4, "AVX2": 4}, body: extremeStep("VMAXPS")},
		&kernel{name: "minReduce", inputs: x, sums: true, start: math.Inf(1),
			combine: joinExtreme("VMINPS"),
			copies:  map[string]int{"AVX512": 4, "AVX2": 4}, body: extremeStep("VMINPS")},
	}
}
