package microsoft

import "github.com/weirgpu/weir/op"

// activations are activations, and sums that end in one.
func activations() []op.Op {
	return []op.Op{
		composition(op.Op{Name: "Gelu", MinIn: 1, MaxIn: 1}, allRounded, func(x *expander) {
			x.Give(0, x.Op("Gelu", nil, x.Input(0)))
		}),
		composition(op.Op{Name: "BiasGelu", MinIn: 2, MaxIn: 2}, allRounded, func(x *expander) {
			x.Give(0, x.Op("Gelu", nil, x.Add(x.Input(0), x.lastAxis(1))))
		}),
		composition(op.Op{Name: "FastGelu", MinIn: 1, MaxIn: 2}, allRounded, func(x *expander) {
			x.Give(0, x.Op("Gelu", op.Attrs{op.StringAttr("approximate", "tanh")},
				x.Add(x.Input(0), x.lastAxis(1))))
		}),
		composition(op.Op{Name: "QuickGelu", MinIn: 1, MaxIn: 1}, allRounded, func(x *expander) {
			gate := x.Op("Sigmoid", nil, x.Scale(x.Input(0),
				float64(x.Attrs.Float("alpha", 1.702))))
			x.Give(0, x.Op("Mul", nil, x.Input(0), gate))
		}),
		composition(op.Op{Name: "BiasAdd", MinIn: 3, MaxIn: 3}, allRounded, func(x *expander) {
			x.Ranked(x.Input(0), "X", 3)
			x.Give(0, x.Add(x.Add(x.Input(0), x.lastAxis(1)), x.Input(2)))
		}),
		composition(op.Op{Name: "BiasSoftmax", MinIn: 2, MaxIn: 2}, allRounded, defineBiasSoftmax),
	}
}

// lastAxis returns input i, a vector as long as the last axis of input 0, absent when it is not
// given.
func (x *expander) lastAxis(i int) op.Var {
	v := x.Input(i)
	if v == op.Absent {
		return op.Absent
	}
	b := x.Ranked(v, "bias", 1)
	s := x.Shape(x.Input(0))
	if x.Err == nil && (len(s) == 0 || !s[len(s)-1].MayEqual(b[0])) {
		x.Fail(op.ErrInput, "bias %v does not fit %v", x.TypeOf(v), x.TypeOf(x.Input(0)))
	}
	return v
}

// defineBiasSoftmax adds a bias that broadcasts and normalises over all dimensions from axis on.
func defineBiasSoftmax(x *expander) {
	data := x.Input(0)
	sum := x.Add(data, x.Input(1))
	rank := x.Rank(data)
	if x.Err != nil {
		return
	}
	axis, err := x.Axis(x.Attrs.Int("axis", 1), rank)
	if err != nil {
		x.Err = err
		return
	}
	if axis == rank-1 {
		x.Give(0, x.Op("Softmax", op.Attrs{op.IntAttr("axis", -1)}, sum))
		return
	}
	rows := x.Op("Flatten", op.Attrs{op.IntAttr("axis", int64(axis))}, sum)
	x.Give(0, x.Op("Reshape", nil, x.Op("Softmax", op.Attrs{op.IntAttr("axis", -1)}, rows),
		x.Op("Shape", nil, sum)))
}
