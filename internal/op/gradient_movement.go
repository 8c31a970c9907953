package op

import "slices"

// Rules of operators that move elements.

// gradCast: what is cast to an integer or a condition has no derivative (see package grad), so what
// is left is a conversion between floats.
var gradCast = unary(func(x *gradient, g Var) Var { return x.Cast(g, x.DType(x.Input(0))) })

func gradCastLike(x *gradient) {
	gradCast(x)
	x.zero(1)
}

// gradView is the rule of operators that give elements another shape; the others of their operands
// are integers.
var gradView = unary(func(x *gradient, g Var) Var { return x.as(g, x.Input(0)) })

// gradTranspose applies the inverse permutation to the gradient.
var gradTranspose = unary(func(x *gradient, g Var) Var {
	perm, err := transposePerm(x.Call, x.Rank(x.Input(0)))
	if err != nil || x.Err != nil {
		x.Err = firstError(x.Err, err)
		return Absent
	}
	back := make([]int64, len(perm))
	for i, p := range perm {
		back[p] = int64(i)
	}
	return x.Transpose(g, back...)
})

//go:noinline
func firstError(errs ...error) error {
	i := slices.IndexFunc(errs, func(err error) bool { return err != nil })
	if i < 0 {
		return nil
	}
	return errs[i]
}

// axisOf is attribute axis, counted from the first of v.
func (x *Expander) axisOf(v Var, def int64) int64 {
	rank := x.Rank(v)
	axis, err := x.Axis(x.Attrs.Int("axis", def), max(rank, 1))
	x.Err = firstError(x.Err, err)
	return int64(axis)
}

// gradConcat parts the gradient as the operands were.
func gradConcat(x *gradient) {
	axis := x.axisOf(x.out(0), 0)
	sizes := make([]Var, x.NumIn)
	for i := range sizes {
		sizes[i] = x.Dim(x.Input(i), axis)
	}
	split := x.Op("Concat", Attrs{IntAttr("axis", 0)}, sizes...)
	parts := x.Ops("", "Split", x.Opset, x.NumIn, Attrs{IntAttr("axis", axis)}, x.d(0), split)
	for i, p := range parts {
		x.set(i, p)
	}
}

// gradSplit joins the gradients of all parts, zeros for those that have none.
func gradSplit(x *gradient) {
	parts := make([]Var, x.NumOut)
	for i := range parts {
		parts[i] = x.d(i)
	}
	x.set(0, x.Op("Concat", Attrs{IntAttr("axis", x.axisOf(x.Input(0), 0))}, parts...))
}

// gradExpand sums what was repeated.
func gradExpand(x *gradient) { x.summed(0, x.d(0)) }

// gradMoved is the rule of operators that only move the elements of operand 0.
func gradMoved(x *gradient) { x.moved(0, x.operands()...) }

// gradSlice puts zeros around the gradient where it is known which elements were cut out, and they
// follow each other.
func gradSlice(x *gradient) {
	pads := x.slicePads()
	if pads == nil {
		gradMoved(x)
		return
	}
	x.set(0, x.Op("Pad", nil, x.d(0), x.Ints(pads...)))
}

// slicePads is how much a slice cut off before and behind each axis, nil where that is not known or
// it left elements out between.
func (x *gradient) slicePads() []int64 {
	v := x.TypeOf(x.Input(0))
	known := &Infer{Call: x.Call, In: x.b.In, Present: x.b.Present}
	exprs, ok := known.sliceDims()
	starts, ok1 := knownInts(exprs.starts)
	ends, ok2 := knownInts(exprs.ends)
	if !ok || !ok1 || !ok2 || !v.Ranked {
		return nil
	}
	a := sliceArgs{starts: wideInts(starts), ends: wideInts(ends), axes: exprs.axes,
		steps: exprs.steps}
	err := a.complete(x.Call)
	axes, err2 := x.axes(a.axes, len(v.Shape))
	if err != nil || err2 != nil {
		return nil
	}
	pads := make([]int64, 2*len(v.Shape))
	for i, k := range axes {
		size, ok := v.Shape[k].Int()
		if !ok || a.steps[i] != 1 {
			return nil
		}
		first, n := sliceSpan(size, a.starts[i], a.ends[i], 1)
		pads[k], pads[len(v.Shape)+k] = int64(first), int64(size-first-n)
	}
	return pads
}

// gradPad: what was cut off has no gradient, and what the border holds is the constant's. The other
// modes repeat elements.
func gradPad(x *gradient) {
	if x.Attrs.String("mode", "constant") != "constant" {
		gradMoved(x)
		x.zero(2)
		return
	}
	v, g := x.Input(0), x.d(0)
	pads, axes, version := Absent, Absent, max(x.Opset, 13)
	if x.Version >= 11 {
		pads, axes = x.Input(1), x.Input(3)
	} else {
		pads = x.Ints(x.Attrs.Ints("pads")...)
	}
	if axes != Absent {
		version = max(version, 18)
	}
	inner := x.Ops("", "Pad", version, 1, nil, g, x.neg(pads), Absent, axes)[0]
	x.set(0, x.as(inner, v))
	if x.needs(2) {
		all := x.Op("ReduceSum", nil, g)
		x.total(2, x.sub(all, x.Op("ReduceSum", nil, inner)))
	}
}

// gradGather adds the gradient to the rows that were picked, as often as they were.
func gradGather(x *gradient) {
	if !x.needs(0) {
		return
	}
	v, at, g := x.Input(0), x.Input(1), x.d(0)
	axis, rank, picked := int(x.axisOf(v, 0)), x.Rank(v), x.Rank(at)
	if x.Err != nil || x.gatheredOne(v, at, g, axis) {
		return
	}
	first := append([]int64{int64(axis)}, slices.Concat(axesBetween(0, axis),
		axesBetween(axis+1, rank))...)
	back := make([]int64, rank)
	for i, k := range first {
		back[k] = int64(i)
	}
	rows := slices.Concat(axesBetween(axis, axis+picked), axesBetween(0, axis),
		axesBetween(axis+picked, rank-1+picked))
	zeros := x.full(x.Transpose(v, first...), g, 0)
	x.set(0, x.Transpose(x.scatterND(zeros, x.Unsqueeze(at, int64(picked)),
		x.Transpose(g, rows...)), back...))
}

// gatheredOne puts zeros around the gradient of one row that was picked, where it is known which,
// and reports whether it did.
func (x *gradient) gatheredOne(v, at, g Var, axis int) bool {
	of, place := x.TypeOf(v), x.TypeOf(at).Const
	if place == nil || place.Rank() > 0 {
		return false
	}
	size, ok := of.Shape[axis].Int()
	i, err := place.Ints()
	if !ok || err != nil {
		return false
	}
	k, err := x.index(i[0], size)
	if err != nil {
		return false
	}
	pads := make([]int64, 2*len(of.Shape))
	pads[axis], pads[len(of.Shape)+axis] = int64(k), int64(size-k-1)
	x.set(0, x.Op("Pad", nil, x.Unsqueeze(g, int64(axis)), x.Ints(pads...)))
	return true
}

// scatterND adds slices of v to those of base at places.
func (x *Expander) scatterND(base, places, v Var) Var {
	return x.Ops("", "ScatterND", max(x.Opset, 16), 1, Attrs{StringAttr("reduction", "add")}, base,
		places, v)[0]
}

// axisAttr is an attribute axis.
//
//go:noinline
func axisAttr(axis int64) Attrs { return Attrs{IntAttr("axis", axis)} }

// scatterAlong adds elements of v to those of base at places along an axis.
func (x *Expander) scatterAlong(axis int64, base, places, v Var) Var {
	return x.Ops("", "ScatterElements", max(x.Opset, 16), 1,
		append(axisAttr(axis), StringAttr("reduction", "add")), base, places, v)[0]
}

func gradGatherElements(x *gradient) {
	if x.needs(0) {
		v, g := x.Input(0), x.d(0)
		x.set(0, x.scatterAlong(x.axisOf(v, 0), x.full(v, g, 0), x.Input(1), g))
	}
}

func gradGatherND(x *gradient) {
	if x.Attrs.Int("batch_dims", 0) != 0 {
		gradMoved(x)
		return
	}
	if x.needs(0) {
		x.set(0, x.scatterND(x.full(x.Input(0), x.d(0), 0), x.Input(1), x.d(0)))
	}
}

// gradScatter is the rule of operators that set or add updates (operand 2) in data (operand 0) at
// places, which write puts and read gets. ONNX leaves open what two settings of one place give, and
// so does the rule.
func gradScatter(write func(x *gradient, base, places, v Var) Var,
	read func(x *gradient, v, places Var) Var) func(*gradient) {
	return func(x *gradient) {
		g, places := x.d(0), x.Input(1)
		how := x.Attrs.String("reduction", "none")
		if how != "none" && how != "add" {
			x.refuse(0, "reduction "+how)
			x.refuse(2, "reduction "+how)
			return
		}
		if x.needs(0) && how == "none" {
			x.set(0, write(x, g, places, x.full(x.Input(2), g, 0)))
		}
		if how == "add" {
			x.set(0, g)
		}
		if x.needs(2) {
			x.set(2, read(x, g, places))
		}
	}
}

var gradScatterElements = gradScatter(func(x *gradient, base, places, v Var) Var {
	return x.Op("ScatterElements", axisAttr(x.axisOf(x.Input(0), 0)), base, places, v)
}, func(x *gradient, v, places Var) Var {
	return x.Op("GatherElements", axisAttr(x.axisOf(x.Input(0), 0)), v, places)
})

var gradScatterND = gradScatter(func(x *gradient, base, places, v Var) Var {
	return x.Op("ScatterND", nil, base, places, v)
}, func(x *gradient, v, places Var) Var { return x.Op("GatherND", nil, v, places) })

// gradTopK puts the gradient of the values where the indices say they were.
func gradTopK(x *gradient) {
	if x.needs(0) {
		v, g := x.Input(0), x.d(0)
		x.set(0, x.scatterAlong(x.axisOf(v, -1), x.full(v, g, 0), x.out(1), g))
	}
}

// gradSame is the rule of linear operators that are their own transpose: what they keep, reverse
// or set to zero, they do to the gradient.
func gradSame(x *gradient) {
	if x.needs(0) {
		in := x.operands()
		in[0] = x.d(0)
		x.set(0, x.Ops(x.Domain, x.Type, x.Version, 1, x.Attrs, in...)[0])
	}
}

// gradCumSum sums from the other end.
func gradCumSum(x *gradient) {
	if x.needs(0) {
		attrs := Attrs{IntAttr("exclusive", x.Attrs.Int("exclusive", 0)),
			IntAttr("reverse", 1-x.Attrs.Int("reverse", 0))}
		x.set(0, x.Op("CumSum", attrs, x.d(0), x.Input(1)))
	}
}

// gradSpaceToDepth is DepthToSpace of the gradient, which puts the blocks back.
func gradSpaceToDepth(x *gradient) {
	if x.Attrs.String("mode", "DCR") != "DCR" {
		gradMoved(x)
		return
	}
	if x.needs(0) {
		size := IntAttr("blocksize", x.Attrs.Int("blocksize", 0))
		x.set(0, x.Op("DepthToSpace", Attrs{size}, x.d(0)))
	}
}

// gradDepthToSpace separates the blocks of the gradient again, as SpaceToDepth does.
func gradDepthToSpace(x *gradient) {
	if x.Attrs.String("mode", "DCR") != "DCR" {
		gradMoved(x)
		return
	}
	if x.needs(0) {
		size := IntAttr("blocksize", x.Attrs.Int("blocksize", 0))
		x.set(0, x.Op("SpaceToDepth", Attrs{size}, x.d(0)))
	}
}
