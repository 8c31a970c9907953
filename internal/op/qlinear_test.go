package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func u8(shape []int, v ...uint8) *tensor.Tensor  { return tensor.From(v, shape...) }
func i8(shape []int, v ...int8) *tensor.Tensor   { return tensor.From(v, shape...) }
func i32(shape []int, v ...int32) *tensor.Tensor { return tensor.From(v, shape...) }

func TestQLinear(t *testing.T) {
	one := tensor.Scalar[float32](1)
	half, zero, mid := tensor.Scalar[float32](0.5), tensor.Scalar[uint8](0),
		tensor.Scalar[uint8](128)
	x := u8([]int{1, 1, 3}, 130, 126, 128)
	runCases(t, []evalCase{
		{op: "MatMulInteger", in: list(u8([]int{1, 3}, 11, 7, 3), u8([]int{3, 1}, 1, 4, 2),
			tensor.Scalar[uint8](12)),
			want: list(i32([]int{1, 1}, -39))},
		{op: "MatMulInteger", name: "zero point a row",
			in:   list(i8([]int{2, 1}, 1, 2), i8([]int{1, 1}, 3), i8([]int{2}, 1, -1)),
			want: list(i32([]int{2, 1}, 0, 9))},
		{op: "MatMulInteger", name: "zero points",
			in:  list(i8([]int{2, 1}, 1, 2), i8([]int{1, 1}, 3), i8([]int{3}, 1, 1, 1)),
			err: ErrInput},
		{op: "MatMulInteger", name: "floats", in: list(seq(1, 1), seq(1, 1)), err: ErrInput},
		{op: "ConvInteger", in: list(x, u8([]int{1, 1, 2}, 1, 2), mid),
			want: list(i32([]int{1, 1, 2}, -2, -2))},
		{op: "QLinearMatMul", in: list(u8([]int{1, 2}, 130, 127), half, mid, u8([]int{2, 1}, 3, 4),
			one, zero, half, u8([]int{}, 10)),
			want: list(u8([]int{1, 1}, 12))},
		{op: "QLinearMatMul", name: "saturates",
			in: list(u8([]int{1, 1}, 255), one, zero, u8([]int{1, 2}, 2, 0), one, zero, one,
				u8([]int{}, 3)),
			want: list(u8([]int{1, 2}, 255, 3))},
		{op: "QLinearMatMul", name: "scale a column, ties to even",
			in: list(i8([]int{1, 1}, 1), one, i8([]int{}, 0), i8([]int{1, 2}, 1, 1),
				vec(2.5, 3.5), i8([]int{}, 0), one, i8([]int{}, -1)),
			want: list(i8([]int{1, 2}, 1, 3))},
		{op: "QLinearConv", in: list(x, half, mid, u8([]int{2, 1, 1}, 2, 4), vec(1, 0.5),
			u8([]int{2}, 1, 0), half, u8([]int{}, 100),
			i32([]int{2}, 2, -4)), want: list(u8([]int{1, 2, 3}, 104, 100, 102, 102, 94, 98))},
		{op: "QLinearConv", name: "ties to even",
			in: list(u8([]int{1, 1, 4}, 1, 3, 5, 7), half, zero, u8([]int{1, 1, 1}, 1), one, zero,
				one, zero), want: list(u8([]int{1, 1, 4}, 0, 2, 2, 4))},
		{op: "QLinearConv", name: "bias type",
			in:  list(x, half, mid, u8([]int{1, 1, 1}, 2), one, zero, half, zero, vec(1)),
			err: ErrInput},
	})
}

// TestGrid states weir:Grid in numbers: rounded to even, saturated, without a -0, and the least for
// NaN.
func TestGrid(t *testing.T) {
	x := f32([]int{1, 2, 4}, 1, 3, -0.1, 1e9, nan, 0.4, -7, 9)
	want := f32([]int{1, 2, 4}, 0, 4, 0, 65533*2, -500, 0.5, -7, 9)
	zero := tensor.From([]uint16{2, 1000}, 2)
	got := evalFused(t, "Grid", x, vec(2, 0.5), zero)
	same(t, "Grid", want, got)
	if v := tensor.As[float32](got)[2]; math.Signbit(float64(v)) {
		t.Error("-0.1 became -0")
	}
	signed := evalFused(t, "Grid", x, vec(1, 1), tensor.From([]int8{0, 5}, 2))
	same(t, "Grid of int8", f32([]int{1, 2, 4}, 1, 3, 0, 127, -133, 0, -7, 9), signed)
}

// evalFused evaluates an operator of weir's domain.
func evalFused(t *testing.T, name string, in ...*tensor.Tensor) *tensor.Tensor {
	t.Helper()
	out, err := rawEval(t, &Call{Domain: FusedDomain, Type: name, Version: 1, NumIn: len(in),
		NumOut: 1}, in)
	if err != nil {
		t.Fatal(err)
	}
	return out[0]
}

// TestFusedBytes states weir's operators on bytes in numbers.
func TestFusedBytes(t *testing.T) {
	one, zero := tensor.Scalar[float32](1), tensor.Scalar[uint8](0)
	x, backwards := u8([]int{1, 2, 2}, 10, 20, 30, 250), tensor.From(make([]uint8, 256), 256)
	for i := range backwards.Data {
		backwards.Data[i] = byte(255 - i)
	}
	for _, c := range []struct {
		name string
		in   []*tensor.Tensor
		want *tensor.Tensor
	}{
		// 3.5 and 8.5 are ties
		{"Rescale", list(x, f32([]int{1}, 0.25), f32([]int{1}, 1), u8([]int{}, 3)),
			u8([]int{1, 2, 2}, 7, 9, 11, 67)},
		{"Rescale", list(x, f32([]int{2}, 1, -1), f32([]int{2}, 0, 40), u8([]int{}, 0)),
			u8([]int{1, 2, 2}, 10, 20, 10, 0)},
		{"Rescale", list(x, f32([]int{1}, 1), f32([]int{1}, 0), tensor.Scalar[int8](-3)),
			tensor.From(list[int8](7, 17, 27, 127), 1, 2, 2)},
		{"Table", list(x, backwards), u8([]int{1, 2, 2}, 245, 235, 225, 5)},
		{"QLinearAdd", list(x, one, tensor.Scalar[uint8](10), x, tensor.Scalar[float32](2), zero,
			tensor.Scalar[float32](2), tensor.Scalar[uint8](1)),
			u8([]int{1, 2, 2}, 11, 26, 41, 255)},
		{"QLinearAdd", list(u8([]int{4}, 1, 3, 5, 7), one, zero, u8([]int{4}, 1, 3, 5, 7), one,
			zero, tensor.Scalar[float32](4), zero), u8([]int{4}, 0, 2, 2, 4)}, // all are ties
		{"QLinearConv", list(x, one, zero, u8([]int{1, 2, 1}, 1, 1), one, zero, one, zero, nil,
			f32([]int{1}, 0.5), f32([]int{1}, 0), u8([]int{}, 5)),
			u8([]int{1, 1, 2}, 25, 133)}, // 270 saturates between the two stages
	} {
		e := &Eval{Call: &Call{Domain: FusedDomain, Type: c.name, Version: 1, NumIn: len(c.in),
			NumOut: 1}, In: c.in, Out: make([]*tensor.Tensor, 1)}
		o, err := Lookup(FusedDomain, c.name, 1)
		if err == nil {
			err = o.Eval(e)
		}
		if err != nil || !tensor.Equal(e.Out[0], c.want) {
			t.Errorf("%s: got %v, %v, want %v", c.name, e.Out[0], err, c.want)
		}
	}
}
