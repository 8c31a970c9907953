package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

func (x *expander) mul(a, b value) value { return x.op("Mul", nil, a, b) }
func (x *expander) sub(a, b value) value { return x.op("Sub", nil, a, b) }
func (x *expander) div(a, b value) value { return x.op("Div", nil, a, b) }
func (x *expander) neg(a value) value    { return x.op("Neg", nil, a) }
func (x *expander) square(a value) value { return x.mul(a, a) }

// where is a where condition c holds, else b.
func (x *expander) where(c, a, b value) value { return x.op("Where", nil, c, a, b) }

// masked is v where condition c holds, else 0.
func (x *expander) masked(c, v value) value { return x.where(c, v, x.scalar(v, 0)) }

// above is the condition that v exceeds a number, below that it is less.
func (x *expander) above(v value, than float64) value {
	return x.op("Greater", nil, v, x.scalar(v, than))
}

func (x *expander) below(v value, than float64) value {
	return x.op("Less", nil, v, x.scalar(v, than))
}

// from is a number less v.
func (x *expander) from(f float64, v value) value { return x.sub(x.scalar(v, f), v) }

// plus is v and a number.
func (x *expander) plus(v value, f float64) value { return x.op("Add", nil, v, x.scalar(v, f)) }

func (x *expander) sizes(v value) value { return x.op("Shape", nil, v) }

// full has the shape of one value, the element type of another, and one number in it.
func (x *expander) full(shape, like value, f float64) value {
	return x.filled(x.sizes(shape), like, f)
}

// filled is full of a shape that is given as integers.
func (x *expander) filled(shape, like value, f float64) value {
	one := x.scalar(like, f)
	if x.err != nil {
		return absent
	}
	t := *x.e.Consts[int(one)]
	t.Shape = []int{1}
	return x.op("ConstantOfShape", Attrs{TensorAttr("value", &t)}, shape)
}

// as gives v the shape of another value with as many elements. Sizes may be 0, which Reshape takes
// as itself only when told to.
func (x *expander) as(v, like value) value {
	attrs := Attrs{IntAttr("allowzero", 1)}
	if sizes, ok := x.typ(like).Ints(); ok && !slices.Contains(sizes, 0) {
		attrs = nil
	}
	version := max(x.opset, 14)
	return x.ops("", "Reshape", version, 1, attrs, v, x.sizes(like))[0]
}

// wide is a value in the type that sums and moments of it are computed in: float32 for halves.
func (x *expander) wide(v value) value {
	if d := x.dtype(v); d == tensor.Float16 || d == tensor.BFloat16 {
		return x.cast(v, tensor.Float32)
	}
	return v
}

// sumOver sums along axes, counted from the first, which stay with size 1 when keep is set. No axes
// are none.
func (x *expander) sumOver(v value, keep bool, axes ...int64) value {
	if len(axes) == 0 {
		return v
	}
	attrs := Attrs{}
	if !keep {
		attrs = append(attrs, IntAttr("keepdims", 0))
	}
	return x.op("ReduceSum", attrs, v, x.ints(axes...))
}

// meanOver is the mean along axes, which stay with size 1.
func (x *expander) meanOver(v value, axes ...int64) value {
	sum := x.sumOver(v, true, axes...)
	return x.perCount(sum, v, sum)
}

// perCount divides v by how many elements of one value come on one of another. Halves are divided as
// float32, since numbers of elements exceed the greatest float16.
func (x *expander) perCount(v, of, on value) value {
	d := x.dtype(v)
	v = x.wide(v)
	one := x.constant(tensor.Scalar[int64](1))
	atLeastOne := func(n value) value { return x.op("Max", nil, one, n) }
	n := x.div(x.op("Size", nil, of), atLeastOne(x.op("Size", nil, on)))
	return x.cast(x.div(v, x.cast(atLeastOne(n), x.dtype(v))), d)
}

// axesBetween are the axes from first up to, not with, end.
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
func (x *expander) unbroadcast(v, like value) value {
	if x.err != nil || x.types[v].Equal(x.types[like]) {
		return v
	}
	from, to := x.shape(v), x.shape(like)
	if x.err != nil {
		return absent
	}
	lead := len(from) - len(to)
	if lead < 0 {
		x.fail(ErrPanic, "gradient %v is of less rank than %v", x.types[v], x.types[like])
		return absent
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
func (x *expander) sumWhereLonger(v, like value) value {
	differ := x.op("Not", nil, x.op("Equal", nil, x.sizes(v), x.sizes(like)))
	axes := x.reshape(x.op("NonZero", nil, differ), -1)
	v = x.op("ReduceSum", Attrs{IntAttr("noop_with_empty_axes", 1)}, v, axes)
	return x.as(v, like)
}

// scatter adds the elements of v, a vector, to those of base, another, at places.
func (x *expander) scatter(base, places, v value) value {
	return x.ops("", "ScatterElements", max(x.opset, 16), 1,
		Attrs{StringAttr("reduction", "add")}, base, places, v)[0]
}

// moved gives the gradient of operand i of an operator that moves elements and computes nothing:
// the same call moves their numbers, which say where each element of the gradient belongs. Number 0
// is an element that the operator makes up. others are the operands to use instead of the call's;
// what stands in place i is ignored.
func (x *gradient) moved(i int, others ...value) {
	if !x.needs(i) {
		return
	}
	v := x.input(i)
	n, one := x.op("Size", nil, v), x.constant(tensor.Scalar[int64](1))
	end := x.op("Add", nil, n, one)
	operands := append([]value{}, others...)
	operands[i] = x.as(x.op("Range", nil, one, end, one), v)
	places := x.ops(x.Domain, x.Type, x.Version, x.NumOut, x.Attrs, operands...)[0]
	size, g := x.reshape(end, 1), x.reshape(x.d(0), -1)
	sums := x.scatter(x.filled(size, g, 0), x.reshape(places, -1), g)
	x.set(i, x.as(x.op("Slice", nil, sums, x.ints(1), size), v))
}

// operands are the operands of the call, absent ones too.
func (x *gradient) operands() []value {
	in := make([]value, x.NumIn)
	for i := range in {
		in[i] = x.input(i)
	}
	return in
}
