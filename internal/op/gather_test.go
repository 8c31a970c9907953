package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestGather(t *testing.T) {
	x := seq(3, 2)
	axis := func(a int64) Attrs { return Attrs{IntAttr("axis", a)} }
	grid := func(shape []int, v ...int64) *tensor.Tensor { return tensor.From(v, shape...) }
	runCases(t, []evalCase{
		{op: "Gather", in: list(x, i64(2, 0)), want: list(f32([]int{2, 2}, 4, 5, 0, 1))},
		{op: "Gather", name: "axis 1", attrs: axis(1), in: list(x, grid([]int{1, 2}, 1, -1)),
			want: list(f32([]int{3, 1, 2}, 1, 1, 3, 3, 5, 5))},
		{op: "Gather", name: "scalar index", in: list(x, tensor.Scalar[int32](1)),
			want: list(f32([]int{2}, 2, 3))},
		{op: "Gather", name: "strings",
			in:   list(tensor.FromStrings(list("a", "b"), 2), i64(1, 1, 0)),
			want: list(tensor.FromStrings(list("b", "b", "a"), 3))},
		{op: "Gather", name: "of sizes", in: list(i64(5, 6, 7), i64(-1)), want: list(i64(7))},
		{op: "Gather", name: "nothing", in: list(x, i64()), want: list(seq(0, 2))},
		{op: "Gather", name: "too large", in: list(x, i64(3)), err: ErrInput},
		{op: "Gather", name: "too small", in: list(x, i64(-4)), err: ErrInput},
		{op: "Gather", name: "float indices", in: list(x, f32([]int{1}, 1)), err: ErrInput},
		{op: "Gather", name: "axis", attrs: axis(2), in: list(x, i64(0)), err: ErrAttr},

		{op: "GatherElements", attrs: axis(1), in: list(x, grid([]int{3, 1}, 1, 0, -1)),
			want: list(f32([]int{3, 1}, 1, 2, 5))},
		{op: "GatherElements", name: "axis 0", in: list(x, grid([]int{2, 2}, 1, 2, 0, -3)),
			want: list(f32([]int{2, 2}, 2, 5, 0, 1))},
		{op: "GatherElements", name: "longer", attrs: axis(0),
			in: list(x, grid([]int{1, 3}, 0, 0, 0)), err: ErrInput},
		{op: "GatherElements", name: "rank", in: list(x, i64(0)), err: ErrInput},

		{op: "GatherND", in: list(x, grid([]int{2, 2}, 0, 1, 2, -2)),
			want: list(f32([]int{2}, 1, 4))},
		{op: "GatherND", name: "slices", in: list(x, grid([]int{2, 1, 1}, 1, 0)),
			want: list(f32([]int{2, 1, 2}, 2, 3, 0, 1))},
		{op: "GatherND", name: "batch", attrs: Attrs{IntAttr("batch_dims", 1)},
			in:   list(seq(2, 2, 2), grid([]int{2, 1}, 1, 0)),
			want: list(f32([]int{2, 2}, 2, 3, 4, 5))},
		{op: "GatherND", name: "outside", in: list(x, grid([]int{1, 2}, 3, 0)), err: ErrInput},
		{op: "GatherND", name: "deep", in: list(x, grid([]int{1, 3}, 0, 0, 0)), err: ErrInput},
		{op: "GatherND", name: "batch dims", attrs: Attrs{IntAttr("batch_dims", 2)},
			in: list(x, grid([]int{1, 2}, 0, 0)), err: ErrAttr},
	})
}

func TestScatter(t *testing.T) {
	x := seq(3, 2)
	axis := func(a int64) Attrs { return Attrs{IntAttr("axis", a)} }
	how := func(s string) Attrs { return Attrs{StringAttr("reduction", s)} }
	grid := func(shape []int, v ...int64) *tensor.Tensor { return tensor.From(v, shape...) }
	at, up := grid([]int{1, 2}, 2, 0), f32([]int{1, 2}, 10, 20)
	twice, ups := i64(1, 1), f32([]int{2}, 2, 3)
	line := f32([]int{3}, 1, 2, 4)
	h := func(v float32) tensor.Half { return tensor.HalfOf(v) }
	runCases(t, []evalCase{
		{op: "ScatterElements", in: list(x, at, up),
			want: list(f32([]int{3, 2}, 0, 20, 2, 3, 10, 5))},
		{op: "ScatterElements", name: "axis 1", attrs: axis(1),
			in:   list(x, grid([]int{1, 2}, 1, -2), up),
			want: list(f32([]int{3, 2}, 20, 10, 2, 3, 4, 5))},
		{op: "ScatterElements", name: "add", attrs: how("add"), in: list(line, twice, ups),
			want: list(f32([]int{3}, 1, 7, 4))},
		{op: "ScatterElements", name: "mul", attrs: how("mul"), in: list(line, twice, ups),
			want: list(f32([]int{3}, 1, 12, 4))},
		{op: "ScatterElements", name: "max", attrs: how("max"), in: list(line, twice, ups),
			want: list(f32([]int{3}, 1, 3, 4))},
		{op: "ScatterElements", name: "min", attrs: how("min"),
			in: list(i64(1, 2, 4), twice, i64(5, -6)), want: list(i64(1, -6, 4))},
		{op: "ScatterElements", name: "add float16", attrs: how("add"),
			in:   list(tensor.From(list(h(1), h(2)), 2), i64(1), tensor.From(list(h(0.5)), 1)),
			want: list(tensor.From(list(h(1), h(2.5)), 2))},
		{op: "ScatterElements", name: "strings",
			in: list(tensor.FromStrings(list("a", "b"), 2), i64(0),
				tensor.FromStrings(list("c"), 1)),
			want: list(tensor.FromStrings(list("c", "b"), 2))},
		{op: "ScatterElements", name: "add bools", attrs: how("add"),
			in:  list(tensor.From(list(true), 1), i64(0), tensor.From(list(true), 1)),
			err: ErrUnsupported},
		{op: "ScatterElements", name: "unknown reduction", attrs: how("mean"),
			in: list(line, twice, ups), err: ErrAttr},
		{op: "ScatterElements", name: "shapes", in: list(line, twice, seq(3)), err: ErrInput},
		{op: "ScatterElements", name: "types", in: list(line, twice, i64(1, 2)), err: ErrInput},
		{op: "ScatterElements", name: "outside", in: list(line, i64(3, 0), ups), err: ErrInput},
		{op: "Scatter", version: 9, in: list(x, at, up),
			want: list(f32([]int{3, 2}, 0, 20, 2, 3, 10, 5))},

		{op: "ScatterND", in: list(x, grid([]int{1, 1}, 1), f32([]int{1, 2}, 8, 9)),
			want: list(f32([]int{3, 2}, 0, 1, 8, 9, 4, 5))},
		{op: "ScatterND", name: "elements",
			in:   list(x, grid([]int{2, 2}, 0, 1, -1, 0), f32([]int{2}, 8, 9)),
			want: list(f32([]int{3, 2}, 0, 8, 2, 3, 9, 5))},
		{op: "ScatterND", name: "add", attrs: how("add"),
			in: list(line, grid([]int{2, 1}, 0, 0), ups), want: list(f32([]int{3}, 6, 2, 4))},
		{op: "ScatterND", name: "nothing", in: list(x, grid([]int{0, 1}), seq(0, 2)),
			want: list(x)},
		{op: "ScatterND", name: "updates", in: list(x, grid([]int{1, 1}, 1), seq(1, 3)),
			err: ErrInput},
		{op: "ScatterND", name: "deep", in: list(line, grid([]int{1, 2}, 0, 0), seq(1)),
			err: ErrInput},
	})
}

// Scattering what was gathered from the same places changes nothing.
func TestScatterOfGather(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 8))
	for range 100 {
		x := randomTensor(rng, 1+rng.IntN(3))
		axis := rng.IntN(x.Rank())
		at := make([]int64, x.Len())
		for i := range at {
			n := int64(x.Shape[axis])
			at[i] = rng.Int64N(2*n) - n
		}
		attrs, indices := Attrs{IntAttr("axis", int64(axis))}, tensor.From(at, x.Shape...)
		same(t, "ScatterElements", x,
			eval1(t, "ScatterElements", attrs, x, indices,
				eval1(t, "GatherElements", attrs, x, indices)))
	}
}

func TestSelect(t *testing.T) {
	yes, no := true, false
	cond := tensor.From(list(yes, no, no, yes), 2, 2)
	b := func(v ...bool) *tensor.Tensor { return tensor.From(v, len(v)) }
	axis := func(a int64) Attrs { return Attrs{IntAttr("axis", a)} }
	x := seq(3, 2)
	runCases(t, []evalCase{
		{op: "Where", in: list(cond, f32([]int{2}, 1, 2), f32(nil, 9)),
			want: list(f32([]int{2, 2}, 1, 9, 9, 2))},
		{op: "Where", name: "scalar condition", in: list(tensor.Scalar(no), i64(1, 2), i64(3)),
			want: list(i64(3, 3))},
		{op: "Where", name: "strings",
			in: list(b(yes, no), tensor.FromStrings(list("a"), 1),
				tensor.FromStrings(list("b"), 1)),
			want: list(tensor.FromStrings(list("a", "b"), 2))},
		{op: "Where", name: "types", in: list(cond, i64(1), f32(nil, 1)), err: ErrInput},
		{op: "Where", name: "no bool", in: list(i64(1), i64(1), i64(1)), err: ErrInput},
		{op: "Where", name: "shapes", in: list(cond, i64(1, 2, 3), i64(1)), err: ErrInput},

		{op: "Compress", attrs: axis(0), in: list(x, b(no, yes, yes)),
			want: list(f32([]int{2, 2}, 2, 3, 4, 5))},
		{op: "Compress", name: "axis 1", attrs: axis(-1), in: list(x, b(no, yes)),
			want: list(f32([]int{3, 1}, 1, 3, 5))},
		{op: "Compress", name: "short", attrs: axis(0), in: list(x, b(yes)),
			want: list(f32([]int{1, 2}, 0, 1))},
		{op: "Compress", name: "flat", in: list(x, b(no, yes, no, no, yes)),
			want: list(f32([]int{2}, 1, 4))},
		{op: "Compress", name: "long", attrs: axis(1), in: list(x, b(no, yes, yes)), err: ErrInput},

		{op: "NonZero", in: list(f32([]int{2, 2}, 1, 0, -2, 3)),
			want: list(tensor.From(list[int64](0, 1, 1, 0, 0, 1), 2, 3))},
		{op: "NonZero", name: "bools", in: list(b(no, yes)),
			want: list(tensor.From(list[int64](1), 1, 1))},
		{op: "NonZero", name: "scalar", in: list(f32(nil, 1)),
			want: list(tensor.From([]int64{}, 0, 1))},
		{op: "NonZero", name: "NaN", in: list(f32([]int{2}, 0, float32(math.NaN()))),
			want: list(tensor.From(list[int64](1), 1, 1))},

		{op: "Unique", in: list(f32([]int{6}, 2, 1, 1, 3, 4, 3)),
			want: list(f32([]int{4}, 1, 2, 3, 4), i64(1, 0, 3, 4), i64(1, 0, 0, 2, 3, 2),
				i64(2, 1, 2, 1))},
		{op: "Unique", name: "unsorted", attrs: Attrs{IntAttr("sorted", 0)},
			in:   list(i64(2, 1, 1, 3)),
			want: list(i64(2, 1, 3), i64(0, 1, 3), i64(0, 1, 1, 2), i64(1, 2, 1))},
		{op: "Unique", name: "rows", attrs: axis(0), in: list(f32([]int{3, 2}, 1, 0, 1, 0, 0, 5)),
			want: list(f32([]int{2, 2}, 0, 5, 1, 0), i64(2, 0), i64(1, 1, 0), i64(1, 2))},
		{op: "Unique", name: "strings", in: list(tensor.FromStrings(list("b", "a", "b"), 3)),
			want: list(tensor.FromStrings(list("a", "b"), 2))},
		{op: "Unique", name: "nothing", in: list(i64()), want: list(i64(), i64(), i64(), i64())},
	})
}

func TestOneHot(t *testing.T) {
	depth, values := tensor.Scalar[int64](3), f32([]int{2}, 0, 1)
	runCases(t, []evalCase{
		{op: "OneHot", in: list(i64(0, -1, 5), depth, values),
			want: list(f32([]int{3, 3}, 1, 0, 0, 0, 0, 1, 0, 0, 0))},
		{op: "OneHot", name: "axis 0", attrs: Attrs{IntAttr("axis", 0)},
			in: list(i64(0, 2), depth, values), want: list(f32([]int{3, 2}, 1, 0, 0, 0, 0, 1))},
		{op: "OneHot", name: "float indices",
			in:   list(f32([]int{1}, 1), f32([]int{1}, 2), i64(7, 9)),
			want: list(tensor.From(list[int64](7, 9), 1, 2))},
		{op: "OneHot", name: "middle", attrs: Attrs{IntAttr("axis", 1)},
			in:   list(tensor.From(list[int64](0, 1, 1, 0), 2, 2), tensor.Scalar[int64](2), values),
			want: list(f32([]int{2, 2, 2}, 1, 0, 0, 1, 0, 1, 1, 0))},
		{op: "OneHot", name: "values", in: list(i64(0), depth, seq(3)), err: ErrInput},
		{op: "OneHot", name: "negative depth", in: list(i64(0), tensor.Scalar[int64](-1), values),
			err: ErrInput},
		{op: "OneHot", name: "absurd depth", in: list(i64(0), tensor.Scalar[int64](1<<60), values),
			err: tensor.ErrShape},
	})
}

func TestSources(t *testing.T) {
	value := func(v *tensor.Tensor) Attrs { return Attrs{TensorAttr("value", v)} }
	s, f := tensor.Scalar[int64], tensor.Scalar[float32]
	inf := float32(math.Inf(1))
	runCases(t, []evalCase{
		{op: "Constant", attrs: value(i64(1, 2)), want: list(i64(1, 2))},
		{op: "Constant", name: "float", attrs: Attrs{FloatAttr("value_float", 2)},
			want: list(f(2))},
		{op: "Constant", name: "floats", attrs: Attrs{FloatsAttr("value_floats", 2)},
			want: list(f32([]int{1}, 2))},
		{op: "Constant", name: "int", attrs: Attrs{IntAttr("value_int", 2)}, want: list(s(2))},
		{op: "Constant", name: "ints", attrs: Attrs{IntsAttr("value_ints", 2, 3)},
			want: list(i64(2, 3))},
		{op: "Constant", name: "string", attrs: Attrs{StringAttr("value_string", "a")},
			want: list(tensor.FromStrings(list("a")))},
		{op: "Constant", name: "strings", attrs: Attrs{StringsAttr("value_strings", "a")},
			want: list(tensor.FromStrings(list("a"), 1))},
		{op: "Constant", name: "none", err: ErrAttr},
		{op: "Constant", name: "sparse", attrs: Attrs{{Name: "sparse_value"}}, err: ErrUnsupported},
		{op: "ConstantOfShape", in: list(i64(2, 1)), want: list(f32([]int{2, 1}, 0, 0))},
		{op: "ConstantOfShape", name: "value", attrs: value(i64(7)), in: list(i64(3)),
			want: list(i64(7, 7, 7))},
		{op: "ConstantOfShape", name: "scalar", attrs: value(i64(7)), in: list(i64()),
			want: list(s(7))},
		{op: "ConstantOfShape", name: "empty", in: list(i64(0, 1<<60)), want: list(seq(0, 1<<60))},
		{op: "ConstantOfShape", name: "absurd", in: list(i64(1<<60, 1<<60)), err: tensor.ErrShape},
		{op: "ConstantOfShape", name: "too large", in: list(i64(1 << 40)), err: tensor.ErrShape},
		{op: "ConstantOfShape", name: "negative", in: list(i64(-1)), err: ErrInput},
		{op: "ConstantOfShape", name: "two values", attrs: value(i64(1, 2)), in: list(i64(1)),
			err: ErrAttr},
		{op: "EyeLike", in: list(seq(2, 3)), want: list(f32([]int{2, 3}, 1, 0, 0, 0, 1, 0))},
		{op: "EyeLike", name: "above", attrs: Attrs{IntAttr("k", 1), IntAttr("dtype", 7)},
			in: list(seq(2, 2)), want: list(tensor.From(list[int64](0, 1, 0, 0), 2, 2))},
		{op: "EyeLike", name: "below", attrs: Attrs{IntAttr("k", -1), IntAttr("dtype", 9)},
			in: list(seq(2, 2)), want: list(tensor.From(list(false, false, true, false), 2, 2))},
		{op: "EyeLike", name: "far", attrs: Attrs{IntAttr("k", math.MaxInt64)}, in: list(seq(1, 1)),
			want: list(seq(1, 1))},
		{op: "Range", in: list(s(3), s(9), s(3)), want: list(i64(3, 6))},
		{op: "Range", name: "down", in: list(f(10), f(4), f(-2)),
			want: list(f32([]int{3}, 10, 8, 6))},
		{op: "Range", name: "empty", in: list(s(3), s(3), s(1)), want: list(i64())},
		{op: "Range", name: "wrong way", in: list(s(3), s(9), s(-1)), want: list(i64())},
		{op: "Range", name: "delta 0", in: list(s(3), s(9), s(0)), err: ErrInput},
		{op: "Range", name: "endless", in: list(f(0), f(inf), f(1)), err: tensor.ErrShape},
		{op: "Range", name: "absurd", in: list(s(math.MinInt64), s(math.MaxInt64), s(1)),
			err: tensor.ErrShape},
		{op: "Range", name: "types", in: list(s(0), f(1), s(1)), err: ErrInput},
	})
}

// torch.arange(x.shape[1]) and the expansion of -1 as PyTorch writes it, with symbols.
func TestSourceChains(t *testing.T) {
	c := newChain(t, map[string]Type{"x": Ranked(tensor.Float32, Sym("N"), Sym("S"))})
	c.constant("0", tensor.Scalar[int64](0)).constant("1", tensor.Scalar[int64](1)).
		constant("2", tensor.Scalar[int64](2))
	c.step("shape", "Shape", nil, "x").step("S", "Gather", nil, "shape", "1")
	c.step("positions", "Range", nil, "0", "S", "1").want("positions", "int64[S]")
	c.step("even", "Range", nil, "0", "S", "2").want("even", "int64[ceil((S)/2)]")
	c.step("ones", "ConstantOfShape", Attrs{TensorAttr("value", i64(1))}, "shape").
		want("ones", "int64[N,S]")
	c.step("size", "Size", nil, "x").wantElems("size", Sym("N").Mul(Sym("S")))

	c.constant("keep", tensor.From(list(true, false), 2)).constant("32", i64(32))
	c.step("where", "Where", nil, "keep", "shape", "32").wantElems("where", Sym("N"), Known(32))
	c.constant("column", mustTensor(tensor.New(tensor.Float32, 1))).
		step("wide", "Expand", nil, "column", "where").want("wide", "float32[N,32]")
	c.step("tiled", "Tile", nil, "x", "where").want("tiled", "float32[N·N,32·S]")
}
