package op

import (
	"math"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestDeformConvWithoutOffsets is convolution.
func TestDeformConvWithoutOffsets(t *testing.T) {
	r := caller{rand.New(rand.NewPCG(9, 10))}
	attrs := Attrs{IntsAttr("strides", 2, 1), IntsAttr("dilations", 1, 2),
		IntsAttr("pads", 1, 0, 2, 1), IntAttr("group", 2)}
	x, w, b := r.tensor(tensor.Float32, []int{2, 4, 6, 7}),
		r.tensor(tensor.Float32, []int{6, 2, 3, 2}), r.tensor(tensor.Float32, []int{6})
	want, err := rawEval(t, &Call{Type: "Conv", Version: latest, Attrs: attrs, NumIn: 3, NumOut: 1},
		list(x, w, b))
	if err != nil {
		t.Fatal(err)
	}
	s := want[0].Shape
	offset := f32([]int{2, 12, s[2], s[3]}, make([]float32, 2*12*s[2]*s[3])...)
	got, err := rawEval(t, &Call{Type: "DeformConv", Version: latest, Attrs: attrs, NumIn: 4,
		NumOut: 1}, list(x, w, offset, b))
	if err != nil {
		t.Fatal(err)
	}
	if err := tensor.Close(got[0], want[0], 1e-5, 1e-5); err != nil {
		t.Error(err)
	}
}

func TestDeformConv(t *testing.T) {
	x, w := f32([]int{1, 1, 1, 3}, 1, 2, 4), ones(1, 1, 1, 1)
	moved := f32([]int{1, 2, 1, 3}, 0, 0, 0, 0.5, -0.5, 0.5)
	volume := f32([]int{1, 1, 1, 1, 2}, 1, 3)
	runCases(t, []evalCase{
		{op: "DeformConv", in: list(x, w, moved), want: list(f32([]int{1, 1, 1, 3}, 1.5, 1.5, 2))},
		{op: "DeformConv", name: "mask",
			in:   list(x, w, moved, vec(1), f32([]int{1, 1, 1, 3}, 2, 0, 1)),
			want: list(f32([]int{1, 1, 1, 3}, 4, 1, 3))},
		{op: "DeformConv", name: "three axes",
			in:   list(volume, ones(1, 1, 1, 1, 1), f32([]int{1, 3, 1, 1, 2}, 0, 0, 0, 0.25, 1, 0)),
			want: list(f32([]int{1, 1, 1, 1, 2}, 3, 2.25))},
		{op: "DeformConv", name: "nowhere",
			in:   list(x, w, f32([]int{1, 2, 1, 3}, 0, 0, 0, float32(math.NaN()), 1e30, -9)),
			want: list(f32([]int{1, 1, 1, 3}, 0, 0, 0))},
		{op: "DeformConv", name: "offsets", in: list(x, w, f32([]int{1, 1, 1, 3}, 0, 0, 0)),
			err: ErrInput},
	})
}

func TestAffineGrid(t *testing.T) {
	identity := f32([]int{1, 2, 3}, 1, 0, 0, 0, 1, 0)
	turned := f32([]int{1, 2, 3}, 0, 1, 10, 1, 0, 20)
	corners := Attrs{IntAttr("align_corners", 1)}
	runCases(t, []evalCase{
		{op: "AffineGrid", attrs: corners, in: list(identity, i64(1, 1, 2, 3)),
			want: list(f32([]int{1, 2, 3, 2}, -1, -1, 0, -1, 1, -1, -1, 1, 0, 1, 1, 1))},
		{op: "AffineGrid", name: "edges", in: list(identity, i64(1, 1, 1, 2)),
			want: list(f32([]int{1, 1, 2, 2}, -0.5, 0, 0.5, 0))},
		{op: "AffineGrid", name: "turned", attrs: corners, in: list(turned, i64(1, 1, 1, 2)),
			want: list(f32([]int{1, 1, 2, 2}, 9, 19, 9, 21))},
		{op: "AffineGrid", name: "size", in: list(identity, i64(1, 1, 2)), err: ErrInput},
		{op: "AffineGrid", name: "theta", in: list(identity, i64(1, 1, 2, 2, 2)), err: ErrInput},
	})
}

func TestRegions(t *testing.T) {
	x := seq(1, 1, 4, 4)
	at := func(v ...float32) *tensor.Tensor { return f32([]int{len(v) / 4, 4}, v...) }
	full := Attrs{IntAttr("output_height", 2), IntAttr("output_width", 2),
		IntAttr("sampling_ratio", 1)}
	old := append(Attrs{StringAttr("coordinate_transformation_mode", "output_half_pixel")}, full...)
	runCases(t, []evalCase{
		{op: "RoiAlign", attrs: full, in: list(x, at(0, 0, 4, 4), i64(0)),
			want: list(f32([]int{1, 1, 2, 2}, 2.5, 4.5, 10.5, 12.5))},
		{op: "RoiAlign", name: "half a pixel later", attrs: old,
			in:   list(x, at(0, 0, 2, 2), i64(0)),
			want: list(f32([]int{1, 1, 2, 2}, 2.5, 3.5, 6.5, 7.5))},
		{op: "RoiAlign", name: "version 10", version: 10, attrs: full,
			in:   list(x, at(0, 0, 2, 2), i64(0)),
			want: list(f32([]int{1, 1, 2, 2}, 2.5, 3.5, 6.5, 7.5))},
		{op: "RoiAlign", name: "max of weighted pixels",
			attrs: append(Attrs{StringAttr("mode", "max")}, full[2]),
			in:    list(x, at(1, 1, 2, 2), i64(0)),
			want:  list(f32([]int{1, 1, 1, 1}, 5))},
		{op: "RoiAlign", name: "empty", in: list(x, at(3, 3, 1, 1), i64(0)),
			want: list(f32([]int{1, 1, 1, 1}, 0))},
		{op: "RoiAlign", name: "on the border and behind it", attrs: full,
			in:   list(x, at(3.5, -2.5, 5.5, 1.5), i64(0)),
			want: list(f32([]int{1, 1, 2, 2}, 0, 0, 3, 0))},
		{op: "RoiAlign", name: "the last sample that counts",
			attrs: append(Attrs{IntAttr("output_height", 1), IntAttr("output_width", 1)}, full[2]),
			in:    list(x, at(3.5, -2, 5.5, 1), i64(0)),
			want:  list(f32([]int{1, 1, 1, 1}, 3))},
		{op: "RoiAlign", name: "huge", in: list(x, at(0, 0, 1e30, 1), i64(0)), err: ErrInput},
		{op: "RoiAlign", name: "no number", in: list(x, at(0, 0, float32(math.NaN()), 1), i64(0)),
			err: ErrInput},
		{op: "RoiAlign", name: "image", in: list(x, at(0, 0, 1, 1), i64(1)), err: ErrInput},
		{op: "RoiAlign", name: "mode", attrs: Attrs{StringAttr("mode", "sum")},
			in: list(x, at(0, 0, 1, 1), i64(0)), err: ErrAttr},
		{op: "MaxRoiPool", attrs: Attrs{IntsAttr("pooled_shape", 2, 2)},
			in:   list(x, f32([]int{1, 5}, 0, 0, 0, 2, 3)),
			want: list(f32([]int{1, 1, 2, 2}, 5, 6, 13, 14))},
		{op: "MaxRoiPool", name: "scale",
			attrs: Attrs{IntsAttr("pooled_shape", 1, 1), FloatAttr("spatial_scale", 0.5)},
			in:    list(x, f32([]int{1, 5}, 0, 0, 0, 2, 2)),
			want:  list(f32([]int{1, 1, 1, 1}, 5))},
		{op: "MaxRoiPool", name: "outside", attrs: Attrs{IntsAttr("pooled_shape", 1, 1)},
			in:   list(x, f32([]int{1, 5}, 0, 9, 9, 12, 12)),
			want: list(f32([]int{1, 1, 1, 1}, 0))},
		{op: "MaxRoiPool", name: "no shape", in: list(x, f32([]int{1, 5}, 0, 0, 0, 2, 2)),
			err: ErrAttr},
	})
}

func TestDet(t *testing.T) {
	runCases(t, []evalCase{
		{op: "Det", in: list(f32([]int{2, 2}, 1, 2, 3, 4)), want: list(f32(nil, -2))},
		{op: "Det", name: "batch", in: list(f32([]int{2, 2, 2}, 0, 1, 1, 0, 2, 4, 1, 2)),
			want: list(vec(-1, 0))},
		{op: "Det", name: "empty", in: list(f32([]int{0, 0})), want: list(f32(nil, 1))},
		{op: "Det", name: "square", in: list(seq(2, 3)), err: ErrInput},
	})
}

func TestCol2Im(t *testing.T) {
	runCases(t, []evalCase{
		{op: "Col2Im", in: list(ones(1, 4, 4), i64(3, 3), i64(2, 2)),
			want: list(f32([]int{1, 1, 3, 3}, 1, 2, 1, 2, 4, 2, 1, 2, 1))},
		{op: "Col2Im", name: "strides and integers", attrs: Attrs{IntsAttr("strides", 1, 2)},
			in:   list(tensor.From([]int64{1, 2, 3, 4}, 1, 2, 2), i64(1, 4), i64(1, 2)),
			want: list(tensor.From([]int64{1, 3, 2, 4}, 1, 1, 1, 4))},
		{op: "Col2Im", name: "pads", attrs: Attrs{IntsAttr("pads", 0, 1, 0, 1)},
			in:   list(ones(1, 2, 3), i64(1, 2), i64(1, 2)),
			want: list(f32([]int{1, 1, 1, 2}, 2, 2))},
		{op: "Col2Im", name: "blocks", in: list(ones(1, 4, 3), i64(3, 3), i64(2, 2)),
			err: ErrInput},
		{op: "Col2Im", name: "rank", in: list(ones(1, 4, 4), i64(3, 3, 3), i64(2, 2)),
			err: ErrInput},
	})
}

func TestTensorScatter(t *testing.T) {
	cache := f32([]int{2, 3, 1}, 1, 2, 3, 4, 5, 6)
	update := f32([]int{2, 2, 1}, 10, 20, 30, 40)
	runCases(t, []evalCase{
		{op: "TensorScatter", in: list(cache, update),
			want: list(f32([]int{2, 3, 1}, 10, 20, 3, 30, 40, 6))},
		{op: "TensorScatter", name: "indices", in: list(cache, update, i64(1, 0)),
			want: list(f32([]int{2, 3, 1}, 1, 10, 20, 30, 40, 6))},
		{op: "TensorScatter", name: "circular", attrs: Attrs{StringAttr("mode", "circular")},
			in:   list(cache, update, i64(2, 4)),
			want: list(f32([]int{2, 3, 1}, 20, 2, 10, 4, 30, 40))},
		{op: "TensorScatter", name: "beyond the end", in: list(cache, update, i64(2, 0)),
			err: ErrInput},
		{op: "TensorScatter", name: "batch axis", attrs: Attrs{IntAttr("axis", 0)},
			in: list(cache, update), err: ErrAttr},
		{op: "TensorScatter", name: "too long", in: list(cache, seq(2, 4, 1)), err: ErrInput},
	})
}
