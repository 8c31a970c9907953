package op

// microsoftActivation are activations, and sums that end in one.
func microsoftActivation() []Op {
	return []Op{
		composition(Op{Name: "Gelu", MinIn: 1, MaxIn: 1}, allRounded, func(x *expander) {
			x.give(0, x.op("Gelu", nil, x.input(0)))
		}),
		composition(Op{Name: "BiasGelu", MinIn: 2, MaxIn: 2}, allRounded, func(x *expander) {
			x.give(0, x.op("Gelu", nil, x.add(x.input(0), x.lastAxis(1))))
		}),
		composition(Op{Name: "FastGelu", MinIn: 1, MaxIn: 2}, allRounded, func(x *expander) {
			x.give(0, x.op("Gelu", Attrs{StringAttr("approximate", "tanh")},
				x.add(x.input(0), x.lastAxis(1))))
		}),
		composition(Op{Name: "QuickGelu", MinIn: 1, MaxIn: 1}, allRounded, func(x *expander) {
			gate := x.op("Sigmoid", nil, x.scale(x.input(0), x.attr("alpha", 1.702)))
			x.give(0, x.op("Mul", nil, x.input(0), gate))
		}),
		composition(Op{Name: "BiasAdd", MinIn: 3, MaxIn: 3}, allRounded, func(x *expander) {
			x.ranked(x.input(0), "X", 3)
			x.give(0, x.add(x.add(x.input(0), x.lastAxis(1)), x.input(2)))
		}),
		composition(Op{Name: "BiasSoftmax", MinIn: 2, MaxIn: 2}, allRounded, defineBiasSoftmax),
	}
}

// lastAxis returns input i, a vector as long as the last axis of input 0, absent when it is not
// given.
func (x *expander) lastAxis(i int) value {
	v := x.input(i)
	if v == absent {
		return absent
	}
	b := x.ranked(v, "bias", 1)
	s := x.shape(x.input(0))
	if x.err == nil && (len(s) == 0 || !mayEqual(s[len(s)-1], b[0])) {
		x.fail(ErrInput, "bias %v does not fit %v", x.types[v], x.types[x.input(0)])
	}
	return v
}

// defineBiasSoftmax adds a bias that broadcasts and normalises over all dimensions from axis on.
func defineBiasSoftmax(x *expander) {
	data := x.input(0)
	sum := x.add(data, x.input(1))
	rank := x.rank(data)
	if x.err != nil {
		return
	}
	axis, err := x.axis(x.Attrs.Int("axis", 1), rank)
	if err != nil {
		x.err = err
		return
	}
	if axis == rank-1 {
		x.give(0, x.op("Softmax", Attrs{IntAttr("axis", -1)}, sum))
		return
	}
	rows := x.op("Flatten", Attrs{IntAttr("axis", int64(axis))}, sum)
	x.give(0, x.op("Reshape", nil, x.op("Softmax", Attrs{IntAttr("axis", -1)}, rows),
		x.op("Shape", nil, sum)))
}
