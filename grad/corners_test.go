package grad_test

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// TestCorners holds what the rules take for the derivative where there is none, at bounds, ties and
// zeros, which central differences cannot tell. It is PyTorch's choice, but for the greatest of a
// plane, of which that takes one of equal elements, the upper bound of Clip, which that does not
// let through, and powers of negative numbers by the exponent, which are not a number there.
func TestCorners(t *testing.T) {
	plane := func(v ...float64) *tensor.Tensor { return tensor.From(v, 1, 1, len(v)) }
	scalar := func(v float64) *tensor.Tensor { return tensor.Scalar(v) }
	third := 1.0 / 3
	for _, c := range []struct {
		call
		want []*tensor.Tensor
	}{
		{call{op: "Relu", in: list(f64(-1, 0, 1))}, list(f64(0, 0, 1))},
		{call{op: "LeakyRelu", in: list(f64(-1, 0, 1)), attrs: op.Attrs{
			op.FloatAttr("alpha", 0.25)}}, list(f64(0.25, 0.25, 1))},
		{call{op: "PRelu", in: list(f64(-1, 0, 1), f64(0.25))},
			list(f64(0.25, 0.25, 1), f64(-1))},
		{call{op: "Elu", in: list(f64(0, 1)), attrs: op.Attrs{op.FloatAttr("alpha", 0.5)}},
			list(f64(0.5, 1))},
		{call{op: "Selu", in: list(f64(0)), attrs: op.Attrs{op.FloatAttr("alpha", 2),
			op.FloatAttr("gamma", 3)}}, list(f64(6))},
		{call{op: "Celu", in: list(f64(0)), attrs: op.Attrs{op.FloatAttr("alpha", 2)}},
			list(f64(1))},
		{call{op: "HardSigmoid", in: list(f64(-2.5, 2.5))}, list(f64(0, 0))},
		{call{op: "HardSwish", in: list(f64(-3, 3))}, list(f64(0, 1))},
		{call{op: "ThresholdedRelu", in: list(f64(1))}, list(f64(0))},
		{call{op: "Shrink", in: list(f64(-0.5, 0.5))}, list(f64(0, 0))},
		{call{op: "Abs", in: list(f64(-1, 0, 1))}, list(f64(-1, 0, 1))},
		{call{op: "Clip", in: list(f64(-1, 0, 0.5, 1, 2), scalar(0), scalar(1))},
			list(f64(0, 1, 1, 1, 0), scalar(1), scalar(1))},
		{call{op: "Max", in: list(f64(1, 2), f64(1, 3))}, list(f64(0.5, 0), f64(0.5, 1))},
		{call{op: "Min", in: list(f64(1), f64(1), f64(1))},
			list(f64(third), f64(third), f64(third))},
		{call{op: "ReduceMax", in: list(f64(2, 2, 1))}, list(f64(0.5, 0.5, 0))},
		{call{op: "ReduceMin", in: list(f64(2, 1, 1))}, list(f64(0, 0.5, 0.5))},
		{call{op: "ReduceL1", in: list(f64(-2, 0))}, list(f64(-1, 0))},
		{call{op: "ReduceL2", in: list(f64(0, 0))}, list(f64(0, 0))},
		{call{op: "ReduceProd", in: list(f64(0, 2, 3))}, list(f64(6, 0, 0))},
		{call{op: "ReduceProd", in: list(f64(0, 0, 3))}, list(f64(0, 0, 0))},
		{call{op: "GlobalMaxPool", in: list(plane(3, 1, 3, 3))},
			list(plane(third, 0, third, third))},
		{call{op: "MaxPool", in: list(plane(1, 1)), attrs: op.Attrs{
			op.IntsAttr("kernel_shape", 2)}}, list(plane(1, 0))},
		{call{op: "Pow", in: list(f64(0, 2, -2), f64(0, 1, 2))},
			list(f64(0, 1, -4), f64(0, 2*math.Log(2), 0))},
	} {
		t.Run(c.String(), func(t *testing.T) {
			f := build(t, c.call, tensor.Float64, false)
			for _, s := range f.seed {
				for i := range tensor.As[float64](s) {
					tensor.As[float64](s)[i] = 1
				}
			}
			expect(t, f.gradients(t, every(len(f.of)), every(len(f.by))), c.want...)
		})
	}
}
