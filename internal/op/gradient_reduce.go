package op

// Rules of reductions. What follows from the gradient has the axes that were reduced, with size 1,
// whether or not the call keeps them.

// reduced is what a call of a reduction says of its axes.
type reducedBy struct {
	axes Var // a vector, Absent when none is given
	noop bool
}

// reducedBy reads the axes of the call: an attribute before version axesInput, then operand 1.
func (x *gradient) reducedBy(axesInput int) reducedBy {
	r := reducedBy{axes: Absent, noop: x.Attrs.Bool("noop_with_empty_axes", false)}
	if x.Version >= axesInput {
		r.axes = x.Input(1)
	} else if as := x.Attrs.Ints("axes"); len(as) > 0 {
		r.axes = x.Ints(as...)
	}
	return r
}

// kept gives v, of the result's shape, the reduced axes again, with size 1. Where all axes were
// reduced v is a scalar, which broadcasts without them.
func (x *gradient) kept(r reducedBy, v Var) Var {
	if x.Attrs.Bool("keepdims", true) || r.axes == Absent {
		return v
	}
	return x.Op("Unsqueeze", nil, v, r.axes)
}

// again sums v as the call reduces, and keeps the axes.
func (x *gradient) again(r reducedBy, v Var) Var {
	attrs := Attrs{}
	if r.noop {
		attrs = append(attrs, IntAttr("noop_with_empty_axes", 1))
	}
	return x.Op("ReduceSum", attrs, v, r.axes)
}

// product multiplies v as the call reduces, and keeps the axes.
func (x *gradient) product(r reducedBy, v Var) Var {
	attrs := Attrs{}
	if r.noop {
		attrs = append(attrs, IntAttr("noop_with_empty_axes", 1))
	}
	return x.Ops("", "ReduceProd", max(x.Opset, 18), 1, attrs, v, r.axes)[0]
}

// reductionRule is the rule of a reduction whose axes are an operand since version axesInput: f
// makes the gradient of operand v of that of the result, g, and of the result, y, which broadcast
// to v.
func reductionRule(axesInput int,
	f func(x *gradient, r reducedBy, g, v, y Var) Var) func(*gradient) {
	return unary(func(x *gradient, g Var) Var {
		r, v := x.reducedBy(axesInput), x.Input(0)
		d := f(x, r, x.kept(r, g), v, x.kept(r, x.out(0)))
		return x.Op("Expand", nil, d, x.sizes(v))
	})
}

var (
	gradReduceSum = reductionRule(13, func(_ *gradient, _ reducedBy, g, _, _ Var) Var {
		return g
	})
	gradReduceMean = reductionRule(18, func(x *gradient, _ reducedBy, g, v, _ Var) Var {
		return x.perCount(g, v, x.out(0))
	})
	gradReduceL1 = reductionRule(18, func(x *gradient, _ reducedBy, g, v, _ Var) Var {
		return x.mul(g, x.Op("Sign", nil, v))
	})
	gradReduceSumSquare = reductionRule(18, func(x *gradient, _ reducedBy, g, v, _ Var) Var {
		return x.mul(g, x.Add(v, v))
	})
	// the norm of zeros has no derivative; it is taken as 0
	gradReduceL2 = reductionRule(18, func(x *gradient, _ reducedBy, g, v, y Var) Var {
		zero := x.Op("Equal", nil, y, x.Scalar(y, 0))
		over := x.div(g, x.where(zero, x.Scalar(y, 1), y))
		return x.mul(x.where(zero, x.Scalar(g, 0), over), v)
	})
	gradReduceLogSum = reductionRule(18, func(x *gradient, _ reducedBy, g, _, y Var) Var {
		return x.mul(g, x.Op("Exp", nil, x.neg(y)))
	})
	gradReduceLogSumExp = reductionRule(18, func(x *gradient, _ reducedBy, g, v, y Var) Var {
		return x.mul(g, x.Op("Exp", nil, x.sub(v, y)))
	})
	// gradReduceProd: the product of all others, which is the product over the element but where
	// elements are zero: beside one zero only that one has a gradient, beside two none.
	gradReduceProd = reductionRule(18, func(x *gradient, r reducedBy, g, v, _ Var) Var {
		zero := x.Op("Equal", nil, v, x.Scalar(v, 0))
		full := x.where(zero, x.Scalar(v, 1), v)
		zeros := x.again(r, x.Cast(zero, x.DType(v)))
		product := x.product(r, full)
		none, one := x.below(zeros, 0.5), x.Op("Equal", nil, zeros, x.Scalar(zeros, 1))
		others := x.where(none, x.div(product, full),
			x.masked(x.Op("And", nil, one, zero), product))
		return x.mul(g, others)
	})
	// gradReduceExtreme is the rule of ReduceMax and ReduceMin: equal elements share the gradient.
	gradReduceExtreme = reductionRule(18, func(x *gradient, r reducedBy, g, v, y Var) Var {
		hit := x.Cast(x.Op("Equal", nil, v, y), x.DType(v))
		return x.mul(x.div(g, x.again(r, hit)), hit)
	})
)

var gradGlobalAveragePool = unary(func(x *gradient, g Var) Var {
	v := x.Input(0)
	return x.Op("Expand", nil, x.perCount(g, v, g), x.sizes(v))
})

// gradGlobalMaxPool: equal elements of a plane share the gradient.
var gradGlobalMaxPool = unary(func(x *gradient, g Var) Var {
	v := x.Input(0)
	hit := x.Cast(x.Op("Equal", nil, v, x.out(0)), x.DType(v))
	return x.mul(x.div(g, x.sumOver(hit, true, axesBetween(2, x.Rank(v))...)), hit)
})

// softmaxAxes are the axes that a call of Softmax and its kin normalises over.
func (x *gradient) softmaxAxes() []int64 {
	rank := x.Rank(x.Input(0))
	first, end, err := x.softmaxAxis(rank)
	x.Err = firstError(x.Err, err)
	return axesBetween(first, min(end, rank))
}

// gradLogSoftmax is g - exp(y)·Σ g.
var gradLogSoftmax = unary(func(x *gradient, g Var) Var {
	sum := x.sumOver(g, true, x.softmaxAxes()...)
	return x.sub(g, x.mul(x.Op("Exp", nil, x.out(0)), sum))
})
