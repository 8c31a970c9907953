package microsoft

import "github.com/weirgpu/weir/internal/op"

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
	sum := x.Add(x.Input(0), x.Input(1))
	axis, rank := x.axisOf(x.Input(0), 1)
	if x.Err == nil {
		x.Give(0, x.softmaxFrom(sum, axis, rank))
	}
}

// softmaxFrom normalises v, of so many dimensions, over all of them from axis on together.
func (x *expander) softmaxFrom(v op.Var, axis, rank int) op.Var {
	last := op.Attrs{op.IntAttr("axis", -1)}
	if axis == rank-1 {
		return x.Op("Softmax", last, v)
	}
	rows := x.Op("Flatten", op.Attrs{op.IntAttr("axis", int64(axis))}, v)
	return x.Op("Reshape", nil, x.Op("Softmax", last, rows), x.Op("Shape", nil, v))
}

// axisOf is attribute axis, counted from the first dimension of v, and how many v has.
func (x *expander) axisOf(v op.Var, def int64) (axis, rank int) {
	if rank = x.Rank(v); x.Err != nil {
		return 0, 0
	}
	axis, x.Err = x.Axis(x.Attrs.Int("axis", def), rank)
	return axis, rank
}
