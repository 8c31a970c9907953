package op

import "math"

// Rules of arithmetic with two or more operands, which broadcast.

func gradAdd(x *gradient) {
	x.summed(0, x.d(0))
	x.summed(1, x.d(0))
}

func gradSub(x *gradient) {
	x.summed(0, x.d(0))
	if x.needs(1) {
		x.summed(1, x.neg(x.d(0)))
	}
}

func gradMul(x *gradient) {
	if x.needs(0) {
		x.summed(0, x.mul(x.d(0), x.Input(1)))
	}
	if x.needs(1) {
		x.summed(1, x.mul(x.d(0), x.Input(0)))
	}
}

// gradDiv: 1/b and -(a/b)/b.
func gradDiv(x *gradient) {
	g := x.div(x.d(0), x.Input(1))
	x.summed(0, g)
	if x.needs(1) {
		x.summed(1, x.neg(x.mul(g, x.out(0))))
	}
}

// gradMod: a - q·b, the whole quotient q constant almost everywhere. What is left of a after the
// remainder is q·b but for rounding.
func gradMod(x *gradient) {
	x.summed(0, x.d(0))
	if x.needs(1) {
		whole := x.div(x.sub(x.Input(0), x.out(0)), x.Input(1))
		x.summed(1, x.neg(x.mul(x.d(0), x.Op("Round", nil, whole))))
	}
}

// gradPow: b·aᵇ⁻¹, which is 0 where b is, and aᵇ·log a, which is taken as 0 where a is not
// positive: there the power is a function of b at single points only.
func gradPow(x *gradient) {
	a, b := x.Input(0), x.Input(1)
	if x.needs(0) {
		e := x.Cast(b, x.DType(a))
		zero := x.Op("Equal", nil, e, x.Scalar(e, 0))
		less := x.where(zero, x.Scalar(e, 0), x.plus(e, -1))
		x.summed(0, x.mul(x.d(0), x.mul(e, x.Op("Pow", nil, a, less))))
	}
	if x.needs(1) {
		positive := x.above(a, 0)
		log := x.Op("Log", nil, x.where(positive, a, x.Scalar(a, 1)))
		x.summed(1, x.Cast(x.mul(x.d(0), x.mul(x.out(0), log)), x.DType(b)))
	}
}

func gradSum(x *gradient) {
	for i := range x.NumIn {
		x.summed(i, x.d(0))
	}
}

func gradMean(x *gradient) {
	g := x.Scale(x.d(0), 1/float64(x.NumIn))
	for i := range x.NumIn {
		x.summed(i, g)
	}
}

// gradExtreme is the rule of Max and Min: the operands that are the extreme share its gradient.
func gradExtreme(x *gradient) {
	hit := make([]Var, x.NumIn)
	sharing := Absent
	for i := range hit {
		is := x.Op("Equal", nil, x.Input(i), x.out(0))
		hit[i] = x.Cast(is, x.DType(x.out(0)))
		sharing = x.Add(sharing, hit[i])
	}
	g := x.div(x.d(0), sharing)
	for i := range hit {
		if x.needs(i) {
			x.summed(i, x.mul(g, hit[i]))
		}
	}
}

func gradWhere(x *gradient) {
	c, g := x.Input(0), x.d(0)
	if x.needs(1) {
		x.summed(1, x.masked(c, g))
	}
	if x.needs(2) {
		x.summed(2, x.where(c, x.Scalar(g, 0), g))
	}
}

// Rules of functions of one number.

var gradIdentity = unary(func(_ *gradient, g Var) Var { return g })

var gradNeg = unary(func(x *gradient, g Var) Var { return x.neg(g) })

func slopeAbs(x *gradient, v, _ Var) Var { return x.Op("Sign", nil, v) }

func slopeSqrt(x *gradient, _, y Var) Var { return x.div(x.Scalar(y, 0.5), y) }

func slopeReciprocal(x *gradient, _, y Var) Var { return x.neg(x.square(y)) }

func slopeExp(_ *gradient, _, y Var) Var { return y }

func slopeLog(x *gradient, v, _ Var) Var { return x.Op("Reciprocal", nil, v) }

func slopeErf(x *gradient, v, _ Var) Var {
	return x.Scale(x.Op("Exp", nil, x.neg(x.square(v))), 2/math.Sqrt(math.Pi))
}

func slopeSin(x *gradient, v, _ Var) Var { return x.Op("Cos", nil, v) }

func slopeCos(x *gradient, v, _ Var) Var { return x.neg(x.Op("Sin", nil, v)) }

func slopeTan(x *gradient, _, y Var) Var { return x.plus(x.square(y), 1) }

// overRoot is 1/√v.
func (x *gradient) overRoot(v Var) Var {
	return x.Op("Reciprocal", nil, x.Op("Sqrt", nil, v))
}

func slopeAsin(x *gradient, v, _ Var) Var { return x.overRoot(x.from(1, x.square(v))) }

func slopeAcos(x *gradient, v, _ Var) Var { return x.neg(x.overRoot(x.from(1, x.square(v)))) }

func slopeAtan(x *gradient, v, _ Var) Var {
	return x.Op("Reciprocal", nil, x.plus(x.square(v), 1))
}

func slopeSinh(x *gradient, v, _ Var) Var { return x.Op("Cosh", nil, v) }

func slopeCosh(x *gradient, v, _ Var) Var { return x.Op("Sinh", nil, v) }

func slopeAsinh(x *gradient, v, _ Var) Var { return x.overRoot(x.plus(x.square(v), 1)) }

func slopeAcosh(x *gradient, v, _ Var) Var { return x.overRoot(x.plus(x.square(v), -1)) }

func slopeAtanh(x *gradient, v, _ Var) Var {
	return x.Op("Reciprocal", nil, x.from(1, x.square(v)))
}

// slopeSigmoid is y(1-y).
func slopeSigmoid(x *gradient, _, y Var) Var { return x.sigmoidSlope(y) }

func slopeTanh(x *gradient, _, y Var) Var { return x.tanhSlope(y) }

var gradRelu = unary(func(x *gradient, g Var) Var {
	return x.Ops(FusedDomain, ReluGradient, 1, 1, nil, g, x.out(0))[0]
})

var gradLeakyRelu = unary(func(x *gradient, g Var) Var {
	return x.where(x.above(x.Input(0), 0), g, x.Scale(g, x.alpha(0.01)))
})

// gradElu: up to zero the derivative α·exp v is y + α, which does not overflow above it.
var gradElu = unary(func(x *gradient, g Var) Var {
	return x.where(x.above(x.Input(0), 0), g, x.mul(g, x.plus(x.out(0), x.alpha(1))))
})

var gradSelu = unary(func(x *gradient, g Var) Var {
	alpha, gamma := x.alpha(1.67326319217681884765625), x.attr("gamma", 1.05070102214813232421875)
	return x.where(x.above(x.Input(0), 0), x.Scale(g, gamma),
		x.mul(g, x.plus(x.out(0), alpha*gamma)))
})

// gradCelu: below zero the derivative exp(v/α) is y/α + 1.
var gradCelu = unary(func(x *gradient, g Var) Var {
	return x.where(x.above(x.Input(0), 0), g, x.mul(g, x.plus(x.Scale(x.out(0), 1/x.alpha(1)), 1)))
})

var gradThresholdedRelu = unary(func(x *gradient, g Var) Var {
	return x.masked(x.above(x.Input(0), x.alpha(1)), g)
})

// within is the condition that v is between two numbers.
func (x *gradient) within(v Var, lo, hi float64) Var {
	return x.Op("And", nil, x.above(v, lo), x.below(v, hi))
}

var gradHardSigmoid = unary(func(x *gradient, g Var) Var {
	return x.masked(x.within(x.out(0), 0, 1), x.Scale(g, x.alpha(0.2)))
})

// gradHardSwish: 0 up to -3, v/3 + 1/2 up to 3, then 1.
var gradHardSwish = unary(func(x *gradient, g Var) Var {
	v := x.Input(0)
	ramp := x.mul(g, x.plus(x.Scale(v, 1.0/3), 0.5))
	return x.where(x.within(v, -3, 3), ramp, x.masked(x.above(v, 0), g))
})

func slopeSoftplus(x *gradient, v, _ Var) Var { return x.Op("Sigmoid", nil, v) }

func slopeSoftsign(x *gradient, v, _ Var) Var {
	return x.Op("Reciprocal", nil, x.square(x.plus(x.Op("Abs", nil, v), 1)))
}

// slopeGeluTanh is the derivative of Gelu's approximation by tanh.
func slopeGeluTanh(x *gradient, v Var) Var {
	root := math.Sqrt(2 / math.Pi)
	u := x.mul(v, x.plus(x.Scale(x.square(v), root*0.044715), root))
	t := x.Op("Tanh", nil, u)
	du := x.plus(x.Scale(x.square(v), 3*root*0.044715), root)
	half := x.Scale(x.plus(t, 1), 0.5)
	return x.Add(half, x.mul(x.Scale(v, 0.5), x.mul(x.from(1, x.square(t)), du)))
}

// slopeMish is t + v(1-t²)σ(v), t = tanh(softplus v).
func slopeMish(x *gradient, v, _ Var) Var {
	t := x.Op("Tanh", nil, x.Op("Softplus", nil, v))
	return x.Add(t, x.mul(v, x.mul(x.from(1, x.square(t)), x.Op("Sigmoid", nil, v))))
}

// slopeSwishOf is the derivative of v·σ(αv) when alpha is α.
func (x *gradient) slopeSwishOf(v Var, alpha float64) Var {
	s := x.Op("Sigmoid", nil, x.Scale(v, alpha))
	return x.Add(s, x.mul(x.Scale(v, alpha), x.mul(s, x.from(1, s))))
}

func slopeSwish(x *gradient, v, _ Var) Var { return x.slopeSwishOf(v, x.alpha(1)) }

func slopeSilu(x *gradient, v, _ Var) Var { return x.slopeSwishOf(v, 1) }

func gradSwiGLU(x *gradient) {
	a, b, g := x.Input(0), x.Input(1), x.d(0)
	if x.needs(0) {
		x.set(0, x.mul(x.mul(g, b), x.slopeSwishOf(a, x.alpha(1))))
	}
	if x.needs(1) {
		x.set(1, x.mul(g, x.mul(a, x.Op("Sigmoid", nil, x.Scale(a, x.alpha(1))))))
	}
}

var gradShrink = unary(func(x *gradient, g Var) Var {
	v, lambda := x.Input(0), x.attr("lambd", 0.5)
	return x.masked(x.Op("Or", nil, x.below(v, -lambda), x.above(v, lambda)), g)
})

func gradPRelu(x *gradient) {
	v, s, g := x.Input(0), x.Input(1), x.d(0)
	positive := x.above(v, 0)
	if x.needs(0) {
		x.set(0, x.where(positive, g, x.mul(g, s)))
	}
	if x.needs(1) {
		x.summed(1, x.where(positive, x.Scalar(g, 0), x.mul(g, v)))
	}
}

// gradClip: a bound that holds takes the gradient, the upper one where they cross. Elements that
// equal a bound are let through.
func gradClip(x *gradient) {
	v, g := x.Input(0), x.d(0)
	lo, hi := x.clipBounds()
	low, high, raised := Absent, Absent, v
	if lo != Absent {
		low = x.Op("Less", nil, v, lo)
		raised = x.where(low, lo, v)
	}
	if hi != Absent {
		high = x.Op("Greater", nil, raised, hi)
		x.total(2, x.masked(high, g))
		g = x.where(high, x.Scalar(g, 0), g)
	}
	if lo != Absent {
		x.total(1, x.masked(low, g))
		g = x.where(low, x.Scalar(g, 0), g)
	}
	x.set(0, g)
}

// clipBounds are the bounds of Clip as scalars, attributes before version 11; Absent ones too.
func (x *gradient) clipBounds() (lo, hi Var) {
	bound := func(name string, i int) Var {
		switch {
		case x.Version >= 11 && x.Input(i) != Absent:
			return x.Reshape(x.Input(i))
		case x.Version < 11 && x.Attrs.Has(name):
			return x.Scalar(x.Input(0), x.attr(name, 0))
		}
		return Absent
	}
	return bound("min", 1), bound("max", 2)
}

// total gives operand i, of one element, the sum of all of v.
func (x *gradient) total(i int, v Var) {
	if x.needs(i) {
		x.set(i, x.as(x.Op("ReduceSum", nil, v), x.Input(i)))
	}
}
