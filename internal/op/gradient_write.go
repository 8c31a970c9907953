package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// The calls that rules write most are not inlined: the program would hold each of them a hundred
// times.

//go:noinline
func (x *Expander) mul(a, b Var) Var { return x.Op("Mul", nil, a, b) }

//go:noinline
func (x *Expander) sub(a, b Var) Var { return x.Op("Sub", nil, a, b) }

//go:noinline
func (x *Expander) div(a, b Var) Var { return x.Op("Div", nil, a, b) }

//go:noinline
func (x *Expander) neg(a Var) Var { return x.Op("Neg", nil, a) }

//go:noinline
func (x *Expander) square(a Var) Var { return x.mul(a, a) }

// where is a where condition c holds, else b.
//
//go:noinline
func (x *Expander) where(c, a, b Var) Var { return x.Op("Where", nil, c, a, b) }

// masked is v where condition c holds, else 0.
//
//go:noinline
func (x *Expander) masked(c, v Var) Var { return x.where(c, v, x.Scalar(v, 0)) }

// above is the condition that v exceeds a number, below that it is less.
//
//go:noinline
func (x *Expander) above(v Var, than float64) Var {
	return x.Op("Greater", nil, v, x.Scalar(v, than))
}

//go:noinline
func (x *Expander) below(v Var, than float64) Var {
	return x.Op("Less", nil, v, x.Scalar(v, than))
}

// from is a number less v.
func (x *Expander) from(f float64, v Var) Var { return x.sub(x.Scalar(v, f), v) }

// plus is v and a number.
//
//go:noinline
func (x *Expander) plus(v Var, f float64) Var { return x.Op("Add", nil, v, x.Scalar(v, f)) }

//go:noinline
func (x *Expander) sizes(v Var) Var { return x.Op("Shape", nil, v) }

// full has the shape of one value, the element type of another, and one number in it.
//
//go:noinline
func (x *Expander) full(shape, like Var, f float64) Var {
	return x.filled(x.sizes(shape), like, f)
}

// filled is full of a shape that is given as integers.
func (x *Expander) filled(shape, like Var, f float64) Var {
	one := x.Scalar(like, f)
	if x.Err != nil {
		return Absent
	}
	t := *x.e.Consts[int(one)]
	t.Shape = []int{1}
	return x.Op("ConstantOfShape", Attrs{TensorAttr("value", &t)}, shape)
}

// as gives v the shape of another value with as many elements. Sizes may be 0, which Reshape takes
// as itself only when told to.
func (x *Expander) as(v, like Var) Var {
	attrs := Attrs{IntAttr("allowzero", 1)}
	if sizes, ok := x.TypeOf(like).Ints(); ok && !slices.Contains(sizes, 0) {
		attrs = nil
	}
	version := max(x.Opset, 14)
	return x.Ops("", "Reshape", version, 1, attrs, v, x.sizes(like))[0]
}

// wide is a value in the type that sums and moments of it are computed in: float32 for halves.
func (x *Expander) wide(v Var) Var {
	if d := x.DType(v); d == tensor.Float16 || d == tensor.BFloat16 {
		return x.Cast(v, tensor.Float32)
	}
	return v
}

// sumOver sums along axes, counted from the first, which stay with size 1 when keep is set. No axes
// are none.
func (x *Expander) sumOver(v Var, keep bool, axes ...int64) Var {
	if len(axes) == 0 {
		return v
	}
	attrs := Attrs{}
	if !keep {
		attrs = append(attrs, IntAttr("keepdims", 0))
	}
	return x.Op("ReduceSum", attrs, v, x.Ints(axes...))
}

// meanOver is the mean along axes, which stay with size 1.
func (x *Expander) meanOver(v Var, axes ...int64) Var {
	sum := x.sumOver(v, true, axes...)
	return x.perCount(sum, v, sum)
}

// perCount divides v by the number of elements that one value has for each of another. Halves are
// divided as float32, since numbers of elements exceed the greatest float16.
func (x *Expander) perCount(v, of, on Var) Var {
	d := x.DType(v)
	v = x.wide(v)
	one := x.Constant(tensor.Scalar[int64](1))
	atLeastOne := func(n Var) Var { return x.Op("Max", nil, one, n) }
	n := x.div(x.Op("Size", nil, of), atLeastOne(x.Op("Size", nil, on)))
	return x.Cast(x.div(v, x.Cast(atLeastOne(n), x.DType(v))), d)
}

// axesBetween are the axes from first up to, not with, end.
//
//go:noinline
func axesBetween(first, end int) []int64 {
	axes := []int64{}
	for k := first; k < end; k++ {
		axes = append(axes, int64(k))
	}
	return axes
}

// unbroadcast sums v over the elements that one of like was repeated to: over the axes that like
// lacks and those where it has size 1 and v has not. Where names do not tell, sizes are compared
// when it runs.
func (x *Expander) unbroadcast(v, like Var) Var {
	if x.Err != nil || x.types[v].Ranked && x.types[v].Equal(x.types[like]) {
		return v
	}
	from, to := x.Shape(v), x.Shape(like)
	if x.Err != nil {
		return Absent
	}
	lead := len(from) - len(to)
	if lead < 0 {
		x.Fail(ErrPanic, "gradient %v is of less rank than %v", x.types[v], x.types[like])
		return Absent
	}
	v = x.sumOver(v, false, axesBetween(0, lead)...)
	var axes []int64
	open := false
	for k, n := range to {
		switch {
		case n.Is(1) && !from[lead+k].Is(1):
			axes = append(axes, int64(k))
		case !n.Equal(from[lead+k]):
			if known, ok := n.Int(); !ok || known == 1 {
				open = true
			}
		}
	}
	v = x.sumOver(v, true, axes...)
	if open {
		v = x.sumWhereLonger(v, like)
	}
	return v
}

// sumWhereLonger sums v along the axes where its size is not that of like, which has its rank.
func (x *Expander) sumWhereLonger(v, like Var) Var {
	differ := x.Op("Not", nil, x.Op("Equal", nil, x.sizes(v), x.sizes(like)))
	axes := x.Reshape(x.Op("NonZero", nil, differ), -1)
	v = x.Op("ReduceSum", Attrs{IntAttr("noop_with_empty_axes", 1)}, v, axes)
	return x.as(v, like)
}

// scatter adds the elements of v, a vector, to those of base, another, at places.
func (x *Expander) scatter(base, places, v Var) Var {
	return x.Ops("", "ScatterElements", max(x.Opset, 16), 1,
		Attrs{StringAttr("reduction", "add")}, base, places, v)[0]
}

// moved gives the gradient of operand i of an operator that moves elements and computes nothing:
// the same call moves their numbers, which say where each element of the gradient belongs. Number 0
// is an element that the operator makes up. others are the operands to use instead of the call's;
// what stands in place i is ignored.
func (x *gradient) moved(i int, others ...Var) {
	if !x.needs(i) {
		return
	}
	v := x.Input(i)
	n, one := x.Op("Size", nil, v), x.Constant(tensor.Scalar[int64](1))
	end := x.Op("Add", nil, n, one)
	operands := append([]Var{}, others...)
	operands[i] = x.as(x.Op("Range", nil, one, end, one), v)
	places := x.Ops(x.Domain, x.Type, x.Version, x.NumOut, x.Attrs, operands...)[0]
	size, g := x.Reshape(end, 1), x.Reshape(x.d(0), -1)
	sums := x.scatter(x.filled(size, g, 0), x.Reshape(places, -1), g)
	x.set(i, x.as(x.Op("Slice", nil, sums, x.Ints(1), size), v))
}

// operands are the operands of the call, Absent ones too.
func (x *gradient) operands() []Var {
	in := make([]Var, x.NumIn)
	for i := range in {
		in[i] = x.Input(i)
	}
	return in
}

// cut is every step-th element of v along an axis, from one place up to, not with, another.
//
//go:noinline
func (x *Expander) cut(v Var, axis, from, to, step int64) Var {
	return x.Op("Slice", nil, v, x.Ints(from), x.Ints(to), x.Ints(axis), x.Ints(step))
}

// pick is element i of v along an axis, which goes.
func (x *Expander) pick(v Var, axis, i int64) Var {
	return x.Op("Gather", axisAttr(axis), v, x.Constant(tensor.Scalar(i)))
}

// stacked joins values along a new axis.
func (x *Expander) stacked(axis int64, of []Var) Var {
	in := make([]Var, len(of))
	for i, v := range of {
		in[i] = x.Unsqueeze(v, axis)
	}
	return x.Op("Concat", axisAttr(axis), in...)
}
