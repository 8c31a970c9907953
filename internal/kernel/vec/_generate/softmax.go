package main

func softmax() []routine {
	copies := map[string]int{"AVX512": 4, "AVX2": 2}
	// shifted replaces x by exp(x - shift), zero beyond the end.
	shifted := func(a *unrolled, in []value, s []fixed, acc accumulator) value {
		x := in[0]
		a.op("VSUBPS", s[0], x, x)
		clamp(a, x, -104, 89)
		exponential(a, x, a.newValue())
		a.keepLive(x)
		a.op("VADDPS", x, acc, acc)
		return x
	}
	return []routine{
		&kernel{name: "expShift", inputs: []string{"x"}, writes: true, scalars: []string{"shift"},
			sums: true, lanes: 16, combine: joinSum, copies: copies, body: shifted},
		&kernel{name: "sumExp", inputs: []string{"x"}, scalars: []string{"shift"}, sums: true,
			lanes: 16, combine: joinSum, copies: copies, body: shifted},
		&kernel{name: "shiftTwice", inputs: []string{"x"}, writes: true,
			scalars: []string{"a", "b"}, copies: copies,
			body: func(a *unrolled, in []value, s []fixed, _ accumulator) value {
				a.op("VSUBPS", s[0], in[0], in[0])
				a.op("VSUBPS", s[1], in[0], in[0])
				return in[0]
			}},
	}
}
