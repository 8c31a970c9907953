package op

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestTransposeConcatSplit(t *testing.T) {
	x := seq(2, 3)
	axis := func(a int64) Attrs { return Attrs{IntAttr("axis", a)} }
	runCases(t, []evalCase{
		{op: "Transpose", in: list(x), want: list(f32([]int{3, 2}, 0, 3, 1, 4, 2, 5))},
		{op: "Transpose", name: "perm", attrs: Attrs{IntsAttr("perm", 1, 2, 0)},
			in:   list(seq(2, 1, 3)),
			want: list(f32([]int{1, 3, 2}, 0, 3, 1, 4, 2, 5))},
		{op: "Transpose", name: "scalar", in: list(f32(nil, 5)), want: list(f32(nil, 5))},
		{op: "Transpose", name: "strings",
			in:   list(tensor.FromStrings(list("a", "b", "c", "d"), 2, 2)),
			want: list(tensor.FromStrings(list("a", "c", "b", "d"), 2, 2))},
		{op: "Transpose", name: "short perm", attrs: Attrs{IntsAttr("perm", 0)}, in: list(x),
			err: ErrAttr},
		{op: "Transpose", name: "perm twice", attrs: Attrs{IntsAttr("perm", 0, 0)}, in: list(x),
			err: ErrAttr},

		{op: "Concat", attrs: axis(0), in: list(x, f32([]int{1, 3}, 7, 8, 9)),
			want: list(f32([]int{3, 3}, 0, 1, 2, 3, 4, 5, 7, 8, 9))},
		{op: "Concat", name: "-1", attrs: axis(-1), in: list(x, f32([]int{2, 1}, 7, 8)),
			want: list(f32([]int{2, 4}, 0, 1, 2, 7, 3, 4, 5, 8))},
		{op: "Concat", name: "empty part", attrs: axis(1), in: list(seq(2, 0), x), want: list(x)},
		{op: "Concat", name: "alone", attrs: axis(1), in: list(x), want: list(x)},
		{op: "Concat", name: "types", attrs: axis(0), in: list(x, i64(1)), err: ErrInput},
		{op: "Concat", name: "shapes", attrs: axis(0), in: list(x, seq(2, 2)), err: ErrInput},
		{op: "Concat", name: "no axis", in: list(x), err: ErrAttr},

		{op: "Split", attrs: axis(1), in: list(seq(1, 4)),
			want: list(f32([]int{1, 2}, 0, 1), f32([]int{1, 2}, 2, 3))},
		{op: "Split", name: "sizes", attrs: axis(0), in: list(seq(3), i64(1, 2)),
			want: list(f32([]int{1}, 0), f32([]int{2}, 1, 2))},
		{op: "Split", name: "attribute", version: 11, attrs: Attrs{IntsAttr("split", 2, 1)},
			in:   list(seq(3)),
			want: list(f32([]int{2}, 0, 1), f32([]int{1}, 2))},
		{op: "Split", name: "uneven", attrs: Attrs{IntAttr("num_outputs", 2)}, in: list(seq(3)),
			want: list(f32([]int{2}, 0, 1), f32([]int{1}, 2))},
		{op: "Split", name: "more parts than elements", attrs: Attrs{IntAttr("num_outputs", 4)},
			in:   list(seq(2)),
			want: list(f32([]int{1}, 0), f32([]int{1}, 1), seq(0), seq(0))},
		{op: "Split", name: "uneven before 18", version: 13, in: list(seq(3)),
			want: make([]*tensor.Tensor, 2), err: ErrInput},
		{op: "Split", name: "wrong sum", in: list(seq(3), i64(1, 1)),
			want: make([]*tensor.Tensor, 2), err: ErrInput},
		{op: "Split", name: "negative", in: list(seq(3), i64(4, -1)),
			want: make([]*tensor.Tensor, 2), err: ErrInput},
		{op: "Split", name: "outputs", attrs: Attrs{IntAttr("num_outputs", 3)}, in: list(seq(3)),
			want: make([]*tensor.Tensor, 2), err: ErrAttr},
	})
}

func TestSlice(t *testing.T) {
	x := seq(2, 4)
	end := int64(math.MaxInt64)
	runCases(t, []evalCase{
		{op: "Slice", in: list(x, i64(0, 1), i64(1, 3)), want: list(f32([]int{1, 2}, 1, 2))},
		{op: "Slice", name: "axes and steps", in: list(x, i64(1), i64(end), i64(-1), i64(2)),
			want: list(f32([]int{2, 2}, 1, 3, 5, 7))},
		{op: "Slice", name: "int32",
			in: list(x, tensor.From(list[int32](1), 1), tensor.From(list[int32](3), 1),
				tensor.From(list[int32](1), 1)),
			want: list(f32([]int{2, 2}, 1, 2, 5, 6))},
		{op: "Slice", name: "last", in: list(x, i64(-1), i64(end), i64(1)),
			want: list(f32([]int{2, 1}, 3, 7))},
		{op: "Slice", name: "backwards",
			in:   list(x, i64(-1), i64(math.MinInt64+1), i64(1), i64(-1)),
			want: list(f32([]int{2, 4}, 3, 2, 1, 0, 7, 6, 5, 4))},
		{op: "Slice", name: "backwards by 2", in: list(seq(5), i64(3), i64(-6), i64(0), i64(-2)),
			want: list(f32([]int{2}, 3, 1))},
		{op: "Slice", name: "backwards to before the end",
			in: list(seq(5), i64(10), i64(2), i64(0), i64(-1)), want: list(f32([]int{2}, 4, 3))},
		{op: "Slice", name: "least step",
			in:   list(seq(5), i64(4), i64(math.MinInt64), i64(0), i64(math.MinInt64)),
			want: list(f32([]int{1}, 4))},
		{op: "Slice", name: "largest step", in: list(seq(5), i64(1), i64(end), i64(0), i64(end)),
			want: list(f32([]int{1}, 1))},
		{op: "Slice", name: "empty", in: list(seq(5), i64(3), i64(3)), want: list(seq(0))},
		{op: "Slice", name: "beyond", in: list(seq(5), i64(7), i64(9)), want: list(seq(0))},
		{op: "Slice", name: "far before", in: list(seq(5), i64(-9), i64(2)), want: list(seq(2))},
		{op: "Slice", name: "attributes", version: 9,
			attrs: Attrs{IntsAttr("starts", 1), IntsAttr("ends", end), IntsAttr("axes", 1)},
			in:    list(x), want: list(f32([]int{2, 3}, 1, 2, 3, 5, 6, 7))},
		{op: "Slice", name: "attributes without axes", version: 9,
			attrs: Attrs{IntsAttr("starts", 0, -2), IntsAttr("ends", 1, -1)},
			in:    list(x), want: list(f32([]int{1, 1}, 2))},
		{op: "Slice", name: "bools",
			in:   list(tensor.From(list(true, false, true), 3), i64(1), i64(3)),
			want: list(tensor.From(list(false, true), 2))},
		{op: "Slice", name: "strings",
			in: list(tensor.FromStrings(list("a", "b", "c"), 3), i64(2), i64(-4), i64(0),
				i64(-1)),
			want: list(tensor.FromStrings(list("c", "b", "a"), 3))},
		{op: "Slice", name: "step 0", in: list(x, i64(0), i64(1), i64(0), i64(0)), err: ErrInput},
		{op: "Slice", name: "lengths", in: list(x, i64(0), i64(1, 2)), err: ErrInput},
		{op: "Slice", name: "axis", in: list(x, i64(0), i64(1), i64(2)), err: ErrAttr},
		{op: "Slice", name: "axis twice", in: list(x, i64(0, 0), i64(1, 1), i64(1, -1)),
			err: ErrAttr},
		{op: "Slice", name: "no ends", in: list(x, i64(0), nil), err: ErrInput},
	})
}

func TestSliceOfSymbols(t *testing.T) {
	n, end := Sym("N"), int64(math.MaxInt64)
	tests := []struct {
		d                Dim
		start, end, step int64
		want             string
	}{
		{n, 0, end, 1, "float32[N]"},
		{n, 1, end, 1, "float32[max(N - 1, 0)]"}, // nothing is left of an empty axis
		{n, 1, math.MaxInt32, 1, "float32[max(N - 1, 0)]"},
		{n, 0, -1, 1, "float32[max(N - 1, 0)]"},
		{n, 1, -1, 1, "float32[max(N - 2, 0)]"},
		{n, -1, end, 1, "float32[min(N, 1)]"},
		{n.AddInt(2), 1, end, 1, "float32[N + 1]"},
		{n.AddInt(2), 1, -1, 1, "float32[N]"},
		{n.AddInt(2), -2, end, 1, "float32[2]"},
		{n.AddInt(2), 0, 2, 1, "float32[2]"},
		{n, 0, 5, 1, "float32[min(N, 5)]"},
		{n.MulInt(2), 0, end, 2, "float32[N]"},
		{n, 0, end, 2, "float32[ceil((N)/2)]"},
		{n, -1, math.MinInt64 + 1, -1, "float32[N]"},
		{n, end, math.MinInt64, -1, "float32[N]"},
		{Known(9), -3, end, 2, "float32[2]"},
		{Unknown(), 0, 5, 1, "float32[?]"},
	}
	for _, tt := range tests {
		newChain(t, map[string]Type{"x": Ranked(tensor.Float32, tt.d)}).
			constant("s", i64(tt.start)).constant("e", i64(tt.end)).
			constant("a", i64(0)).constant("step", i64(tt.step)).
			step("y", "Slice", nil, "x", "s", "e", "a", "step").want("y", tt.want)
	}
	// The position embedding of MiniLM: a table of 512 rows is cut to the length of the sequence.
	c := newChain(t, map[string]Type{"x": Ranked(tensor.Int64, Sym("N"), Sym("S"))}).
		constant("table", mustTensor(tensor.New(tensor.Int64, 1, 512)))
	c.constant("0", i64(0)).constant("1", i64(1)).step("shape", "Shape", nil, "x").
		step("S", "Gather", nil, "shape", "1")
	c.step("y", "Slice", nil, "table", "0", "S", "1", "1").want("y", "int64[1,min(S, 512)]")
	// A cut to the length of an axis that has it leaves the axis.
	c.step("z", "Slice", nil, "x", "0", "S", "1", "1").want("z", "int64[N,S]")
}

func mustTensor(v *tensor.Tensor, err error) *tensor.Tensor {
	if err != nil {
		panic(err)
	}
	return v
}

func TestPad(t *testing.T) {
	x, row := seq(2, 2), f32([]int{3}, 1, 2, 3)
	mode := func(m string) Attrs { return Attrs{StringAttr("mode", m)} }
	runCases(t, []evalCase{
		{op: "Pad", in: list(x, i64(0, 1, 1, 0)),
			want: list(f32([]int{3, 3}, 0, 0, 1, 0, 2, 3, 0, 0, 0))},
		{op: "Pad", name: "value", in: list(row, i64(1, 1), f32(nil, 9)),
			want: list(f32([]int{5}, 9, 1, 2, 3, 9))},
		{op: "Pad", name: "axes", in: list(x, i64(1, 0), f32(nil, 9), i64(-1)),
			want: list(f32([]int{2, 3}, 9, 0, 1, 9, 2, 3))},
		{op: "Pad", name: "cut", in: list(row, i64(-1, 1)), want: list(f32([]int{3}, 2, 3, 0))},
		{op: "Pad", name: "cut all", in: list(row, i64(-2, -1)), want: list(seq(0))},
		{op: "Pad", name: "attributes", version: 10,
			attrs: Attrs{IntsAttr("pads", 0, 2), FloatAttr("value", 5)}, in: list(row),
			want: list(f32([]int{5}, 1, 2, 3, 5, 5))},
		{op: "Pad", name: "edge", attrs: mode("edge"), in: list(x, i64(1, 1, 0, 1)),
			want: list(f32([]int{3, 4}, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3))},
		{op: "Pad", name: "reflect", attrs: mode("reflect"), in: list(row, i64(2, 2)),
			want: list(f32([]int{7}, 3, 2, 1, 2, 3, 2, 1))},
		{op: "Pad", name: "reflect far", attrs: mode("reflect"), in: list(row, i64(5, 0)),
			want: list(f32([]int{8}, 2, 1, 2, 3, 2, 1, 2, 3))},
		{op: "Pad", name: "reflect one", attrs: mode("reflect"),
			in: list(f32([]int{1}, 4), i64(1, 1)), want: list(f32([]int{3}, 4, 4, 4))},
		{op: "Pad", name: "wrap", attrs: mode("wrap"), in: list(row, i64(1, 4)),
			want: list(f32([]int{8}, 3, 1, 2, 3, 1, 2, 3, 1))},
		{op: "Pad", name: "edge and cut", attrs: mode("edge"), in: list(row, i64(-1, 2)),
			want: list(f32([]int{4}, 2, 3, 3, 3))},
		{op: "Pad", name: "int64", in: list(i64(1), i64(1, 0)), want: list(i64(0, 1))},
		{op: "Pad", name: "of nothing", attrs: mode("edge"), in: list(seq(0), i64(1, 0)),
			err: ErrInput},
		{op: "Pad", name: "mode", attrs: mode("mirror"), in: list(row, i64(1, 0)), err: ErrAttr},
		{op: "Pad", name: "count", in: list(row, i64(1)), err: ErrInput},
		{op: "Pad", name: "cuts too much", in: list(row, i64(-2, -2)), err: ErrInput},
		{op: "Pad", name: "absurd", in: list(row, i64(math.MaxInt64, 1)), err: ErrInput},
		{op: "Pad", name: "too large", in: list(row, i64(1<<35, 0)), err: tensor.ErrShape},
	})
}

func TestExpandTile(t *testing.T) {
	x := f32([]int{2, 1}, 1, 2)
	runCases(t, []evalCase{
		{op: "Expand", in: list(x, i64(2, 3)), want: list(f32([]int{2, 3}, 1, 1, 1, 2, 2, 2))},
		{op: "Expand", name: "new axis", in: list(x, i64(2, 1, 1)),
			want: list(f32([]int{2, 2, 1}, 1, 2, 1, 2))},
		{op: "Expand", name: "both ways", in: list(x, i64(1, 2)),
			want: list(f32([]int{2, 2}, 1, 1, 2, 2))},
		{op: "Expand", name: "shorter", in: list(x, i64(1)), want: list(x)},
		{op: "Expand", name: "to nothing", in: list(x, i64(0, 2, 1)), want: list(seq(0, 2, 1))},
		{op: "Expand", name: "integer", in: list(tensor.Scalar[int64](4), i64(3)),
			want: list(i64(4, 4, 4))},
		{op: "Expand", name: "mismatch", in: list(x, i64(3, 1)), err: ErrInput},
		{op: "Expand", name: "absurd", in: list(x, i64(1<<40, 1<<40, 2, 1)), err: tensor.ErrShape},
		{op: "Expand", name: "negative", in: list(x, i64(-1, 1)), err: ErrInput},
		{op: "Tile", in: list(x, i64(1, 2)), want: list(f32([]int{2, 2}, 1, 1, 2, 2))},
		{op: "Tile", name: "both", in: list(x, i64(2, 2)),
			want: list(f32([]int{4, 2}, 1, 1, 2, 2, 1, 1, 2, 2))},
		{op: "Tile", name: "none", in: list(x, i64(0, 2)), want: list(seq(0, 2))},
		{op: "Tile", name: "absurd", in: list(x, i64(1<<62, 1<<62)), err: tensor.ErrShape},
		{op: "Tile", name: "too large", in: list(x, i64(1<<50, 1)), err: tensor.ErrShape},
		{op: "Tile", name: "rank", in: list(x, i64(2)), err: ErrInput},
	})
}

func TestLayout(t *testing.T) {
	x := seq(1, 4, 1, 2)
	square := seq(3, 3)
	k := tensor.Scalar[int64]
	runCases(t, []evalCase{
		{op: "DepthToSpace", attrs: Attrs{IntAttr("blocksize", 2)}, in: list(x),
			want: list(f32([]int{1, 1, 2, 4}, 0, 2, 1, 3, 4, 6, 5, 7))},
		{op: "DepthToSpace", name: "CRD",
			attrs: Attrs{IntAttr("blocksize", 2), StringAttr("mode", "CRD")},
			in:    list(seq(1, 8, 1, 1)),
			want:  list(f32([]int{1, 2, 2, 2}, 0, 1, 2, 3, 4, 5, 6, 7))},
		{op: "DepthToSpace", name: "DCR", attrs: Attrs{IntAttr("blocksize", 2)},
			in:   list(seq(1, 8, 1, 1)),
			want: list(f32([]int{1, 2, 2, 2}, 0, 2, 4, 6, 1, 3, 5, 7))},
		{op: "DepthToSpace", name: "channels", attrs: Attrs{IntAttr("blocksize", 3)}, in: list(x),
			err: ErrInput},
		{op: "DepthToSpace", name: "block", attrs: Attrs{IntAttr("blocksize", math.MaxInt64)},
			in: list(x), err: ErrAttr},
		{op: "SpaceToDepth", attrs: Attrs{IntAttr("blocksize", 2)}, in: list(seq(1, 1, 2, 4)),
			want: list(f32([]int{1, 4, 1, 2}, 0, 2, 1, 3, 4, 6, 5, 7))},
		{op: "SpaceToDepth", name: "size", attrs: Attrs{IntAttr("blocksize", 2)},
			in: list(seq(1, 1, 3, 4)), err: ErrInput},

		{op: "ReverseSequence", in: list(seq(3, 2), i64(2, 3)),
			want: list(f32([]int{3, 2}, 2, 5, 0, 3, 4, 1))},
		{op: "ReverseSequence", name: "batch first",
			attrs: Attrs{IntAttr("batch_axis", 0), IntAttr("time_axis", 1)},
			in:    list(seq(2, 3), i64(1, 2)),
			want:  list(f32([]int{2, 3}, 0, 1, 2, 4, 3, 5))},
		{op: "ReverseSequence", name: "too long", in: list(seq(3, 2), i64(2, 4)), err: ErrInput},
		{op: "ReverseSequence", name: "axes", attrs: Attrs{IntAttr("batch_axis", 0)},
			in: list(seq(3, 2), i64(2, 4)), err: ErrInput},

		{op: "Trilu", in: list(square), want: list(f32([]int{3, 3}, 0, 1, 2, 0, 4, 5, 0, 0, 8))},
		{op: "Trilu", name: "lower", attrs: Attrs{IntAttr("upper", 0)}, in: list(square),
			want: list(f32([]int{3, 3}, 0, 0, 0, 3, 4, 0, 6, 7, 8))},
		{op: "Trilu", name: "above", in: list(square, k(1)),
			want: list(f32([]int{3, 3}, 0, 1, 2, 0, 0, 5, 0, 0, 0))},
		{op: "Trilu", name: "lower from below", attrs: Attrs{IntAttr("upper", 0)},
			in: list(square, k(-1)), want: list(f32([]int{3, 3}, 0, 0, 0, 3, 0, 0, 6, 7, 0))},
		{op: "Trilu", name: "batch", in: list(seq(2, 1, 2), k(math.MaxInt64)),
			want: list(f32([]int{2, 1, 2}, 0, 0, 0, 0))},
		{op: "Trilu", name: "all", in: list(seq(2, 1, 2), k(math.MinInt64)),
			want: list(seq(2, 1, 2))},
		{op: "Trilu", name: "rank", in: list(seq(3)), err: ErrInput},
	})
}

func randomTensor(rng *rand.Rand, rank int) *tensor.Tensor {
	shape := make([]int, rank)
	for k := range shape {
		shape[k] = 1 + rng.IntN(4)
	}
	return seq(shape...)
}

func eval1(t *testing.T, op string, attrs Attrs, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	out, err := rawEval(t, evalCase{op: op, attrs: attrs, in: in}.call(), in)
	if err != nil {
		t.Fatalf("%s%v: %v", op, in, err)
	}
	rulesAgree(t, evalCase{op: op, attrs: attrs, in: in}.call(), in, out)
	return out[0]
}

// A permutation followed by its inverse, a slice of a padding, a concatenation of all parts and a
// slice backwards twice give back what went in.
func TestMovementRoundTrips(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 100 {
		x := randomTensor(rng, 1+rng.IntN(5))
		perm, inverse := make([]int64, x.Rank()), make([]int64, x.Rank())
		for i, k := range rng.Perm(x.Rank()) {
			perm[i], inverse[k] = int64(k), int64(i)
		}
		y := eval1(t, "Transpose", Attrs{IntsAttr("perm", inverse...)},
			eval1(t, "Transpose", Attrs{IntsAttr("perm", perm...)}, x))
		same(t, "Transpose", x, y)

		begin, end := make([]int64, x.Rank()), make([]int64, x.Rank())
		pads := make([]int64, 2*x.Rank())
		for k, n := range x.Shape {
			begin[k] = rng.Int64N(3)
			end[k] = begin[k] + int64(n)
			pads[k], pads[k+x.Rank()] = begin[k], rng.Int64N(3)
		}
		for _, mode := range []string{"constant", "edge", "reflect", "wrap"} {
			padded := eval1(t, "Pad", Attrs{StringAttr("mode", mode)}, x, i64(pads...))
			same(t, "Pad "+mode, x, eval1(t, "Slice", nil, padded, i64(begin...), i64(end...)))
		}

		axis := rng.IntN(x.Rank())
		at := rng.Int64N(int64(x.Shape[axis]) + 1)
		a := eval1(t, "Slice", nil, x, i64(0), i64(at), i64(int64(axis)))
		b := eval1(t, "Slice", nil, x, i64(at), i64(math.MaxInt64), i64(int64(axis)))
		same(t, "Concat of Slices", x,
			eval1(t, "Concat", Attrs{IntAttr("axis", int64(axis))}, a, b))

		call := evalCase{op: "Split", attrs: Attrs{IntAttr("axis", int64(axis))},
			in: list(x, i64(at, int64(x.Shape[axis])-at))}.call()
		call.NumOut = 2
		parts, err := rawEval(t, call, list(x, i64(at, int64(x.Shape[axis])-at)))
		if err != nil {
			t.Fatal(err)
		}
		same(t, "Split and Slice", a, parts[0])
		same(t, "Split and Slice", b, parts[1])

		back := list(x, i64(-1), i64(math.MinInt64), i64(int64(axis)), i64(-1))
		turned := eval1(t, "Slice", nil, back...)
		back[0] = turned
		same(t, "Slice backwards", x, eval1(t, "Slice", nil, back...))
	}
}

func same(t *testing.T, what string, want, got *tensor.Tensor) {
	t.Helper()
	if !tensor.Equal(want, got) {
		t.Fatalf("%s: got %v, want %v", what, show(got), show(want))
	}
}

// Tile is Concat with itself, Expand of a new axis is Tile of it, DepthToSpace undoes SpaceToDepth.
func TestMovementAgreements(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for range 50 {
		x := randomTensor(rng, 1+rng.IntN(4))
		axis := rng.IntN(x.Rank())
		repeats := slices.Repeat([]int64{1}, x.Rank())
		repeats[axis] = 3
		same(t, "Tile", eval1(t, "Concat", Attrs{IntAttr("axis", int64(axis))}, x, x, x),
			eval1(t, "Tile", nil, x, i64(repeats...)))

		shape := []int64{5}
		for _, n := range x.Shape {
			shape = append(shape, int64(n))
		}
		rows := eval1(t, "Unsqueeze", nil, x, i64(0))
		tiled := eval1(t, "Tile", nil, rows,
			i64(append([]int64{5}, slices.Repeat([]int64{1}, x.Rank())...)...))
		same(t, "Expand", tiled, eval1(t, "Expand", nil, x, i64(shape...)))

		b := 1 + rng.IntN(3)
		image := seq(1+rng.IntN(2), 1+rng.IntN(3), b*(1+rng.IntN(3)), b*(1+rng.IntN(3)))
		attrs := Attrs{IntAttr("blocksize", int64(b))}
		same(t, "DepthToSpace", image,
			eval1(t, "DepthToSpace", attrs, eval1(t, "SpaceToDepth", attrs, image)))
	}
}
