package op

import (
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestMatMul(t *testing.T) {
	a := f32([]int{2, 3}, 1, 2, 3, 4, 5, 6)
	b := f32([]int{3, 2}, 7, 8, 9, 10, 11, 12)
	ab := f32([]int{2, 2}, 58, 64, 139, 154)
	runCases(t, []evalCase{
		{op: "MatMul", in: list(a, b), want: list(ab)},
		{op: "MatMul", name: "vectors", in: list(vec(1, 2, 3), vec(4, 5, 6)),
			want: list(tensor.Scalar[float32](32))},
		{op: "MatMul", name: "row", in: list(vec(1, 2, 3), b), want: list(vec(58, 64))},
		{op: "MatMul", name: "column", in: list(a, vec(1, 0, 1)), want: list(vec(4, 10))},
		{op: "MatMul", name: "stacks broadcast",
			in:   list(f32([]int{2, 1, 1, 2}, 1, 2, 3, 4), f32([]int{3, 2, 1}, 1, 0, 0, 1, 1, 1)),
			want: list(f32([]int{2, 3, 1, 1}, 1, 2, 3, 3, 4, 7))},
		{op: "MatMul", name: "one matrix for a stack",
			in:   list(f32([]int{2, 1, 2}, 1, 2, 3, 4), f32([]int{2, 1}, 1, 1)),
			want: list(f32([]int{2, 1, 1}, 3, 7))},
		{op: "MatMul", name: "nothing summed", in: list(f32([]int{2, 0}), f32([]int{0, 1})),
			want: list(f32([]int{2, 1}, 0, 0))},
		{op: "MatMul", name: "empty and vast", in: list(f32([]int{0, 0}), f32([]int{0, 1 << 40})),
			want: list(f32([]int{0, 1 << 40}))},
		{op: "MatMul", name: "integers", in: list(i64(1<<40, 1), tensor.From([]int64{2, 3}, 2, 1)),
			want: list(i64(2<<40 + 3))},
		{op: "MatMul", name: "inner dimensions", in: list(a, a), err: ErrInput},
		{op: "MatMul", name: "scalar", in: list(a, tensor.Scalar[float32](1)), err: ErrInput},
		{op: "Gemm", in: list(a, b, vec(1, -1)), want: list(f32([]int{2, 2}, 59, 63, 140, 153))},
		{op: "Gemm", name: "no C", in: list(a, b), want: list(ab)},
		{op: "Gemm", name: "transposed and scaled",
			attrs: Attrs{IntAttr("transA", 1), IntAttr("transB", 1), FloatAttr("alpha", 2),
				FloatAttr("beta", 0.5)},
			in: list(f32([]int{3, 2}, 1, 4, 2, 5, 3, 6), f32([]int{2, 3}, 7, 9, 11, 8, 10, 12),
				f32([]int{2, 1}, 2, 4)),
			want: list(f32([]int{2, 2}, 117, 129, 280, 310))},
		{op: "Gemm", name: "C too wide", in: list(a, b, f32([]int{3, 2}, 0, 0, 0, 0, 0, 0)),
			err: ErrInput},
	})
}

func TestEinsum(t *testing.T) {
	eq := func(s string) Attrs { return Attrs{StringAttr("equation", s)} }
	a, b := seq(2, 3), seq(3, 2)
	runCases(t, []evalCase{
		{op: "Einsum", name: "product", attrs: eq("ij,jk->ik"), in: list(a, b),
			want: list(f32([]int{2, 2}, 10, 13, 28, 40))},
		{op: "Einsum", name: "implicit product", attrs: eq("ij, jk"), in: list(a, b),
			want: list(f32([]int{2, 2}, 10, 13, 28, 40))},
		{op: "Einsum", name: "transpose", attrs: eq("ij->ji"), in: list(a),
			want: list(f32([]int{3, 2}, 0, 3, 1, 4, 2, 5))},
		{op: "Einsum", name: "implicit order", attrs: eq("ba"), in: list(a),
			want: list(f32([]int{3, 2}, 0, 3, 1, 4, 2, 5))},
		{op: "Einsum", name: "trace", attrs: eq("ii"), in: list(seq(3, 3)),
			want: list(tensor.Scalar[float32](12))},
		{op: "Einsum", name: "diagonal", attrs: eq("ii->i"), in: list(seq(3, 3)),
			want: list(vec(0, 4, 8))},
		{op: "Einsum", name: "outer", attrs: eq("i,j->ij"), in: list(vec(1, 2), vec(3, 4)),
			want: list(f32([]int{2, 2}, 3, 4, 6, 8))},
		{op: "Einsum", name: "three", attrs: eq("i,i,i->"),
			in: list(vec(1, 2), vec(3, 4), vec(5, 6)), want: list(tensor.Scalar[float32](63))},
		{op: "Einsum", name: "ellipsis broadcasts", attrs: eq("...i,...i->..."),
			in:   list(f32([]int{2, 1, 2}, 1, 2, 3, 4), f32([]int{2, 2}, 1, 0, 1, 1)),
			want: list(f32([]int{2, 2}, 1, 3, 3, 7))},
		{op: "Einsum", name: "rank", attrs: eq("ijk->i"), in: list(a), err: ErrInput},
		{op: "Einsum", name: "sizes", attrs: eq("ij,ij->i"), in: list(a, b), err: ErrInput},
		{op: "Einsum", name: "output label", attrs: eq("ij->ik"), in: list(a), err: ErrAttr},
		{op: "Einsum", name: "terms", attrs: eq("ij,jk->ik"), in: list(a), err: ErrAttr},
	})
}

// TestProductsAgree computes one product in four ways.
func TestProductsAgree(t *testing.T) {
	a, b := eval1(t, "Sin", nil, seq(5, 9)), eval1(t, "Cos", nil, seq(9, 7))
	want := eval1(t, "MatMul", nil, a, b)
	same(t, "Gemm", want, eval1(t, "Gemm", nil, a, b))
	same(t, "Gemm of transposes", want,
		eval1(t, "Gemm", Attrs{IntAttr("transA", 1), IntAttr("transB", 1)},
			eval1(t, "Transpose", nil, a), eval1(t, "Transpose", nil, b)))
	close := func(what string, got *tensor.Tensor) {
		t.Helper()
		if err := tensor.Close(got, want, 1e-6, 1e-6); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	close("Einsum", eval1(t, "Einsum", Attrs{StringAttr("equation", "ij,jk->ik")}, a, b))
	conv := eval1(t, "Conv", nil, eval1(t, "Unsqueeze", nil, b, i64(0)),
		eval1(t, "Unsqueeze", nil, a, i64(2)))
	close("Conv with a kernel of one", eval1(t, "Squeeze", nil, conv, i64(0)))
}

func TestProductRules(t *testing.T) {
	c := newChain(t, map[string]Type{
		"x": Ranked(tensor.Float32, Sym("N"), Sym("S"), Known(384)),
		"w": Concrete(tensor.Float32, 384, 64),
		"q": Ranked(tensor.Float32, Sym("N"), Known(12), Sym("S"), Known(32)),
		"k": Ranked(tensor.Float32, Sym("N"), Known(12), Known(32), Sym("T")),
	})
	c.step("y", "MatMul", nil, "x", "w").want("y", "float32[N,S,64]").
		step("scores", "MatMul", nil, "q", "k").want("scores", "float32[N,12,S,T]").
		step("same", "Einsum", Attrs{StringAttr("equation", "bhsd,bhdt->bhst")}, "q", "k").
		want("same", "float32[N,12,S,T]")
	flops := row(t, &Call{Type: "MatMul", Version: 13, NumIn: 2, NumOut: 1}).Flops
	if got := flops(nil, list(Concrete(1, 4, 2, 3), Concrete(1, 3, 5)),
		list(Concrete(1, 4, 2, 5))); got != 240 {
		t.Errorf("MatMul has %d flops, want 240", got)
	}
}

// TestTransposed holds a transpose of every size about that of what is turned at a time.
func TestTransposed(t *testing.T) {
	for rows := range 4 {
		for cols := range 35 {
			v := make([]int, rows*cols)
			for i := range v {
				v[i] = i
			}
			got := Transposed(v, rows, cols)
			for i := range v {
				if x := got[i%max(cols, 1)*rows+i/max(cols, 1)]; x != i {
					t.Fatalf("%d×%d: element %d is %d", rows, cols, i, x)
				}
			}
		}
	}
}
