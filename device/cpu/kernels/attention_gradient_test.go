package kernels

import (
	"context"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestAttentionGradientOfLittle: gradients of calls without queries, or without keys, are those of
// the reference, as are some of all results.
func TestAttentionGradientOfLittle(t *testing.T) {
	for name, c := range map[string]struct {
		heads, queries, keys int
		absent               []bool
	}{
		"no queries":         {heads: 2, keys: 5},
		"no heads":           {queries: 3, keys: 5},
		"no keys":            {heads: 2, queries: 3},
		"no result by q":     {heads: 2, queries: 3, keys: 5, absent: []bool{true, false, false}},
		"no result by k":     {heads: 2, queries: 3, keys: 5, absent: []bool{false, true, false}},
		"no result by value": {heads: 2, queries: 3, keys: 5, absent: []bool{false, false, true}},
	} {
		t.Run(name, func(t *testing.T) {
			zeros := func(shape ...int) *tensor.Tensor {
				v, err := tensor.New(tensor.Float32, shape...)
				if err != nil {
					t.Fatal(err)
				}
				return v
			}
			h, n, m := c.heads, c.queries, c.keys
			s := &sample{in: []*tensor.Tensor{zeros(1, h, n, 4), zeros(1, 2, m, 4),
				zeros(1, 2, m, 3), nil, nil, zeros(1, h, n, 3), zeros(1, h, n, 3),
				zeros(1, h, n, 2)}, constant: make([]bool, 8), absent: c.absent,
				call: &op.Call{Domain: op.FusedDomain, Type: op.AttentionGradient, Version: 1,
					NumIn: 8, NumOut: 3}}
			for i := range h * n { // sums of exponentials
				tensor.As[float32](s.in[7])[2*i+1] = 5
			}
			o, _, ok := s.request()
			if !ok {
				t.Fatal("not a call")
			}
			if _, err := op.Run(context.Background(), o, s.call, s.in); err != nil {
				t.Fatal(err)
			}
			s.check(t, testPools(t))
		})
	}
}
