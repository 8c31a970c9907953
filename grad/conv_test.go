package grad_test

import (
	"fmt"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// TestConvolutionsTurn: the gradient of a convolution by its image is a convolution where that can
// be, which devices are faster at, and a transposed one elsewhere. A convolution is linear, so the
// gradient's product with any image is the sum of what the convolution gives.
func TestConvolutionsTurn(t *testing.T) {
	for _, c := range []struct {
		attrs string
		group int
		turns bool
	}{
		{"strides=[1,1]", 1, true},
		{"pads=[1, 1, 1, 1]", 1, true},
		{"pads=[2, 0, 1, 1]", 1, true},
		{"dilations=[2, 1], pads=[4, 2, 3, 0]", 1, true},
		{"pads=[3, 0, 0, 0]", 1, false}, // a whole window of nothing but padding
		{"pads=[0, 0, 0, 3]", 1, false},
		{"strides=[1, 2]", 1, false},
		{"group=2", 2, false},
		{"group=4", 4, true},
		{"group=4, strides=[2, 2]", 4, false},
	} {
		filters := 6
		if c.group == 4 {
			filters = 4 // one a channel
		}
		g := parse(t, fmt.Sprintf(`input %%x: float64[2,4,7,6]
			input %%w: float64[%d,%d,3,3]
			%%y = Conv@11 (%%x, %%w) {%s}
			output %%y`, filters, 4/c.group, c.attrs))
		x, w := ramp(2, 4, 7, 6), ramp(filters, 4/c.group, 3, 3)
		y, err := g.Eval(t.Context(), []*tensor.Tensor{x, w})
		if err != nil {
			t.Fatal(c.attrs, err)
		}
		d := derive(t, g, grad.Objective{Of: values(t, g, "y"), By: values(t, g, "x")}, x, w)[0]
		got, want := 0.0, 0.0
		for i, v := range tensor.As[float64](d) {
			got += v * tensor.As[float64](x)[i]
		}
		for _, v := range tensor.As[float64](y[0]) {
			want += v
		}
		if got != want {
			t.Errorf("%q: the gradient gives %v, the convolution %v", c.attrs, got, want)
		}
		if transposed := has(g, "ConvTranspose"); transposed == c.turns {
			t.Errorf("%q: transposed: %t", c.attrs, transposed)
		}
	}
}

// ramp is a tensor of whole numbers, whose products and sums are exact.
func ramp(shape ...int) *tensor.Tensor {
	n := 1
	for _, d := range shape {
		n *= d
	}
	v := make([]float64, n)
	for i := range v {
		v[i] = float64(i*7%23 - 11)
	}
	return tensor.From(v, shape...)
}

func has(g *graph.Graph, kind string) bool {
	for _, n := range g.Nodes {
		if n.Type == kind {
			return true
		}
	}
	return false
}
