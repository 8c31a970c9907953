package main

func norm() []routine {
	copies := map[string]int{"AVX512": 2, "AVX2": 2}
	return []routine{
		&kernel{name: "normalize", inputs: []string{"x", "gamma", "beta"}, writes: true,
			copies:  copies,
			scalars: []string{"mean", "scale"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VSUBPS", s[0], in[0], in[0])
				a.op("VMULPS", s[1], in[0], in[0])
				a.op("VFMADD213PS", in[2], in[1], in[0])
				return in[0]
			}},
		&kernel{name: "center", inputs: []string{"x"}, writes: true, copies: copies,
			scalars: []string{"mean", "scale"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VSUBPS", s[0], in[0], in[0])
				a.op("VMULPS", s[1], in[0], in[0])
				return in[0]
			}},
		&kernel{name: "mulScaled", inputs: []string{"x", "gamma"}, writes: true, copies: copies,
			scalars: []string{"scale"},
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VMULPS", s[0], in[0], in[0])
				a.op("VMULPS", in[1], in[0], in[0])
				return in[0]
			}},
	}
}
