package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestActivations(t *testing.T) {
	x := vec(-4, -1, 0, 1, 4)
	s := func(v float64) float32 { return float32(1 / (1 + math.Exp(-v))) }
	e := func(v float64) float32 { return float32(math.Expm1(v)) }
	runCases(t, []evalCase{
		{op: "Relu", in: list(x), want: list(vec(0, 0, 0, 1, 4))},
		{op: "Relu", name: "NaN stays", in: list(vec(nan)), want: list(vec(nan))},
		{op: "Relu", name: "int", in: list(i64(-2, 2)), want: list(i64(0, 2))},
		{op: "LeakyRelu", in: list(x), want: list(vec(-0.04, -0.01, 0, 1, 4))},
		{op: "LeakyRelu", name: "alpha", attrs: Attrs{FloatAttr("alpha", 0.5)}, in: list(x),
			want: list(vec(-2, -0.5, 0, 1, 4))},
		{op: "PRelu", in: list(f32([]int{2, 2}, -1, 2, -3, -4), vec(0.5, 2)),
			want: list(f32([]int{2, 2}, -0.5, 2, -1.5, -8))},
		{op: "PRelu", name: "slope too wide", in: list(vec(1), vec(1, 2)), err: ErrInput},
		{op: "Elu", in: list(x), want: list(vec(e(-4), e(-1), 0, 1, 4))},
		{op: "Celu", attrs: Attrs{FloatAttr("alpha", 2)}, in: list(x),
			want: list(vec(2*e(-2), 2*e(-0.5), 0, 1, 4))},
		{op: "Selu", in: list(vec(-1, 1)), want: list(vec(1.0507010*1.6732632*e(-1), 1.0507010))},
		{op: "ThresholdedRelu", in: list(x), want: list(vec(0, 0, 0, 0, 4))},
		{op: "Sigmoid", in: list(x), want: list(vec(s(-4), s(-1), 0.5, s(1), s(4)))},
		{op: "Sigmoid", name: "far out", in: list(vec(-1000, 1000)), want: list(vec(0, 1))},
		{op: "HardSigmoid", in: list(x), want: list(vec(0, 0.3, 0.5, 0.7, 1))},
		{op: "HardSwish", in: list(x), want: list(vec(0, -1./3, 0, 2./3, 4))},
		{op: "Tanh", in: list(vec(0, 1)), want: list(vec(0, 0.7615941559))},
		{op: "Softplus", in: list(vec(0, 1000, -1000)), want: list(vec(0.6931471806, 1000, 0))},
		{op: "Softsign", in: list(x), want: list(vec(-0.8, -0.5, 0, 0.5, 0.8))},
		{op: "Gelu", in: list(vec(-1, 0, 1)), want: list(vec(-0.1586552539, 0, 0.8413447461))},
		{op: "Gelu", name: "tanh", attrs: Attrs{StringAttr("approximate", "tanh")},
			in:   list(vec(-1, 1)),
			want: list(vec(-0.1588080094, 0.8411919906))},
		{op: "Gelu", name: "unknown", attrs: Attrs{StringAttr("approximate", "sin")}, in: list(x),
			err: ErrAttr},
		{op: "Mish", in: list(vec(0, 1)), want: list(vec(0, 0.8650983883))},
		{op: "Swish", in: list(vec(0, 1)), want: list(vec(0, s(1)))},
		{op: "Shrink", attrs: Attrs{FloatAttr("bias", 1), FloatAttr("lambd", 1.5)}, in: list(x),
			want: list(vec(-3, 0, 0, 0, 3))},
		{op: "Dropout", in: list(x), want: list(x, truths(true, true, true, true, true))},
		{op: "Dropout", name: "mask has the data's type", version: 7, in: list(vec(3)),
			want: list(vec(3), vec(1))},
		{op: "Dropout", name: "training draws as NumPy does", attrs: Attrs{IntAttr("seed", 0)},
			in:   list(vec(1, 2, 3, 4, 5), tensor.Scalar[float32](0.5), tensor.Scalar(true)),
			want: list(vec(2, 4, 6, 8, 0), truths(true, true, true, true, false))},
		{op: "Dropout", name: "ratio", in: list(x, tensor.Scalar[float32](1), tensor.Scalar(true)),
			err: ErrInput},
		{op: "Dropout", name: "training_mode false",
			in: list(x, tensor.Scalar[float32](0.5), tensor.Scalar(false)), want: list(x)},
		{op: "SwiGLU", attrs: Attrs{FloatAttr("alpha", 0)}, in: list(vec(2, 4), vec(3, -1)),
			want: list(vec(3, -2))},
		{op: "SwiGLU", name: "shapes", in: list(vec(2, 4), vec(3)), err: ErrInput},
	})
}

func TestClip(t *testing.T) {
	x := vec(-4, -1, 0, 1, 4)
	lo, hi := tensor.Scalar[float32](-2), tensor.Scalar[float32](2)
	bounds := Attrs{FloatAttr("min", -2), FloatAttr("max", 2)}
	runCases(t, []evalCase{
		{op: "Clip", in: list(x, lo, hi), want: list(vec(-2, -1, 0, 1, 2))},
		{op: "Clip", name: "attributes", version: 9, attrs: bounds, in: list(x),
			want: list(vec(-2, -1, 0, 1, 2))},
		{op: "Clip", name: "attributes of a newer version", version: 11, attrs: bounds, in: list(x),
			want: list(x)},
		{op: "Clip", name: "no minimum", in: list(x, nil, hi), want: list(vec(-4, -1, 0, 1, 2))},
		{op: "Clip", name: "no bounds", in: list(x), want: list(x)},
		{op: "Clip", name: "infinities without bounds", in: list(vec(inf, -inf, nan)),
			want: list(vec(math.MaxFloat32, -math.MaxFloat32, nan))},
		{op: "Clip", name: "infinities before inputs", version: 6, in: list(vec(inf, -inf)),
			want: list(vec(math.MaxFloat32, -math.MaxFloat32))},
		{op: "Clip", name: "infinite bounds", version: 6,
			attrs: Attrs{FloatAttr("min", -inf), FloatAttr("max", inf)}, in: list(vec(inf, -inf)),
			want: list(vec(inf, -inf))},
		{op: "Clip", name: "infinite half", in: list(halves(inf, -1)),
			want: list(halves(65504, -1))},
		{op: "Clip", name: "max wins", in: list(x, hi, lo), want: list(vec(-2, -2, -2, -2, -2))},
		{op: "Clip", name: "int",
			in:   list(i64(-5, 5), tensor.Scalar[int64](-1), tensor.Scalar[int64](1)),
			want: list(i64(-1, 1))},
		{op: "Clip", name: "half", version: 6, attrs: bounds, in: list(halves(-3, 3)),
			want: list(halves(-2, 2))},
		{op: "Clip", name: "vector bound", in: list(x, x), err: ErrInput},
	})
}

func TestSoftmax(t *testing.T) {
	e := float32(math.E)
	x := f32([]int{2, 2}, 0, 1, 1, 1)
	rows := f32([]int{2, 2}, 1/(1+e), e/(1+e), 0.5, 0.5)
	cols := f32([]int{2, 2}, 1/(1+e), 0.5, e/(1+e), 0.5)
	flat := f32([]int{2, 2}, 1/(1+3*e), e/(1+3*e), e/(1+3*e), e/(1+3*e))
	runCases(t, []evalCase{
		{op: "Softmax", in: list(x), want: list(rows)},
		{op: "Softmax", name: "axis 0", attrs: Attrs{IntAttr("axis", 0)}, in: list(x),
			want: list(cols)},
		{op: "Softmax", name: "flattened at 0", version: 11, attrs: Attrs{IntAttr("axis", 0)},
			in: list(x), want: list(flat)},
		{op: "Softmax", name: "flattened at the end", version: 9, attrs: Attrs{IntAttr("axis", 2)},
			in:   list(x),
			want: list(f32([]int{2, 2}, 1, 1, 1, 1))},
		{op: "Softmax", name: "no overflow", in: list(vec(1000, 1000)), want: list(vec(0.5, 0.5))},
		{op: "Softmax", name: "bad axis", attrs: Attrs{IntAttr("axis", 2)}, in: list(x),
			err: ErrAttr},
		{op: "LogSoftmax", in: list(vec(0, 0)), want: list(vec(-0.6931471806, -0.6931471806))},
		{op: "Hardmax", in: list(f32([]int{2, 3}, 1, 3, 3, 2, 1, 0)),
			want: list(f32([]int{2, 3}, 0, 1, 0, 1, 0, 0))},
	})
}
