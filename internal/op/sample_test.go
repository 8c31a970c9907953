package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestGridSample(t *testing.T) {
	image := f32([]int{1, 1, 1, 3}, 1, 2, 4)
	nan := float32(math.NaN())
	at := func(x ...float32) *tensor.Tensor {
		v := []float32{}
		for _, g := range x {
			v = append(v, g, 0)
		}
		return f32([]int{1, 1, len(x), 2}, v...)
	}
	row := func(v ...float32) []*tensor.Tensor { return list(f32([]int{1, 1, 1, len(v)}, v...)) }
	attrs := func(mode, padding string, corners int64) Attrs {
		return Attrs{StringAttr("mode", mode), StringAttr("padding_mode", padding),
			IntAttr("align_corners", corners)}
	}
	runCases(t, []evalCase{
		{op: "GridSample", name: "a grid of words", in: list(image,
			tensor.FromStrings([]string{"0", "0"}, 1, 1, 1, 2)), err: ErrInput},
		{op: "GridSample", in: list(image, at(0, -2.0/3, 1, -1)), want: row(2, 1, 2, 0.5)},
		{op: "GridSample", name: "corners", attrs: attrs("linear", "zeros", 1),
			in: list(image, at(-1, -0.5, 1, 1.5)), want: row(1, 1.5, 4, 2)},
		{op: "GridSample", name: "border", attrs: attrs("linear", "border", 1),
			in: list(image, at(-9, 9)), want: row(1, 4)},
		{op: "GridSample", name: "reflection", attrs: attrs("linear", "reflection", 1),
			in: list(image, at(2, 1.5, -4)), want: row(2, 3, 2)},
		{op: "GridSample", name: "nearest", attrs: attrs("nearest", "zeros", 0),
			in: list(image, at(0.1, 0.5, 1.5)), want: row(2, 4, 0)},
		{op: "GridSample", name: "cubic at pixels", attrs: attrs("cubic", "border", 1),
			in: list(image, at(-1, 0, 1)), want: row(1, 2, 4)},
		{op: "GridSample", name: "names of opset 16", version: 16,
			attrs: attrs("bilinear", "zeros", 1), in: list(image, at(-0.5)), want: row(1.5)},
		{op: "GridSample", name: "nowhere", attrs: attrs("nearest", "zeros", 0),
			in: list(image, at(nan, 1e30)), want: row(0, 0)},
		{op: "GridSample", name: "mode", attrs: attrs("area", "zeros", 0), in: list(image, at(0)),
			err: ErrAttr},
		{op: "GridSample", name: "grid", in: list(image, seq(1, 1, 1, 3)), err: ErrInput},
	})
}

func TestCenterCropPad(t *testing.T) {
	runCases(t, []evalCase{
		{op: "CenterCropPad", in: list(seq(1, 5), i64(2, 2)),
			want: list(f32([]int{2, 2}, 1, 2, 0, 0))},
		{op: "CenterCropPad", name: "axes", attrs: Attrs{IntsAttr("axes", -1)},
			in: list(f32([]int{1, 2}, 1, 2), i64(5)), want: list(f32([]int{1, 5}, 0, 1, 2, 0, 0))},
		{op: "CenterCropPad", name: "sizes", in: list(seq(1, 5), i64(2)), err: ErrInput},
		{op: "CenterCropPad", name: "absurd", in: list(seq(1, 5), i64(1<<40, 1<<40)),
			err: tensor.ErrShape},
	})
}

func TestRandom(t *testing.T) {
	draw := func(op string, attrs ...Attr) []float64 {
		t.Helper()
		attrs = append(attrs, IntsAttr("shape", 100, 100))
		call := evalCase{op: op, attrs: attrs}.call()
		out, err := rawEval(t, call, nil)
		if err != nil {
			t.Fatal(err)
		}
		rulesAgree(t, call, nil, out)
		v, _ := out[0].Floats()
		return v
	}
	mean := func(v []float64, of func(float64) float64) float64 {
		var sum float64
		for _, x := range v {
			sum += of(x)
		}
		return sum / float64(len(v))
	}
	self := func(x float64) float64 { return x }
	seed := FloatAttr("seed", 3)
	v := draw("RandomNormal", seed, FloatAttr("mean", 5), FloatAttr("scale", 2))
	if m := mean(v, self); math.Abs(m-5) > 0.1 {
		t.Errorf("normal: mean %v", m)
	}
	if s := mean(v, func(x float64) float64 { return (x - 5) * (x - 5) }); math.Abs(s-4) > 0.3 {
		t.Errorf("normal: variance %v", s)
	}
	u := draw("RandomUniform", seed, FloatAttr("low", -1), FloatAttr("high", 3))
	if m := mean(u, self); math.Abs(m-1) > 0.1 {
		t.Errorf("uniform: mean %v", m)
	}
	for _, x := range u {
		if x < -1 || x > 3 {
			t.Fatalf("uniform: %v", x)
		}
	}
	again := draw("RandomUniform", seed, FloatAttr("low", -1), FloatAttr("high", 3))
	other := draw("RandomUniform", FloatAttr("seed", 4), FloatAttr("low", -1), FloatAttr("high", 3))
	if again[0] != u[0] || other[0] == u[0] {
		t.Errorf("seeds: %v, again %v, other %v", u[0], again[0], other[0])
	}
	runCases(t, []evalCase{
		{op: "RandomNormalLike", in: list(seq(2, 3)), want: []*tensor.Tensor{nil}},
		{op: "RandomUniformLike", attrs: Attrs{IntAttr("dtype", int64(tensor.Float16))},
			in: list(i64(1)), want: []*tensor.Tensor{nil}},
		{op: "RandomUniform", name: "type", attrs: Attrs{IntAttr("dtype", int64(tensor.Int32))},
			err: ErrUnsupported},
		{op: "RandomUniform", name: "absurd", attrs: Attrs{IntsAttr("shape", 1<<40, 1<<40)},
			err: tensor.ErrShape},
		{op: "BitCast", version: 26, attrs: Attrs{IntAttr("to", int64(tensor.Int32))},
			in:   list(f32([]int{2}, 1, -0.5)),
			want: list(tensor.From(list[int32](0x3f800000, -0x41000000), 2))},
		{op: "BitCast", version: 26, name: "width",
			attrs: Attrs{IntAttr("to", int64(tensor.Int64))}, in: list(f32([]int{2}, 1, 2)),
			err: ErrInput},
	})
}
