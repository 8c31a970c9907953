package op

import (
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func u8(shape []int, v ...uint8) *tensor.Tensor  { return tensor.From(v, shape...) }
func i8(shape []int, v ...int8) *tensor.Tensor   { return tensor.From(v, shape...) }
func i32(shape []int, v ...int32) *tensor.Tensor { return tensor.From(v, shape...) }

func TestQLinear(t *testing.T) {
	one := tensor.Scalar[float32](1)
	half, zero, mid := tensor.Scalar[float32](0.5), tensor.Scalar[uint8](0), tensor.Scalar[uint8](128)
	x := u8([]int{1, 1, 3}, 130, 126, 128)
	runCases(t, []evalCase{
		{op: "MatMulInteger", in: list(u8([]int{1, 3}, 11, 7, 3), u8([]int{3, 1}, 1, 4, 2), tensor.Scalar[uint8](12)),
			want: list(i32([]int{1, 1}, -39))},
		{op: "MatMulInteger", name: "zero point a row", in: list(i8([]int{2, 1}, 1, 2), i8([]int{1, 1}, 3), i8([]int{2}, 1, -1)),
			want: list(i32([]int{2, 1}, 0, 9))},
		{op: "MatMulInteger", name: "zero points", in: list(i8([]int{2, 1}, 1, 2), i8([]int{1, 1}, 3), i8([]int{3}, 1, 1, 1)), err: ErrInput},
		{op: "MatMulInteger", name: "floats", in: list(seq(1, 1), seq(1, 1)), err: ErrInput},
		{op: "ConvInteger", in: list(x, u8([]int{1, 1, 2}, 1, 2), mid), want: list(i32([]int{1, 1, 2}, -2, -2))},
		{op: "QLinearMatMul", in: list(u8([]int{1, 2}, 130, 127), half, mid, u8([]int{2, 1}, 3, 4), one, zero, half, u8([]int{}, 10)),
			want: list(u8([]int{1, 1}, 12))},
		{op: "QLinearMatMul", name: "saturates", in: list(u8([]int{1, 1}, 255), one, zero, u8([]int{1, 2}, 2, 0), one, zero, one, u8([]int{}, 3)),
			want: list(u8([]int{1, 2}, 255, 3))},
		{op: "QLinearMatMul", name: "scale a column, ties to even", in: list(i8([]int{1, 1}, 1), one, i8([]int{}, 0), i8([]int{1, 2}, 1, 1),
			vec(2.5, 3.5), i8([]int{}, 0), one, i8([]int{}, -1)), want: list(i8([]int{1, 2}, 1, 3))},
		{op: "QLinearConv", in: list(x, half, mid, u8([]int{2, 1, 1}, 2, 4), vec(1, 0.5), u8([]int{2}, 1, 0), half, u8([]int{}, 100),
			i32([]int{2}, 2, -4)), want: list(u8([]int{1, 2, 3}, 104, 100, 102, 102, 94, 98))},
		{op: "QLinearConv", name: "bias type", in: list(x, half, mid, u8([]int{1, 1, 1}, 2), one, zero, half, zero, vec(1)), err: ErrInput},
	})
}
