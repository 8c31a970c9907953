package op

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestShapeOperators(t *testing.T) {
	x := seq(2, 3, 4)
	s := tensor.Scalar[int64]
	runCases(t, []evalCase{
		{op: "Identity", in: list(x), want: list(x)},
		{op: "Identity", name: "strings", in: list(tensor.FromStrings(list("a", "b"), 2)),
			want: list(tensor.FromStrings(list("a", "b"), 2))},
		{op: "Shape", in: list(x), want: list(i64(2, 3, 4))},
		{op: "Shape", name: "scalar", in: list(s(7)), want: list(i64())},
		{op: "Shape", name: "part", attrs: Attrs{IntAttr("start", 1), IntAttr("end", -1)},
			in: list(x), want: list(i64(3))},
		{op: "Shape", name: "clamped", attrs: Attrs{IntAttr("start", -10), IntAttr("end", 10)},
			in: list(x), want: list(i64(2, 3, 4))},
		{op: "Shape", name: "empty", attrs: Attrs{IntAttr("start", 2), IntAttr("end", 1)},
			in: list(x), want: list(i64())},
		{op: "Shape", name: "start before opset 15 is not read", version: 13,
			attrs: Attrs{IntAttr("start", 1)}, in: list(x), want: list(i64(2, 3, 4))},
		{op: "Size", in: list(x), want: list(s(24))},

		{op: "Reshape", in: list(x, i64(4, 6)), want: list(seq(4, 6))},
		{op: "Reshape", name: "rest", in: list(x, i64(2, -1, 2)), want: list(seq(2, 6, 2))},
		{op: "Reshape", name: "copy", in: list(x, i64(0, -1)), want: list(seq(2, 12))},
		{op: "Reshape", name: "to scalar", in: list(seq(1), i64()), want: list(f32(nil, 0))},
		{op: "Reshape", name: "zero size", attrs: Attrs{IntAttr("allowzero", 1)},
			in: list(seq(0, 3), i64(3, 0)), want: list(seq(3, 0))},
		{op: "Reshape", name: "allowzero before opset 14 is not read", version: 13,
			attrs: Attrs{IntAttr("allowzero", 1)}, in: list(x, i64(0, 12)), want: list(seq(2, 12))},
		{op: "Reshape", name: "rest of nothing", in: list(seq(0, 3), i64(3, -1)),
			want: list(seq(3, 0))},
		{op: "Reshape", name: "two rests", in: list(x, i64(-1, -1)), err: ErrInput},
		{op: "Reshape", name: "count", in: list(x, i64(5, 5)), err: ErrInput},
		{op: "Reshape", name: "no divisor", in: list(x, i64(5, -1)), err: ErrInput},
		{op: "Reshape", name: "copies beyond rank", in: list(x, i64(2, 3, 4, 0)), err: ErrInput},
		{op: "Reshape", name: "absurd", in: list(x, i64(1<<40, 1<<40)), err: tensor.ErrShape},
		{op: "Reshape", name: "negative", in: list(x, i64(-2, 12)), err: ErrInput},

		{op: "Flatten", in: list(x), want: list(seq(2, 12))},
		{op: "Flatten", name: "0", attrs: Attrs{IntAttr("axis", 0)}, in: list(x),
			want: list(seq(1, 24))},
		{op: "Flatten", name: "-1", attrs: Attrs{IntAttr("axis", -1)}, in: list(x),
			want: list(seq(6, 4))},
		{op: "Flatten", name: "rank", attrs: Attrs{IntAttr("axis", 3)}, in: list(x),
			want: list(seq(24, 1))},
		{op: "Flatten", name: "out of range", attrs: Attrs{IntAttr("axis", 4)}, in: list(x),
			err: ErrAttr},

		{op: "Squeeze", in: list(seq(1, 3, 1)), want: list(seq(3))},
		{op: "Squeeze", name: "axes", in: list(seq(1, 3, 1), i64(-1)), want: list(seq(1, 3))},
		{op: "Squeeze", name: "attribute", version: 11, attrs: Attrs{IntsAttr("axes", 0)},
			in: list(seq(1, 3, 1)), want: list(seq(3, 1))},
		{op: "Squeeze", name: "not one", in: list(x, i64(0)), err: ErrInput},
		{op: "Squeeze", name: "twice", in: list(seq(1, 3), i64(0, -2)), err: ErrAttr},
		{op: "Unsqueeze", in: list(seq(3), i64(0, -1)), want: list(seq(1, 3, 1))},
		{op: "Unsqueeze", name: "unsorted", in: list(seq(3, 4), i64(2, 0)),
			want: list(seq(1, 3, 1, 4))},
		{op: "Unsqueeze", name: "attribute", version: 9, attrs: Attrs{IntsAttr("axes", 1)},
			in: list(seq(3)), want: list(seq(3, 1))},
		{op: "Unsqueeze", name: "no axes", in: list(seq(3)), err: ErrAttr},
		{op: "Unsqueeze", name: "out of range", in: list(seq(3), i64(2)), err: ErrAttr},
	})
}

// The chains below are what exporters write between a tensor and the Reshape, Expand or Slice that
// follows its size.

func TestReshapeChainOfPyTorch(t *testing.T) {
	// x.view(x.shape[0], x.shape[1], 12, 32).permute(0, 2, 1, 3), as in the attention of MiniLM.
	c := newChain(t, map[string]Type{"x": Ranked(tensor.Float32, Sym("N"), Sym("S"), Known(384))})
	c.constant("0", tensor.Scalar[int64](0)).constant("1", tensor.Scalar[int64](1)).
		constant("axes", i64(0))
	c.constant("12", i64(12)).constant("32", i64(32)).constant("384", i64(384))
	for _, k := range []string{"0", "1"} {
		c.step("shape", "Shape", nil, "x").
			step("size", "Gather", Attrs{IntAttr("axis", 0)}, "shape", k)
		c.step("d"+k, "Unsqueeze", nil, "size", "axes")
	}
	c.step("view", "Concat", Attrs{IntAttr("axis", 0)}, "d0", "d1", "12", "32")
	c.wantElems("view", Sym("N"), Sym("S"), Known(12), Known(32))
	c.step("heads", "Reshape", nil, "x", "view").want("heads", "float32[N,S,12,32]")
	c.step("q", "Transpose", Attrs{IntsAttr("perm", 0, 2, 1, 3)}, "heads").
		want("q", "float32[N,12,S,32]")
	c.step("back", "Concat", Attrs{IntAttr("axis", 0)}, "d0", "d1", "384")
	c.step("y", "Reshape", nil, "heads", "back").want("y", "float32[N,S,384]")
}

func TestReshapeChainOfPaddle(t *testing.T) {
	// Shape -> Cast(int32) -> Slice -> Concat -> Cast(int64) -> Reshape, opset 9 with Slice by
	// attributes.
	c := newChain(t, map[string]Type{
		"x": Ranked(tensor.Float32, Sym("N"), Known(120), Known(1), Sym("W"))})
	c.stepAt(9, "shape", "Shape", nil, "x").
		stepAt(9, "shape32", "Cast", Attrs{IntAttr("to", 6)}, "shape")
	c.stepAt(9, "w", "Slice", Attrs{IntsAttr("axes", 0), IntsAttr("starts", 3),
		IntsAttr("ends", 4)}, "shape32")
	c.stepAt(9, "n", "Slice", Attrs{IntsAttr("axes", 0), IntsAttr("starts", 0),
		IntsAttr("ends", 1)}, "shape32")
	c.constant("c", tensor.From(list[int32](120), 1))
	c.stepAt(9, "want32", "Concat", Attrs{IntAttr("axis", 0)}, "n", "c", "w").
		stepAt(9, "want", "Cast", Attrs{IntAttr("to", 7)}, "want32")
	c.stepAt(9, "y", "Reshape", nil, "x", "want").want("y", "float32[N,120,W]")
}

func TestReshapeRemainder(t *testing.T) {
	n, h := Sym("N"), Sym("H")
	tests := []struct {
		in   []Dim
		want []int64
		out  string
	}{
		{list(n, Known(3), Known(4)), list[int64](0, -1), "float32[N,12]"},
		{list(n, Known(3), Known(4)), list[int64](-1, 12), "float32[N,12]"},
		{list(n, Known(3), Known(4)), list[int64](-1, 4), "float32[3·N,4]"},
		{list(n, Known(3), Known(4)), list[int64](-1), "float32[12·N]"},
		{list(n, h, Known(8)), list[int64](0, 0, 2, -1), "float32[N,H,2,4]"},
		{list(n, h.AddInt(1), Known(8)), list[int64](0, -1), "float32[N,8·H + 8]"},
		{list(n.Add(h), n.AddInt(-1), Known(2)), list[int64](0, -1), "float32[H + N,2·N - 2]"},
		{list(n, Known(2)), list[int64](-1, 4), "float32[floor((2*N)/4),4]"},
	}
	for _, tt := range tests {
		newChain(t, map[string]Type{"x": Ranked(tensor.Float32, tt.in...)}).
			constant("s", i64(tt.want...)).
			step("y", "Reshape", nil, "x", "s").want("y", tt.out)
	}
}

func TestShapeRulesRefuse(t *testing.T) {
	x := Concrete(tensor.Float32, 2, 3)
	tests := []struct {
		op string
		in []Type
	}{
		{"Reshape", list(x, TypeOf(i64(4, 2)))},
		{"Reshape", list(x, TypeOf(i64(4, -1)))},
		{"Reshape", list(x, TypeOf(i64(-1, -1)))},
		{"Reshape", list(x, TypeOf(i64(-3, 2)))},
		{"Reshape", list(x, TypeOf(i64(2, 3, 0)))},
		{"Squeeze", list(x, TypeOf(i64(1)))},
		{"Squeeze", list(x, TypeOf(i64(5)))},
		{"Unsqueeze", list(x, TypeOf(i64(1, 1)))},
		{"Expand", list(x, TypeOf(i64(4, 3)))},
		{"Expand", list(x, TypeOf(i64(-1, 3)))},
		{"Tile", list(x, TypeOf(i64(1)))},
		{"Tile", list(x, TypeOf(i64(1, -1)))},
		{"Tile", list(Concrete(tensor.Float32, 1<<40), TypeOf(i64(1<<40)))},
		{"ConstantOfShape", list(TypeOf(i64(-1)))},
		{"ConstantOfShape", list(TypeOf(i64(1<<40, 1<<40)))},
		{"Gather", list(Concrete(tensor.Float32), TypeOf(i64(0)))},
		{"GatherND", list(x, Concrete(tensor.Int64, 2, 3))},
		{"NonMaxSuppression", list(x, x)},
		{"DepthToSpace", list(x)},
	}
	for _, tt := range tests {
		call := &Call{Type: tt.op, Version: latest, NumIn: len(tt.in), NumOut: 1,
			Attrs: Attrs{IntAttr("blocksize", 2)}}
		_, err := InferTypes(row(t, call), call, tt.in, nil)
		if !errors.Is(err, ErrInput) && !errors.Is(err, ErrAttr) &&
			!errors.Is(err, tensor.ErrShape) {
			t.Errorf("%s%v: error %v", tt.op, tt.in, err)
		}
	}
}
