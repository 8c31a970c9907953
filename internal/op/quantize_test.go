package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestQuantize(t *testing.T) {
	f := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	s := tensor.Scalar[float32]
	u8 := func(shape []int, v ...uint8) *tensor.Tensor { return tensor.From(v, shape...) }
	i8 := func(v ...int8) *tensor.Tensor { return tensor.From(v, len(v)) }
	runCases(t, []evalCase{
		{op: "QuantizeLinear",
			in:   list(f(0, 2, 3, 1000, -254, -1000), s(2), tensor.Scalar[uint8](128)),
			want: list(u8([]int{6}, 128, 129, 130, 255, 1, 0))},
		{op: "QuantizeLinear", name: "ties to even",
			in:   list(f(0.5, 1.5, 2.5, -0.5), s(1), tensor.Scalar[int8](0)),
			want: list(i8(0, 2, 2, 0))},
		{op: "QuantizeLinear", name: "no zero point", in: list(f(-3, 300), s(1)),
			want: list(u8([]int{2}, 0, 255))},
		{op: "QuantizeLinear", name: "axis", attrs: Attrs{IntAttr("axis", 0)},
			in:   list(f32([]int{2, 1}, 8, 8), f(2, 4), u8([]int{2}, 0, 1)),
			want: list(u8([]int{2, 1}, 4, 3))},
		{op: "QuantizeLinear", name: "blocks",
			attrs: Attrs{IntAttr("axis", 1), IntAttr("block_size", 2)},
			in:    list(f32([]int{1, 3}, 8, 8, 8), f32([]int{1, 2}, 2, 4)),
			want:  list(u8([]int{1, 3}, 4, 4, 2))},
		{op: "QuantizeLinear", name: "scale", in: list(seq(2, 2), f(1, 2, 3)), err: ErrInput},
		{op: "QuantizeLinear", name: "zero point", in: list(seq(2, 2), f(1, 2), u8([]int{1}, 0)),
			err: ErrInput},
		{op: "QuantizeLinear", name: "to int32", in: list(seq(2), s(1), tensor.Scalar[int32](0)),
			err: ErrUnsupported},
		{op: "DequantizeLinear",
			in:   list(u8([]int{3}, 0, 128, 255), s(2), tensor.Scalar[uint8](128)),
			want: list(f(-256, 0, 254))},
		{op: "DequantizeLinear", name: "axis",
			in:   list(u8([]int{1, 2}, 3, 3), f(1, 2), u8([]int{2}, 1, 0)),
			want: list(f32([]int{1, 2}, 2, 6))},
		{op: "DequantizeLinear", name: "int32", in: list(tensor.From(list[int32](-7), 1), s(0.5)),
			want: list(f(-3.5))},
		{op: "DynamicQuantizeLinear", in: list(f(0, 2, -3, -2.5, 1.34, 0.5)),
			want: list(u8([]int{6}, 153, 255, 0, 26, 221, 179), s(5.0/255),
				tensor.Scalar[uint8](153))},
		{op: "DynamicQuantizeLinear", name: "ties to even", in: list(f(0, 255, 0.5, 1.5, 2.5)),
			want: list(u8([]int{5}, 0, 255, 0, 2, 2), s(1), tensor.Scalar[uint8](0))},
		{op: "DynamicQuantizeLinear", name: "zero point to even", in: list(f(-2.5, 252.5)),
			want: list(u8([]int{2}, 0, 254), s(1), tensor.Scalar[uint8](2))},
		{op: "DynamicQuantizeLinear", name: "zeros", in: list(f(0, 0)),
			want: list(u8([]int{2}, 0, 0), s(1), tensor.Scalar[uint8](0))},
	})
}

func TestNonMaxSuppression(t *testing.T) {
	boxes := f32([]int{1, 6, 4}, 0, 0, 1, 1, 0, 0.1, 1, 1.1, 0, -0.1, 1, 0.9, 0, 10, 1, 11, 0, 10.1,
		1, 11.1, 0, 100, 1, 101)
	scores := f32([]int{1, 1, 6}, 0.9, 0.75, 0.6, 0.95, 0.5, 0.3)
	centers := f32([]int{1, 2, 4}, 0.5, 0.5, 1, 1, 0.5, 0.6, 1, 1)
	n, f := tensor.Scalar[int64], tensor.Scalar[float32]
	kept := func(v ...int64) *tensor.Tensor {
		rows := []int64{}
		for _, k := range v {
			rows = append(rows, 0, 0, k)
		}
		return tensor.From(rows, len(v), 3)
	}
	runCases(t, []evalCase{
		{op: "NonMaxSuppression", in: list(boxes, scores, n(3), f(0.5)), want: list(kept(3, 0, 5))},
		{op: "NonMaxSuppression", name: "limit", in: list(boxes, scores, n(2), f(0.5)),
			want: list(kept(3, 0))},
		{op: "NonMaxSuppression", name: "score",
			in: list(boxes, scores, n(math.MaxInt64), f(0.5), f(0.4)), want: list(kept(3, 0))},
		{op: "NonMaxSuppression", name: "overlap allowed", in: list(boxes, scores, n(9), f(1)),
			want: list(kept(3, 0, 1, 2, 4, 5))},
		{op: "NonMaxSuppression", name: "no limit means none", in: list(boxes, scores),
			want: list(kept())},
		{op: "NonMaxSuppression", name: "centers", attrs: Attrs{IntAttr("center_point_box", 1)},
			in: list(centers, f32([]int{1, 1, 2}, 0.1, 0.2), n(9), f(0.5)), want: list(kept(1))},
		{op: "NonMaxSuppression", name: "shapes", in: list(boxes, seq(1, 1, 5), n(9)),
			err: ErrInput},
		{op: "NonMaxSuppression", name: "threshold", in: list(boxes, scores, n(9), n(1)),
			err: ErrInput},
	})
}

// TestDequantizeOnOneGrid wants one scale for all elements to give what the same scale for each row
// gives.
func TestDequantizeOnOneGrid(t *testing.T) {
	for _, d := range []tensor.DType{tensor.Uint8, tensor.Int8} {
		all := make([]uint8, 3*256)
		for i := range all {
			all[i] = uint8(i * 7)
		}
		q, zero := tensor.FromCodes(d, all, 3, 256), tensor.FromCodes(d, []uint8{77, 77, 77}, 3)
		for _, scale := range []float32{0, 0.1, 3e38, float32(math.NaN()), float32(math.Inf(-1))} {
			rows := eval1(t, "DequantizeLinear", Attrs{IntAttr("axis", 0)}, q,
				tensor.From([]float32{scale, scale, scale}, 3), zero)
			one := eval1(t, "DequantizeLinear", nil, q, tensor.Scalar(scale),
				tensor.FromCodes(d, []uint8{77}))
			if err := tensor.Close(one, rows, 0, 0); err != nil {
				t.Errorf("%v, scale %v: %v", d, scale, err)
			}
		}
		empty := eval1(t, "DequantizeLinear", Attrs{IntAttr("axis", 0)},
			tensor.FromCodes(d, nil, 0, 4), tensor.From([]float32{}, 0))
		if empty.Len() != 0 {
			t.Errorf("%v: nothing gives %v", d, empty)
		}
	}
}
