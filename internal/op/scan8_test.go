package op

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func scan8Call(b Body, inputs int, attrs ...Attr) *Call {
	return &Call{Type: "Scan", Version: 8, NumIn: inputs, NumOut: b.NumOutputs(),
		Attrs: append(Attrs{BodyAttr("body", b), IntAttr("num_scan_inputs", 1)}, attrs...)}
}

func TestScan8(t *testing.T) {
	zero := tensor.From(make([]float32, 4), 2, 2)
	x := f32([]int{2, 3, 2}, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)
	tests := []struct {
		name        string
		lens        *tensor.Tensor
		attrs       Attrs
		state, x    *tensor.Tensor
		want, wants *tensor.Tensor
	}{
		{"whole", nil, nil, zero, x, f32([]int{2, 2}, 9, 12, 27, 30),
			f32([]int{2, 3, 2}, 1, 2, 4, 6, 9, 12, 7, 8, 16, 18, 27, 30)},
		{"lengths", i64(1, 3), nil, zero, x, f32([]int{2, 2}, 1, 2, 27, 30),
			f32([]int{2, 3, 2}, 1, 2, 0, 0, 0, 0, 7, 8, 16, 18, 27, 30)},
		{"backward", nil, Attrs{IntsAttr("directions", 1)}, zero, x,
			f32([]int{2, 2}, 9, 12, 27, 30),
			f32([]int{2, 3, 2}, 5, 6, 8, 10, 9, 12, 11, 12, 20, 22, 27, 30)},
		{"length none", i64(0, 0), nil, zero, x, zero, tensor.From(make([]float32, 12), 2, 3, 2)},
		{"no batch", nil, nil, seq(0, 2), seq(0, 3, 2), seq(0, 2), seq(0, 3, 2)},
		{"no steps", nil, nil, zero, seq(2, 0, 2), zero, seq(2, 0, 2)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			call, in := scan8Call(partialSums(), 3, tt.attrs...), list(tt.lens, tt.state, tt.x)
			out, err := rawEval(t, call, in)
			if err != nil {
				t.Fatal(err)
			}
			same(t, "state", tt.want, out[0])
			same(t, "scanned", tt.wants, out[1])
			rulesAgree(t, call, in, out)
		})
	}
	for name, c := range map[string]struct {
		call *Call
		in   []*tensor.Tensor
		kind error
	}{
		"too long":        {scan8Call(partialSums(), 3), list(i64(4, 1), zero, x), ErrInput},
		"negative length": {scan8Call(partialSums(), 3), list(i64(-1, 1), zero, x), ErrInput},
		"one length":      {scan8Call(partialSums(), 3), list(i64(1), zero, x), ErrInput},
		"batches differ":  {scan8Call(partialSums(), 3), list(nil, seq(3, 2), x), ErrInput},
		"no batch axis":   {scan8Call(partialSums(), 3), list(nil, zero, seq(2)), ErrInput},
		"direction": {scan8Call(partialSums(), 3, IntsAttr("directions", 2)),
			list(nil, zero, x), ErrAttr},
		"left out":        {scan8Call(partialSums(), 3), list(nil, nil, x), ErrInput},
		"without lengths": {scan8Call(partialSums(), 2), list(zero, x), ErrAttr},
	} {
		if out, err := rawEval(t, c.call, c.in); !errors.Is(err, c.kind) {
			t.Errorf("%s: %v, %v", name, out, err)
		}
	}
}

func TestScan8Rule(t *testing.T) {
	call := scan8Call(partialSums(), 3)
	b, n := Sym("B"), Sym("N")
	out, err := InferTypes(row(t, call), call,
		list(Type{}, Ranked(tensor.Float32, b, Known(2)),
			Ranked(tensor.Float32, Unknown(), n, Known(2))),
		list(false, true, true))
	if err != nil || out[0].String() != "float32[B,2]" || out[1].String() != "float32[B,N,2]" {
		t.Errorf("%v, %v", out, err)
	}
}
