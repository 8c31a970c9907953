package main

// training are the loops of gradients.
func training() []routine {
	narrow := map[string]int{"AVX512": 2, "AVX2": 2}
	return []routine{
		// the comparisons are false for NaN, whose gradient is then 0
		&kernel{name: "gate", inputs: []string{"g", "x"}, writes: true,
			copies:  map[string]int{"AVX512": 2, "AVX2": 1},
			scalars: []string{"scale", "bias", "lo", "hi"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				above, below := a.newMask(), a.newMask()
				zero := a.newValue()
				a.op("VFMADD213PS", s[1], s[0], in[1])
				a.op("VXORPS", zero, zero, zero)
				a.compare(greater, in[1], s[2], above)
				a.compare(atMost, in[1], s[3], below)
				a.choose(above, in[0], zero, in[0])
				a.choose(below, in[0], zero, in[0])
				return in[0]
			}},
		&kernel{name: "blend", inputs: []string{"g", "x"}, writes: true, copies: narrow,
			scalars: []string{"a", "b", "c"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VFMADD213PS", s[2], s[1], in[1])
				a.op("VFMADD213PS", in[1], s[0], in[0])
				return in[0]
			}},
		// VMAXPS and VMINPS return their second operand, here the element, where it is NaN
		&kernel{name: "affineClamp", inputs: []string{"x"}, writes: true, copies: narrow,
			scalars: []string{"scale", "bias", "lo", "hi"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VFMADD213PS", s[1], s[0], in[0])
				a.op("VMAXPS", in[0], s[2], in[0])
				a.op("VMINPS", in[0], s[3], in[0])
				return in[0]
			}},
		&kernel{name: "dotDiff", inputs: []string{"g", "x"}, sums: true, combine: joinSum,
			scalars: []string{"mean"}, lanes: 64,
			copies: map[string]int{"AVX512": 4, "AVX2": 2},
			body: func(a *unrolled, in []value, s []fixed, acc accumulator) value {
				a.op("VSUBPS", s[0], in[1], in[1])
				a.keepLive(in[1])
				a.op("VFMADD231PS", in[0], in[1], acc)
				return 0
			}},
	}
}
