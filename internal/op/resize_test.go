package op

import (
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestResize(t *testing.T) {
	text := func(kv ...string) Attrs {
		var as Attrs
		for i := 0; i < len(kv); i += 2 {
			as = append(as, StringAttr(kv[i], kv[i+1]))
		}
		return as
	}
	x, none := vec(1, 2, 3, 4), vec()
	const mode, coord, nearest = "mode", "coordinate_transformation_mode", "nearest_mode"
	runCases(t, []evalCase{
		{op: "Resize", in: list(x, nil, vec(2)), want: list(vec(1, 1, 2, 2, 3, 3, 4, 4))},
		{op: "Resize", name: "sizes", in: list(x, nil, nil, i64(2)), want: list(vec(1, 3))},
		{op: "Resize", name: "empty scales beside sizes", version: 11,
			in: list(x, none, none, i64(4)), want: list(x)},
		{op: "Resize", name: "strings",
			in:   list(tensor.FromStrings(list("a", "b"), 2), nil, nil, i64(3)),
			want: list(tensor.FromStrings(list("a", "a", "b"), 3))},
		{op: "Resize", name: "paddle", version: 11,
			attrs: text(coord, "asymmetric", nearest, "floor"),
			in:    list(seq(1, 1, 2, 2), none, vec(1, 1, 2, 2)),
			want:  list(f32([]int{1, 1, 4, 4}, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 3, 3, 2, 2, 3, 3))},
		{op: "Resize", name: "linear", attrs: text(mode, "linear"), in: list(x, nil, vec(2)),
			want: list(vec(1, 1.25, 1.75, 2.25, 2.75, 3.25, 3.75, 4))},
		{op: "Resize", name: "linear, corners aligned",
			attrs: text(mode, "linear", coord, "align_corners"),
			in:    list(vec(0, 3), nil, nil, i64(4)),
			want:  list(vec(0, 1, 2, 3))},
		{op: "Resize", name: "linear, antialiased",
			attrs: append(text(mode, "linear"), IntAttr("antialias", 1)),
			in:    list(x, nil, vec(0.5)),
			want:  list(vec(1.625, 3.375))},
		{op: "Resize", name: "cubic of a line",
			attrs: append(text(mode, "cubic"), FloatAttr("cubic_coeff_a", -0.5),
				IntAttr("exclude_outside", 1)),
			in: list(vec(5, 5, 5), nil, nil, i64(7)), want: list(vec(5, 5, 5, 5, 5, 5, 5))},
		{op: "Resize", name: "crop",
			attrs: append(text(mode, "linear", coord, "tf_crop_and_resize"),
				FloatAttr("extrapolation_value", 9)),
			in: list(x, vec(0, 4./3), nil, i64(3)), want: list(vec(1, 3, 9))},
		{op: "Resize", name: "axes", attrs: Attrs{IntsAttr("axes", 1)},
			in:   list(f32([]int{1, 2}, 1, 2), nil, vec(2)),
			want: list(f32([]int{1, 4}, 1, 1, 2, 2))},
		{op: "Resize", name: "aspect", attrs: text("keep_aspect_ratio_policy", "not_larger"),
			in:   list(seq(2, 4), nil, nil, i64(4, 4)),
			want: list(seq(2, 4))},
		{op: "Resize", name: "integers", attrs: text(mode, "linear"),
			in: list(i64(0, 4), nil, vec(2)), want: list(i64(0, 1, 3, 4))},
		{op: "Resize", version: 10, name: "10", in: list(x, vec(0.5)), want: list(vec(1, 3))},
		{op: "Resize", version: 10, name: "10 takes the next element where it shrinks",
			in: list(x, vec(0.6)), want: list(vec(1, 3))},
		{op: "Upsample", version: 9, in: list(vec(1, 2), vec(2)), want: list(vec(1, 1, 2, 2))},
		{op: "Upsample", version: 7, name: "linear",
			attrs: append(text(mode, "linear"), FloatsAttr("scales", 2)), in: list(vec(1, 2)),
			want: list(vec(1, 1.5, 2, 2))},
		{op: "Resize", name: "neither", in: list(x), err: ErrInput},
		{op: "Resize", name: "both", in: list(x, nil, vec(2), i64(8)), err: ErrInput},
		{op: "Resize", name: "number of scales", in: list(x, nil, vec(2, 2)), err: ErrInput},
		{op: "Resize", name: "scale 0", in: list(x, nil, vec(0)), err: ErrInput},
		{op: "Resize", name: "scale NaN", in: list(x, nil, vec(nan)), err: ErrInput},
		{op: "Resize", name: "mode", attrs: text(mode, "sinc"), in: list(x, nil, vec(2)),
			err: ErrAttr},
	})
}

func TestResizeRules(t *testing.T) {
	c := newChain(t, map[string]Type{
		"x": Ranked(tensor.Float32, Sym("N"), Known(3), Sym("H"), Sym("H").MulInt(4))})
	c.constant("none", vec()).constant("twice", vec(1, 1, 2, 2)).
		constant("half", vec(1, 1, 0.5, 0.5)).constant("odd", vec(1, 1, 1.3, 2)).
		step("up", "Resize", nil, "x", "none", "twice").want("up", "float32[N,3,2·H,8·H]").
		step("down", "Resize", nil, "x", "none", "half").
		want("down", "float32[N,3,floor((H)/2),2·H]").
		step("some", "Resize", nil, "x", "none", "odd").want("some", "float32[N,3,?,8·H]")
}

// TestFusedIsComposed checks fused operators against their parts.
func TestFusedIsComposed(t *testing.T) {
	x, w, b := eval1(t, "Sin", nil, seq(1, 2, 5, 5)), eval1(t, "Cos", nil, seq(3, 2, 3, 3)),
		vec(0.5, -1, 2)
	res, pads := eval1(t, "Sin", nil, seq(1, 3, 5, 5)), IntsAttr("pads", 1, 1, 1, 1)
	parts := map[string]func(*tensor.Tensor) *tensor.Tensor{}
	for name, attrs := range map[string]Attrs{"Relu": nil, "Sigmoid": nil, "HardSwish": nil,
		"Tanh": nil, "Gelu": nil,
		"LeakyRelu":   {FloatAttr("alpha", 0.3)},
		"HardSigmoid": {FloatAttr("alpha", 0.3), FloatAttr("beta", 0.25)}} {
		parts[name] = func(v *tensor.Tensor) *tensor.Tensor { return eval1(t, name, attrs, v) }
	}
	parts["Clip"] = func(v *tensor.Tensor) *tensor.Tensor {
		return eval1(t, "Clip", nil, v, tensor.Scalar[float32](0.3), tensor.Scalar[float32](0.25))
	}
	parts["GeluTanh"] = func(v *tensor.Tensor) *tensor.Tensor {
		return eval1(t, "Gelu", Attrs{StringAttr("approximate", "tanh")}, v)
	}
	parts["Grid"] = func(v *tensor.Tensor) *tensor.Tensor {
		v = eval1(t, "Div", nil, v, tensor.Scalar[float32](0.3))
		v = eval1(t, "Max", nil, v, tensor.Scalar[float32](0.25))
		return eval1(t, "Mul", nil, eval1(t, "Round", nil, v), tensor.Scalar[float32](0.3))
	}
	parts["Silu"] = func(v *tensor.Tensor) *tensor.Tensor { return eval1(t, "Swish", nil, v) }
	if len(parts) != len(FusedActivations) {
		t.Fatalf("%d activations are tested, there are %v", len(parts), FusedActivations)
	}
	run := func(op string, attrs Attrs, in ...*tensor.Tensor) *tensor.Tensor {
		t.Helper()
		call := &Call{Domain: FusedDomain, Type: op, Version: 1, Attrs: attrs, NumIn: len(in),
			NumOut: 1}
		out, err := rawEval(t, call, in)
		if err != nil {
			t.Fatal(err)
		}
		rulesAgree(t, call, in, out)
		return out[0]
	}
	for _, name := range FusedActivations {
		act := Attrs{StringAttr("activation", name), FloatAttr("activation_alpha", 0.3),
			FloatAttr("activation_beta", 0.25)}
		conv := eval1(t, "Conv", Attrs{pads}, x, w, b)
		same(t, "Conv "+name, parts[name](conv), run("Conv", append(act, pads), x, w, b))
		same(t, "Conv+residual "+name, parts[name](eval1(t, "Add", nil, conv, res)),
			run("Conv", append(act, pads), x, w, b, res))
		bare := eval1(t, "Add", nil, eval1(t, "Conv", Attrs{pads}, x, w), res)
		same(t, "Conv without bias "+name, parts[name](bare),
			run("Conv", append(act, pads), x, w, nil, res))
		m, row := eval1(t, "Sin", nil, seq(2, 4, 3)), eval1(t, "Cos", nil, seq(3, 5))
		same(t, "MatMul "+name,
			parts[name](eval1(t, "Add", nil, eval1(t, "MatMul", nil, m, row), seq(5))),
			run("MatMul", act, m, row, seq(5)))
		same(t, "Gemm "+name, parts[name](eval1(t, "Gemm", nil, seq(2, 3), row)),
			run("Gemm", act, seq(2, 3), row))
	}
	same(t, "no activation", eval1(t, "Conv", nil, x, w), run("Conv", nil, x, w))
}

func TestFusedRefuses(t *testing.T) {
	runCases(t, []evalCase{
		{op: "MatMul", domain: FusedDomain, version: 1,
			attrs: Attrs{StringAttr("activation", "Sin")}, in: list(seq(2, 2), seq(2, 2)),
			err: ErrAttr},
		{op: "MatMul", domain: FusedDomain, version: 1, name: "bias",
			in: list(seq(2, 2), seq(2, 2), vec(1)), err: ErrInput},
		{op: "Conv", domain: FusedDomain, version: 1, name: "residual",
			in: list(seq(1, 1, 3), seq(1, 1, 1), nil, seq(1, 1, 1)), err: ErrInput},
	})
}
