package op

import (
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestFlops(t *testing.T) {
	f := func(shape ...int) Type { return Concrete(tensor.Float32, shape...) }
	for _, c := range []struct {
		domain, op string
		attrs      Attrs
		in, out    []Type
		want       int64
	}{
		{op: "MatMul", in: list(f(4, 2, 3), f(3, 5)), out: list(f(4, 2, 5)),
			want: 2 * 4 * 2 * 3 * 5},
		{op: "Gemm", attrs: Attrs{IntAttr("transA", 1)}, in: list(f(3, 2), f(3, 5)),
			out: list(f(2, 5)), want: 2 * 3 * 2 * 5},
		{domain: FusedDomain, op: "Gemm", in: list(f(2, 3), f(3, 5)), out: list(f(2, 5)),
			want: 2 * 3 * 2 * 5},
		{op: "Conv", attrs: Attrs{IntAttr("group", 2)}, in: list(f(1, 4, 8, 8), f(6, 2, 3, 3)),
			out: list(f(1, 6, 6, 6)), want: 2 * 6 * 36 * 18},
		{op: "ConvTranspose", in: list(f(1, 4, 3, 3), f(4, 5, 2, 2)), out: list(f(1, 5, 4, 4)),
			want: 2 * 4 * 9 * 5 * 4},
		{op: "QLinearMatMul", in: list(f(2, 3), f(), f(), f(3, 5), f(), f(), f(), f()),
			out: list(f(2, 5)), want: 2 * 2 * 3 * 5},
		{op: "MaxPool", attrs: Attrs{IntsAttr("kernel_shape", 2, 3)}, in: list(f(1, 1, 4, 6)),
			out: list(f(1, 1, 2, 2)), want: 6 * 4},
		{op: "LSTM", in: list(f(7, 2, 3), f(1, 16, 3), f(1, 16, 4)), out: list(f(7, 1, 2, 4)),
			want: 2 * 7 * 2 * (16*3 + 16*4)},
		{op: "Einsum", attrs: Attrs{StringAttr("equation", "ij,jk->ik")},
			in: list(f(2, 3), f(3, 5)), out: list(f(2, 5)), want: 2 * 2 * 3 * 5},
		{op: "Attention", in: list(f(2, 3, 4, 8), f(2, 3, 5, 8), f(2, 3, 5, 6)),
			out: list(f(2, 3, 4, 6)), want: 2 * 2 * 3 * 4 * 5 * (8 + 6)},
		{domain: "com.microsoft", op: "GroupQueryAttention",
			attrs: Attrs{IntAttr("num_heads", 4), IntAttr("kv_num_heads", 2)},
			in:    list(f(1, 3, 32), f(1, 3, 16), f(1, 3, 16)),
			out:   list(f(1, 3, 32), f(1, 2, 5, 8), f(1, 2, 5, 8)), want: 2 * 2 * 4 * 3 * 5 * 8},
		{op: "ReduceSum", in: list(f(4, 5)), out: list(f(1, 1)), want: 20},
		{op: "LayerNormalization", in: list(f(4, 5), f(5)), out: list(f(4, 5)), want: 120},
	} {
		call := &Call{Domain: c.domain, Type: c.op, Version: latest, Attrs: c.attrs,
			NumIn: len(c.in), NumOut: len(c.out)}
		o, err := Lookup(c.domain, c.op, latest)
		if err != nil {
			t.Fatal(err)
		}
		if got := o.Flops(call, c.in, c.out); got != c.want {
			t.Errorf("%s has %d flops, want %d", call.Name(), got, c.want)
		}
		for i := range c.in {
			unknown := append([]Type{}, c.in...)
			unknown[i] = Unranked(tensor.Float32)
			o.Flops(call, unknown, c.out) // 0 or not, it must not panic
		}
	}
}
