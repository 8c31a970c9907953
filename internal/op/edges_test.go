package op

import (
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestEdges states results where a bound, a sign or a stride decides.
func TestEdges(t *testing.T) {
	q := f32([]int{1, 1, 2, 1}, 0, 0)
	v := f32([]int{1, 1, 2, 1}, 2, 4)
	runCases(t, []evalCase{
		{op: "Mod", name: "negative divisor", in: list(i64(1, 3, 4), i64(-3, -3, -3)),
			want: list(i64(-2, 0, -2))},
		{op: "Range", name: "halves", in: list(halvesOf([]int{}, 1), halvesOf([]int{}, 2.5),
			halvesOf([]int{}, 0.5)),
			want: list(halvesOf([]int{3}, 1, 1.5, 2))},
		{op: "QuantizeLinear", name: "one block", attrs: Attrs{IntAttr("axis", 0),
			IntAttr("block_size", 2)}, in: list(vec(1, 3), vec(0.5), u8([]int{1}, 1)),
			want: list(u8([]int{2}, 3, 7))},
		{op: "DequantizeLinear", name: "blocks of columns", attrs: Attrs{IntAttr("axis", 0),
			IntAttr("block_size", 2)},
			in:   list(u8([]int{4, 2}, 1, 1, 1, 1, 1, 1, 1, 1), f32([]int{2, 2}, 2, 3, 5, 7)),
			want: list(f32([]int{4, 2}, 2, 3, 2, 3, 5, 7, 5, 7))},
		{op: "Attention", name: "nothing to the right", attrs: Attrs{
			IntAttr("right_window_size", 0)}, in: list(q, q, v),
			want: list(f32([]int{1, 1, 2, 1}, 2, 3))},
		{op: "SVMRegressor", domain: mlDomain, version: 1, name: "on the border",
			attrs: Attrs{FloatsAttr("coefficients", 1, 1), FloatsAttr("rho", 0),
				IntAttr("one_class", 1)}, in: list(f32([]int{2, 2}, 1, -1, 1, 1)),
			want: list(f32([]int{2, 1}, -1, 1))},
	})
}

// halvesOf is a float16 tensor.
func halvesOf(shape []int, v ...float32) *tensor.Tensor {
	h := mustTensor(tensor.New(tensor.Float16, shape...))
	roundInto(h, v)
	return h
}

// TestExpandOfKnownRank holds that a shape whose length alone is known gives the rank.
func TestExpandOfKnownRank(t *testing.T) {
	call := &Call{Type: "Expand", Version: 13, NumIn: 2, NumOut: 1}
	o, err := Lookup("", "Expand", 13)
	if err != nil {
		t.Fatal(err)
	}
	for length, rank := range []int{2, 2, 2, 3} {
		out, err := InferTypes(o, call, []Type{Concrete(tensor.Float32, 2, 1),
			Concrete(tensor.Int64, length)}, list(true, true))
		if err != nil || !out[0].Ranked || len(out[0].Shape) != rank {
			t.Errorf("shape of %d: %v, %v; want rank %d", length, out, err, rank)
		}
	}
}

// TestNewBytes holds that a value counts once, and not where it is an input.
func TestNewBytes(t *testing.T) {
	a, b := vec(1, 2, 3), vec(1)
	c := &Eval{In: list(b, nil)}
	if got := c.newBytes(list(a, nil, b, a)); got != a.Size() {
		t.Errorf("%d bytes, want %d", got, a.Size())
	}
}
