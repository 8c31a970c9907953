package grad_test

import (
	"math/rand/v2"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// operands draws operands of calls.
type operands struct{ *rand.Rand }

// f are numbers of a normal distribution.
func (o operands) f(shape ...int) *tensor.Tensor { return normal(o.Rand, shape...) }

// in are numbers of an even distribution.
func (o operands) in(lo, hi float64, shape ...int) *tensor.Tensor {
	t := o.f(shape...)
	for i := range tensor.As[float64](t) {
		tensor.As[float64](t)[i] = lo + (hi-lo)*o.Float64()
	}
	return t
}

func ints(v ...int64) *tensor.Tensor { return tensor.From(v, len(v)) }

func shaped(t *tensor.Tensor, shape ...int) *tensor.Tensor {
	t.Shape = shape
	return t
}

func list(in ...*tensor.Tensor) []*tensor.Tensor { return in }

func attrs(as ...op.Attr) op.Attrs { return as }

// calls are the calls on which rules are tried: every operator that has one, with every attribute
// that changes what it computes.
func calls() []call {
	o := operands{rand.New(rand.NewPCG(1, 2))}
	return slices.Concat(o.unary(), o.binary(), o.activations(), o.movement(), o.indexing(),
		o.reductions(), o.products(), o.windows(), o.norms(), o.losses(), o.compositions(),
		o.sums(), o.resizes(), o.samples(), o.recurrent(), o.attention(), o.counted(),
		o.sequences(), o.determinants())
}

// determinants are those of matrices with an inverse, and without.
func (o operands) determinants() []call {
	singular := tensor.From([]float64{1, 2, 2, 4}, 2, 2)
	return []call{{op: "Det", first: true, in: list(o.f(3, 3))},
		{op: "Det", name: "several", first: true, in: list(o.f(2, 2, 2, 2))},
		{op: "Det", name: "one", first: true, in: list(o.f(1, 1))},
		{op: "Det", name: "singular", first: true, in: list(singular)}}
}

// sequences are losses of labels whose places are not known.
func (o operands) sequences() []call {
	labels := ints(1, 2, -1, 3, 3, -1)
	labels.Shape = []int{2, 3}
	return []call{
		{domain: op.FusedDomain, op: op.CTC, version: 1, first: true, held: []int{1},
			in: list(o.f(2, 5, 4), labels)},
		{domain: op.FusedDomain, op: op.CTC, version: 1, name: "lengths", first: true,
			held:  []int{1, 2},
			attrs: attrs(op.IntAttr(op.CTCBlank, 0)), in: list(o.f(2, 5, 4), labels, ints(3, 5))},
	}
}

// counted is what draws from counters: the same at each call.
func (o operands) counted() []call {
	return []call{{domain: op.FusedDomain, op: op.CountedDropout, version: 1, static: true,
		held:  []int{1},
		attrs: attrs(op.FloatAttr(op.DropRatio, 0.4), op.IntAttr(op.DropNode, 3)),
		in:    list(o.f(3, 5), ints(7, 9))}}
}

func (o operands) unary() []call {
	cs := []call{
		{op: "Softplus", in: list(o.f(3, 4))}, {op: "Reciprocal", in: list(o.in(0.5, 2, 3))},
		{op: "Log", in: list(o.in(0.5, 2, 3))}, {op: "Sqrt", in: list(o.in(0.5, 2, 3))},
		{op: "Acosh", in: list(o.in(1.5, 3, 3))},
		{op: "Identity", name: "scalar", in: list(o.f())},
		{domain: op.FusedDomain, op: op.Boundary, version: 1, in: list(o.f(2, 3))},
		{domain: op.FusedDomain, op: op.ReluGradient, version: 1, in: list(o.f(2, 3), o.f(2, 3))},
		{domain: op.FusedDomain, op: op.GeluGradient, version: 1, in: list(o.f(2, 3), o.f(2, 3))},
		{domain: op.FusedDomain, op: op.Unscale, version: 1, in: list(o.f(2, 3), o.in(2, 3)),
			held: []int{1}},
		{op: "Cast", attrs: attrs(op.IntAttr("to", int64(tensor.Float32))), in: list(o.f(3)),
			static: true, first: true, single: true},
		{op: "CastLike", in: list(o.f(3), ints(1).Clone()), held: []int{0}},
	}
	cs = cs[:len(cs)-2] // conversions are tried by TestCast: float32 has no central differences
	for _, name := range []string{"Identity", "Neg", "Abs", "Exp", "Erf", "Sin", "Cos", "Sinh",
		"Cosh", "Asinh", "Sigmoid", "Tanh", "Relu", "Softsign", "HardSwish", "Mish"} {
		cs = append(cs, call{op: name, in: list(o.f(2, 5))})
	}
	for _, name := range []string{"Asin", "Acos", "Atan", "Atanh", "Tan"} {
		cs = append(cs, call{op: name, in: list(o.in(-0.8, 0.8, 2, 3))})
	}
	return cs
}

func (o operands) binary() []call {
	var cs []call
	shapes := [][2][]int{{{2, 3}, {2, 3}}, {{2, 3}, {3}}, {{3}, {2, 3}}, {{2, 1}, {1, 3}},
		{{}, {2, 2}}, {{1, 1, 1}, {2}}, {{4, 1, 2}, {3, 1}}}
	for _, s := range shapes {
		for _, name := range []string{"Add", "Sub", "Mul", "Div", "Max", "Min"} {
			cs = append(cs, call{op: name, in: list(o.f(s[0]...), o.in(0.5, 2, s[1]...))})
		}
		cs = append(cs,
			call{op: "Pow", in: list(o.in(0.5, 2, s[0]...), o.f(s[1]...))},
			call{op: "Mod", attrs: attrs(op.IntAttr("fmod", 1)), first: true, single: true,
				in: list(o.in(-9, 9, s[0]...), o.in(1, 2, s[1]...))},
			call{op: "Where", in: list(tensor.From([]bool{true, false, true, false}, 4, 1, 1),
				o.f(s[0]...), o.f(s[1]...))})
	}
	three := func() []*tensor.Tensor { return list(o.f(2, 1), o.f(3), o.f(1, 1, 1)) }
	for _, name := range []string{"Sum", "Mean", "Max", "Min"} {
		cs = append(cs, call{op: name, name: "three", in: three()},
			call{op: name, name: "one", in: list(o.f(3))})
	}
	return append(cs,
		call{op: "Pow", name: "negative base", in: list(o.f(4), ints(2))},
		call{op: "Pow", name: "exponent zero", in: list(o.f(3), ints(0, 1, 3))})
}

func (o operands) activations() []call {
	alpha := func(v float32) op.Attr { return op.FloatAttr("alpha", v) }
	cs := []call{
		{op: "LeakyRelu", in: list(o.f(6))}, {op: "LeakyRelu", name: "alpha", in: list(o.f(6)),
			attrs: attrs(alpha(0.3))},
		{op: "Elu", in: list(o.f(6))}, {op: "Elu", name: "alpha", in: list(o.f(6)),
			attrs: attrs(alpha(0.7))},
		{op: "Selu", in: list(o.f(6))}, {op: "Selu", name: "gamma", in: list(o.f(6)),
			attrs: attrs(alpha(1.5), op.FloatAttr("gamma", 0.8))},
		{op: "Celu", in: list(o.f(6))}, {op: "Celu", name: "alpha", in: list(o.f(6)),
			attrs: attrs(alpha(0.6))},
		{op: "ThresholdedRelu", in: list(o.in(0, 2, 6)), attrs: attrs(alpha(0.9))},
		{op: "HardSigmoid", in: list(o.in(-4, 4, 8))},
		{op: "HardSigmoid", name: "alpha", in: list(o.in(-2, 2, 8)),
			attrs: attrs(alpha(0.5), op.FloatAttr("beta", 0.4))},
		{op: "HardSwish", name: "wide", in: list(o.in(-6, 6, 12))},
		{op: "Gelu", in: list(o.f(6))},
		{op: "Gelu", name: "tanh", in: list(o.f(6)),
			attrs: attrs(op.StringAttr("approximate", "tanh"))},
		{op: "Swish", in: list(o.f(6))},
		{op: "Swish", name: "alpha", in: list(o.f(6)), attrs: attrs(alpha(1.7))},
		{domain: op.FusedDomain, op: "Silu", version: 1, in: list(o.f(6))},
		{op: "SwiGLU", version: 28, in: list(o.f(2, 3), o.f(2, 3)), attrs: attrs(alpha(1.3))},
		{op: "Shrink", in: list(o.in(-2, 2, 9)),
			attrs: attrs(op.FloatAttr("lambd", 0.7), op.FloatAttr("bias", 0.2))},
		{op: "PRelu", in: list(o.f(2, 3, 4), o.f(3, 1))},
		{op: "PRelu", name: "one", in: list(o.f(2, 3), o.f(1))},
		{op: "Clip", in: list(o.f(12), o.in(-0.6, -0.4), o.in(0.4, 0.6))},
		{op: "Clip", name: "vectors", in: list(o.f(3, 4), o.in(-0.6, -0.4, 1), o.in(0.4, 0.6, 1))},
		{op: "Clip", name: "min", in: list(o.f(12), o.in(-0.6, -0.4))},
		{op: "Clip", name: "max", in: list(o.f(12), nil, o.in(0.4, 0.6))},
		{op: "Clip", name: "neither", in: list(o.f(4))},
		{op: "Clip", name: "crossed", in: list(o.f(12), o.in(0.4, 0.6), o.in(-0.6, -0.4))},
		{op: "Clip", name: "of a scalar", in: list(o.in(-2, -1), o.in(-0.6, -0.4, 1))},
		{op: "Clip", name: "attributes", version: 6, in: list(o.f(12)),
			attrs: attrs(op.FloatAttr("min", -0.5), op.FloatAttr("max", 0.5))},
	}
	for _, name := range []string{"Softmax", "LogSoftmax"} {
		cs = append(cs, call{op: name, in: list(o.f(2, 3, 4))},
			call{op: name, name: "axis", in: list(o.f(2, 3, 4)),
				attrs: attrs(op.IntAttr("axis", 0))},
			call{op: name, name: "flattened", version: 11, in: list(o.f(2, 3, 4))},
			call{op: name, name: "negative axis", in: list(o.f(2, 3, 4)),
				attrs: attrs(op.IntAttr("axis", -2))})
	}
	return cs
}

func (o operands) movement() []call {
	axis := func(a int64) op.Attrs { return attrs(op.IntAttr("axis", a)) }
	pads := func(mode string) op.Attrs { return attrs(op.StringAttr("mode", mode)) }
	perm := op.IntsAttr("perm", 1, 2, 0)
	block := op.IntAttr("blocksize", 2)
	return []call{
		{op: "Reshape", in: list(o.f(2, 6), ints(3, -1))},
		{op: "Flatten", in: list(o.f(2, 3, 2)), attrs: axis(2)},
		{op: "Squeeze", in: list(o.f(2, 1, 3), ints(-2))},
		{op: "Squeeze", name: "all", in: list(o.f(2, 1, 3)), static: true},
		{op: "Unsqueeze", in: list(o.f(2, 3), ints(0, -1))},
		{op: "Unsqueeze", name: "attribute", version: 11, in: list(o.f(2, 3)),
			attrs: attrs(op.IntsAttr("axes", 1))},
		{op: "Transpose", in: list(o.f(2, 3, 4))},
		{op: "Transpose", name: "perm", in: list(o.f(2, 3, 4)), attrs: attrs(perm)},
		{op: "Concat", in: list(o.f(2, 1), o.f(2, 3), o.f(2, 2)), attrs: axis(-1)},
		{op: "Concat", name: "one", in: list(o.f(2, 1)), attrs: axis(0)},
		{op: "Split", in: list(o.f(2, 6), ints(1, 3, 2)), outs: 3, attrs: axis(1)},
		{op: "Split", name: "even", in: list(o.f(5, 2)), outs: 2,
			attrs: attrs(op.IntAttr("num_outputs", 2))},
		{op: "Split", name: "attribute", version: 11, in: list(o.f(5, 2)), outs: 2,
			attrs: attrs(op.IntsAttr("split", 2, 3))},
		{op: "Expand", in: list(o.f(3, 1), ints(2, 3, 4))},
		{op: "Expand", name: "less", in: list(o.f(2, 3, 1), ints(3, 1))},
		{op: "Tile", in: list(o.f(2, 3), ints(2, 3))},
		{op: "Slice", in: list(o.f(4, 5), ints(1, -1), ints(3, -6), ints(0, 1), ints(1, -2))},
		{op: "Slice", name: "inner", in: list(o.f(4, 5), ints(-3, 1), ints(9, -1), ints(-1, 0))},
		{op: "Slice", name: "empty", in: list(o.f(4, 5), ints(3), ints(2))},
		{op: "Slice", name: "defaults", in: list(o.f(4, 5), ints(1), ints(9))},
		{op: "Slice", name: "attributes", version: 9, in: list(o.f(4, 5)),
			attrs: attrs(op.IntsAttr("starts", 1), op.IntsAttr("ends", -1))},
		{op: "Pad", in: list(o.f(2, 3), ints(1, 0, 0, 2), o.f())},
		{op: "Pad", name: "cut", in: list(o.f(4, 3), ints(-1, 1, 1, -1), o.f())},
		{op: "Pad", name: "axes", in: list(o.f(2, 3), ints(1, 2), o.f(), ints(-1))},
		{op: "Pad", name: "attributes", version: 2, in: list(o.f(2, 3)),
			attrs: attrs(op.IntsAttr("pads", 1, 0, 0, 2), op.FloatAttr("value", 2))},
		{op: "Pad", name: "edge", in: list(o.f(2, 3), ints(1, 2, 0, 2)), attrs: pads("edge")},
		{op: "Pad", name: "reflect", in: list(o.f(3, 3), ints(1, 2, 0, 2)),
			attrs: pads("reflect")},
		{op: "Pad", name: "wrap", in: list(o.f(3, 3), ints(1, 2, 0, 2)), attrs: pads("wrap")},
		{op: "CenterCropPad", in: list(o.f(4, 3), ints(2, 6))},
		{op: "DepthToSpace", in: list(o.f(1, 8, 2, 1)), attrs: attrs(block)},
		{op: "DepthToSpace", name: "CRD", in: list(o.f(1, 8, 2, 1)),
			attrs: attrs(block, op.StringAttr("mode", "CRD"))},
		{op: "SpaceToDepth", in: list(o.f(1, 2, 4, 2)), attrs: attrs(block)},
		{op: "ReverseSequence", in: list(o.f(4, 3), ints(2, 4, 1))},
		{op: "Trilu", in: list(o.f(2, 3, 3))},
		{op: "Trilu", name: "lower", in: list(o.f(3, 4), shaped(ints(1))),
			attrs: attrs(op.IntAttr("upper", 0))},
		{op: "CumSum", in: list(o.f(2, 4), shaped(ints(1)))},
		{op: "CumSum", name: "exclusive", in: list(o.f(4, 2), shaped(ints(-2))),
			attrs: attrs(op.IntAttr("exclusive", 1))},
		{op: "CumSum", name: "reverse", in: list(o.f(4, 2), shaped(ints(0))),
			attrs: attrs(op.IntAttr("reverse", 1))},
	}
}

func (o operands) indexing() []call {
	axis := func(a int64) op.Attrs { return attrs(op.IntAttr("axis", a)) }
	add := op.StringAttr("reduction", "add")
	rows := func() *tensor.Tensor { return shaped(ints(0, 2, -1, 2), 2, 2) }
	return []call{
		{op: "Gather", in: list(o.f(4, 3), rows())},
		{op: "Gather", name: "axis", in: list(o.f(2, 4, 3), rows()), attrs: axis(1)},
		{op: "Gather", name: "last", in: list(o.f(2, 4), rows()), attrs: axis(-1)},
		{op: "Gather", name: "scalar", in: list(o.f(2, 4), shaped(ints(1))), attrs: axis(1)},
		{op: "GatherElements", in: list(o.f(2, 3), shaped(ints(0, 2, 1, -1, 0, 0), 2, 3)),
			attrs: axis(-1)},
		{op: "GatherND", in: list(o.f(2, 3, 2), shaped(ints(0, 1, 1, -1, 0, 1), 3, 2))},
		{op: "GatherND", name: "batch", in: list(o.f(2, 3, 2), shaped(ints(1, 2), 2, 1)),
			attrs: attrs(op.IntAttr("batch_dims", 1))},
		{op: "ScatterElements", in: list(o.f(3, 3), shaped(ints(0, 2, 1, 1), 2, 2), o.f(2, 2))},
		{op: "ScatterElements", name: "add", attrs: attrs(op.IntAttr("axis", 1), add),
			in: list(o.f(3, 3), shaped(ints(0, 0, 1, -1), 2, 2), o.f(2, 2))},
		{op: "Scatter", version: 9, in: list(o.f(3, 3), shaped(ints(0, 2), 1, 2), o.f(1, 2))},
		{op: "ScatterND", in: list(o.f(4, 2), shaped(ints(3, 0), 2, 1), o.f(2, 2))},
		{op: "ScatterND", name: "add", attrs: attrs(add),
			in: list(o.f(4, 2), shaped(ints(3, 3, 0), 3, 1), o.f(3, 2))},
		{op: "Compress", in: list(o.f(4, 2), tensor.From([]bool{true, false, true}, 3)),
			attrs: axis(0)},
		{op: "Compress", name: "flat", in: list(o.f(2, 2), tensor.From([]bool{false, true}, 2))},
		{op: "TopK", in: list(o.f(3, 5), ints(2)), outs: 2},
		{op: "TopK", name: "axis", in: list(o.f(4, 2), ints(2)), outs: 2,
			attrs: attrs(op.IntAttr("axis", 0), op.IntAttr("largest", 0))},
	}
}

func (o operands) reductions() []call {
	var cs []call
	for _, name := range []string{"ReduceSum", "ReduceMean", "ReduceProd", "ReduceMax", "ReduceMin",
		"ReduceL1", "ReduceL2", "ReduceSumSquare", "ReduceLogSum", "ReduceLogSumExp"} {
		x := func() *tensor.Tensor { return o.in(0.5, 2, 2, 3, 2) }
		add := func(kind string, version int, in []*tensor.Tensor, as ...op.Attr) {
			cs = append(cs, call{op: name, name: kind, version: version, in: in, attrs: as})
		}
		keep, drop := op.IntAttr("keepdims", 1), op.IntAttr("keepdims", 0)
		noop := op.IntAttr("noop_with_empty_axes", 1)
		for _, k := range []op.Attr{keep, drop} {
			add("all", 0, list(x()), k)
			add("axes", 0, list(x(), ints(-1, 0)), k)
			add("empty axes", 0, list(x(), ints()), k)
			add("noop", 0, list(x()), k, noop)
			add("noop with axes", 0, list(x(), ints(1)), k, noop)
			add("noop with empty axes", 0, list(x(), ints()), k, noop)
			add("attribute", 11, list(x()), k, op.IntsAttr("axes", 1, -1))
			add("all before axes were operands", 11, list(x()), k)
		}
		add("scalar", 0, list(o.in(1, 2)))
	}
	return append(cs, call{op: "GlobalAveragePool", in: list(o.f(2, 3, 2, 2))},
		call{op: "GlobalMaxPool", in: list(o.f(2, 3, 4))})
}

func (o operands) products() []call {
	var cs []call
	for _, s := range [][2][]int{{{2, 3}, {3, 4}}, {{3}, {3}}, {{3}, {3, 2}}, {{2, 3}, {3}},
		{{4, 2, 3}, {3, 2}}, {{2, 3}, {4, 3, 2}}, {{4, 1, 2, 3}, {5, 3, 2}}, {{3}, {4, 3, 2}},
		{{4, 2, 3}, {3}}, {{1, 2, 3}, {4, 3, 2}}} {
		cs = append(cs, call{op: "MatMul", in: list(o.f(s[0]...), o.f(s[1]...))})
	}
	shape := func(m, n int, turned bool) *tensor.Tensor {
		if turned {
			m, n = n, m
		}
		return o.f(m, n)
	}
	for i, c := range []*tensor.Tensor{nil, o.f(2, 4), o.f(4), o.f(2, 1), o.f(1), o.f(),
		o.f(1, 4)} {
		for k := range 4 {
			ta, tb := k&1, k>>1
			in := list(shape(2, 3, ta == 1), shape(3, 4, tb == 1))
			if i > 0 {
				in = append(in, c)
			}
			cs = append(cs, call{op: "Gemm", in: in, attrs: attrs(op.IntAttr("transA", int64(ta)),
				op.IntAttr("transB", int64(tb)), op.FloatAttr("alpha", 0.7),
				op.FloatAttr("beta", 1.3))})
		}
	}
	return append(cs, call{op: "Gemm", name: "defaults", in: list(o.f(2, 3), o.f(3, 4), o.f(4))})
}

func (o operands) windows() []call {
	is := func(name string, v ...int64) op.Attr { return op.IntsAttr(name, v...) }
	group := func(n int64) op.Attr { return op.IntAttr("group", n) }
	auto := func(s string) op.Attr { return op.StringAttr("auto_pad", s) }
	k := is("kernel_shape", 3, 2)
	ceil, count := op.IntAttr("ceil_mode", 1), op.IntAttr("count_include_pad", 1)
	conv := func(name string, x, w []int, as ...op.Attr) call {
		out := w[0]
		return call{op: "Conv", name: name, in: list(o.f(x...), o.f(w...), o.f(out)), attrs: as}
	}
	turned := func(name string, x, w []int, channels int, as ...op.Attr) call {
		return call{op: "ConvTranspose", name: name,
			in: list(o.f(x...), o.f(w...), o.f(channels)), attrs: as}
	}
	average := func(name string, as ...op.Attr) call {
		return call{op: "AveragePool", name: name, in: list(o.f(2, 2, 6, 5)),
			attrs: append(attrs(k), as...)}
	}
	cs := []call{
		conv("plain", []int{2, 3, 5, 4}, []int{2, 3, 3, 2}),
		conv("strides", []int{1, 2, 6, 7}, []int{2, 2, 3, 2}, is("strides", 2, 3)),
		conv("pads", []int{1, 2, 5, 4}, []int{3, 2, 3, 3}, is("pads", 1, 0, 2, 1)),
		conv("dilations", []int{1, 2, 8, 6}, []int{2, 2, 3, 2}, is("dilations", 2, 3),
			is("strides", 2, 1), is("pads", 1, 2, 0, 1)),
		conv("groups", []int{2, 4, 5, 4}, []int{6, 2, 2, 3}, group(2), is("strides", 2, 1)),
		conv("depthwise", []int{2, 3, 5}, []int{3, 1, 2}, group(3), is("pads", 1, 1)),
		conv("volume", []int{1, 2, 3, 4, 3}, []int{2, 2, 2, 2, 2}, is("strides", 1, 2, 1)),
		{op: "Conv", name: "no bias", in: list(o.f(1, 2, 4), o.f(2, 2, 3))},
		turned("plain", []int{2, 3, 3, 2}, []int{3, 2, 3, 2}, 2),
		turned("strides", []int{1, 2, 3, 2}, []int{2, 2, 3, 2}, 2, is("strides", 2, 3),
			is("output_padding", 1, 2), is("pads", 1, 0, 0, 1)),
		turned("dilations", []int{1, 2, 3, 4}, []int{2, 3, 2, 2}, 3, is("dilations", 2, 3),
			is("output_padding", 1, 1)),
		turned("groups", []int{2, 4, 3}, []int{4, 3, 2}, 6, group(2), is("strides", 2)),
		average("plain"), average("strides", is("strides", 2, 2), is("pads", 1, 0, 1, 1)),
		average("count pads", is("strides", 2, 1), is("pads", 1, 0, 1, 1), count),
		{domain: op.FusedDomain, op: op.ConvWeightsGradient, version: 1, static: true,
			in: list(o.f(2, 2, 6, 5), o.f(2, 4, 2, 3)), attrs: attrs(k, is("strides", 2, 1),
				is("dilations", 1, 2), is("pads", 0, 0, 1, 0), group(2))},
		{op: "AveragePool", name: "dilations", in: list(o.f(1, 1, 7, 6)),
			attrs: attrs(k, is("dilations", 2, 3))},
		{op: "MaxPool", in: list(o.f(2, 2, 6, 5)), attrs: attrs(k)},
		{domain: op.FusedDomain, op: op.MaxPoolGradient, version: 1, static: true,
			in: list(o.f(1, 2, 2, 2), o.f(1, 2, 6, 5)), attrs: attrs(k, is("strides", 2, 2))},
		{op: "MaxPool", name: "strides", in: list(o.f(2, 2, 6, 5)),
			attrs: attrs(k, is("strides", 2, 2), is("pads", 1, 0, 1, 1), ceil)},
		{op: "MaxPool", name: "indices", in: list(o.f(1, 2, 7)), outs: 2,
			attrs: attrs(is("kernel_shape", 3), is("dilations", 2))},
	}
	sized := []call{
		conv("same upper", []int{1, 2, 5, 4}, []int{2, 2, 3, 2}, auto("SAME_UPPER"),
			is("strides", 2, 1)),
		conv("same lower", []int{1, 2, 5, 4}, []int{2, 2, 2, 2}, auto("SAME_LOWER")),
		conv("valid", []int{1, 2, 5, 4}, []int{2, 2, 2, 2}, auto("VALID")),
		turned("same", []int{1, 2, 3, 2}, []int{2, 2, 3, 2}, 2, is("strides", 2, 2),
			auto("SAME_UPPER")),
		turned("shape", []int{1, 2, 3}, []int{2, 2, 3}, 2, is("strides", 2), is("output_shape", 6)),
		average("ceil", is("strides", 2, 2), ceil),
		average("ceil and count", is("strides", 2, 2), is("pads", 1, 1, 1, 1), ceil, count),
		average("same", auto("SAME_LOWER"), is("strides", 2, 2)),
	}
	for i := range sized {
		sized[i].static = true
	}
	cs = append(cs, sized...)
	for i := range cs {
		// weights' sizes are never symbols in models; here they would be
		cs[i].static = cs[i].static || cs[i].op == "Conv" || cs[i].op == "ConvTranspose"
	}
	return cs
}

func (o operands) norms() []call {
	axis := func(a int64) op.Attr { return op.IntAttr("axis", a) }
	epsilon := op.FloatAttr("epsilon", 0.1)
	batch := func(shape ...int) []*tensor.Tensor {
		c := 1
		if len(shape) > 1 {
			c = shape[1]
		}
		return list(o.f(shape...), o.f(c), o.f(c), o.f(c), o.in(0.5, 2, c))
	}
	training := op.IntAttr("training_mode", 1)
	return []call{
		{op: "LayerNormalization", in: list(o.f(2, 3, 4), o.f(4), o.f(4)), outs: 3,
			attrs: attrs(op.IntAttr("stash_type", int64(tensor.Float64)))},
		{op: "LayerNormalization", name: "axis", in: list(o.f(2, 3, 4), o.f(3, 4)),
			attrs: attrs(axis(1), epsilon)},
		{op: "LayerNormalization", name: "whole", in: list(o.f(2, 3, 4), o.f(3, 4), o.f(3, 4)),
			attrs: attrs(axis(1), epsilon, op.IntAttr("stash_type", int64(tensor.Float64)))},
		{op: "LayerNormalization", name: "last", in: list(o.f(2, 3, 4), o.f(4)),
			attrs: attrs(epsilon, op.IntAttr("stash_type", int64(tensor.Float64)))},
		{op: "LayerNormalization", name: "broadcast", in: list(o.f(2, 3, 4), o.f(1), o.f(4)),
			attrs: attrs(epsilon, op.IntAttr("stash_type", int64(tensor.Float64)))},
		{domain: op.FusedDomain, op: op.LayerNormGradient, version: 1, outs: 3,
			in:    list(o.f(2, 3, 4), o.f(2, 3, 4), o.f(3, 4), o.f(2, 1, 1), o.f(2, 1, 1)),
			attrs: attrs(axis(1))},
		{domain: op.FusedDomain, op: op.SoftmaxGradient, version: 1,
			in: list(o.f(2, 3, 4), o.f(2, 3, 4)), attrs: attrs(axis(-2))},
		{op: "LRN", in: list(o.f(2, 5, 3)), static: true, attrs: attrs(op.IntAttr("size", 3),
			op.FloatAttr("alpha", 0.9))},
		{op: "LRN", name: "even", in: list(o.f(1, 3, 2)), static: true,
			attrs: attrs(op.IntAttr("size", 4), op.FloatAttr("beta", 1.5),
				op.FloatAttr("bias", 2))},
		{op: "RMSNormalization", in: list(o.f(2, 3, 4), o.f(4)), attrs: attrs(epsilon)},
		{op: "RMSNormalization", name: "axis", in: list(o.f(2, 3, 4), o.f(3, 4)),
			attrs: attrs(axis(-2))},
		{op: "InstanceNormalization", in: list(o.f(2, 3, 4), o.f(3), o.f(3)),
			attrs: attrs(epsilon)},
		{op: "GroupNormalization", in: list(o.f(2, 4, 3), o.f(4), o.f(4)),
			attrs: attrs(op.IntAttr("num_groups", 2))},
		{op: "GroupNormalization", name: "by group", version: 18,
			in: list(o.f(2, 4, 3), o.f(2), o.f(2)), attrs: attrs(op.IntAttr("num_groups", 2))},
		{op: "MeanVarianceNormalization", in: list(o.f(2, 3, 2, 2))},
		{op: "MeanVarianceNormalization", name: "axes", in: list(o.f(4, 3)),
			attrs: attrs(op.IntsAttr("axes", -2))},
		{op: "LpNormalization", in: list(o.f(3, 4))},
		{op: "LpNormalization", name: "p", in: list(o.f(3, 4)),
			attrs: attrs(op.IntAttr("p", 1), axis(0))},
		{op: "BatchNormalization", in: batch(2, 3, 4)},
		{op: "BatchNormalization", name: "matrix", in: batch(4, 3), attrs: attrs(epsilon)},
		{op: "BatchNormalization", name: "vector", in: batch(4)},
		{op: "BatchNormalization", name: "training", in: batch(3, 2, 4), outs: 3,
			attrs: attrs(training, op.FloatAttr("momentum", 0.7))},
		{domain: op.FusedDomain, op: "BatchNormalization", version: 1, in: batch(3, 2, 4),
			attrs: attrs(epsilon), first: true, single: true},
		{domain: op.FusedDomain, op: "BatchNormalization", name: "Relu", version: 1, first: true,
			single: true, in: batch(3, 2, 2, 2), attrs: attrs(op.StringAttr("activation", "Relu"))},
		{domain: op.FusedDomain, op: "BatchNormalization", name: "Clip", version: 1, first: true,
			single: true, in: batch(4, 3), attrs: attrs(op.StringAttr("activation", "Clip"),
				op.FloatAttr("activation_alpha", -0.5), op.FloatAttr("activation_beta", 1.5))},
		{op: "BatchNormalization", name: "training before 14", version: 9, in: batch(3, 2, 4),
			outs: 5},
		{op: "BatchNormalization", name: "places", version: 7, static: true,
			in:    list(o.f(4, 2, 2), o.f(2, 2), o.f(2, 2), o.f(2, 2), o.in(0.5, 2, 2, 2)),
			attrs: attrs(op.IntAttr("spatial", 0))},
	}
}

func (o operands) losses() []call {
	labels := func() *tensor.Tensor { return shaped(ints(0, 2, 1, 1, 2, 0), 2, 3) }
	how := func(s string) op.Attr { return op.StringAttr("reduction", s) }
	ignore := op.IntAttr("ignore_index", 1)
	var cs []call
	for _, mode := range []string{"none", "sum", "mean"} {
		for _, name := range []string{"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"} {
			cs = append(cs,
				call{op: name, name: mode, in: list(o.f(2, 3, 3), labels()),
					attrs: attrs(how(mode))},
				call{op: name, name: mode + " weights", attrs: attrs(how(mode)),
					in: list(o.f(2, 3, 3), labels(), o.in(0.5, 2, 3))},
				call{op: name, name: mode + " ignored", attrs: attrs(how(mode), ignore),
					in: list(o.f(2, 3, 3), labels(), o.in(0.5, 2, 3))})
		}
	}
	yes := shaped(tensor.From([]bool{true}, 1))
	return append(cs,
		call{op: "SoftmaxCrossEntropyLoss", name: "logs", in: list(o.f(2, 3, 3), labels()),
			outs: 2},
		call{op: "Dropout", in: list(o.f(3, 4))},
		call{op: "Dropout", name: "training", in: list(o.f(5, 4), o.in(0.3, 0.31), yes),
			held: []int{1}, attrs: attrs(op.IntAttr("seed", 5))},
		call{op: "Dropout", name: "mask", in: list(o.f(5, 4), nil, yes), outs: 2,
			attrs: attrs(op.IntAttr("seed", 5))},
		call{op: "Dropout", name: "not training", outs: 2, held: []int{1},
			in: list(o.f(5), o.in(0.3, 0.31), shaped(tensor.From([]bool{false}, 1)))})
}

// compositions are some operators of ONNX Runtime's domain, which are differentiated through what
// they are made of.
func (o operands) compositions() []call {
	ms := func(name string, outs int, as op.Attrs, in ...*tensor.Tensor) call {
		return call{domain: microsoft.Domain, op: name, version: 1, in: in, outs: outs, attrs: as}
	}
	return []call{
		ms("BiasGelu", 1, nil, o.f(2, 3), o.f(3)),
		ms("FastGelu", 1, nil, o.f(2, 3), o.f(3)),
		ms("QuickGelu", 1, nil, o.f(2, 3)),
		ms("SkipLayerNormalization", 1, nil, o.f(1, 2, 4), o.f(1, 2, 4), o.f(4), o.f(4)),
		ms("FusedMatMul", 1, attrs(op.IntAttr("transA", 1), op.FloatAttr("alpha", 0.5)), o.f(3, 2),
			o.f(3, 4)),
	}
}
