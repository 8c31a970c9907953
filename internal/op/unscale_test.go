package op

import (
	"errors"
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestUnscale holds what is left of gradients, and the greatest magnitude before.
func TestUnscale(t *testing.T) {
	inf, nan := float32(math.Inf(1)), float32(math.NaN())
	for _, tc := range []struct {
		g       []float32
		scale   float32
		want    []float32
		largest float32
	}{
		{[]float32{8, -16, 0}, 8, []float32{1, -2, 0}, 16},
		{[]float32{0x1p-140}, 0x1p10, []float32{0}, 0x1p-140}, // below the least denormal
		{[]float32{1, -inf}, 4, []float32{0.25, -inf}, inf},
		{[]float32{nan, inf}, 4, []float32{nan, inf}, nan},
		{nil, 4, nil, 0},
	} {
		in := []*tensor.Tensor{tensor.From(tc.g, len(tc.g)), tensor.Scalar(tc.scale)}
		call := &Call{Domain: FusedDomain, Type: Unscale, Version: 1, NumIn: 2, NumOut: 2}
		out, err := rawEval(t, call, in)
		if err != nil {
			t.Fatal(err)
		}
		same := func(got *tensor.Tensor, want ...float32) {
			t.Helper()
			for i, v := range tensor.As[float32](got) {
				if v != want[i] && !(v != v && want[i] != want[i]) {
					t.Errorf("%v by %v: got %v, want %v", tc.g, tc.scale, v, want[i])
				}
			}
		}
		same(out[0], tc.want...)
		same(out[1], tc.largest)
	}
	call := &Call{Domain: FusedDomain, Type: Unscale, Version: 1, NumIn: 2, NumOut: 1}
	for _, scale := range []*tensor.Tensor{tensor.From([]float32{1, 2}, 2),
		tensor.Scalar(float64(2))} {
		in := []*tensor.Tensor{tensor.From([]float32{1}, 1), scale}
		if _, err := rawEval(t, call, in); !errors.Is(err, ErrInput) {
			t.Errorf("scale %v: %v", scale, err)
		}
		o, err := Lookup(FusedDomain, Unscale, 1)
		if err != nil {
			t.Fatal(err)
		}
		types := []Type{TypeOf(in[0]), TypeOf(in[1])}
		if _, err := InferTypes(o, call, types, []bool{true, true}); !errors.Is(err, ErrInput) {
			t.Errorf("scale %v: the rule says %v", scale, err)
		}
	}
}
