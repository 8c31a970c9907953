package op

import (
	"math"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func TestNorm(t *testing.T) {
	eps := FloatAttr("epsilon", 0)
	x := f32([]int{1, 2, 2}, 1, 3, 2, 6)
	scale, shift := vec(1, 10), vec(0, 100)
	runCases(t, []evalCase{
		{op: "BatchNormalization", attrs: Attrs{FloatAttr("epsilon", 1)},
			in:   list(x, scale, shift, vec(1, 2), vec(3, 0)),
			want: list(f32([]int{1, 2, 2}, 0, 1, 100, 140))},
		{op: "BatchNormalization", name: "rank 2", attrs: Attrs{eps},
			in:   list(f32([]int{2, 2}, 1, 2, 3, 4), scale, shift, vec(0, 0), vec(1, 4)),
			want: list(f32([]int{2, 2}, 1, 110, 3, 120))},
		{op: "BatchNormalization", name: "spatial 0", version: 7,
			attrs: Attrs{FloatAttr("epsilon", 1), IntAttr("spatial", 0)},
			in: list(f32([]int{2, 1, 2}, 1, 3, 2, 6), f32([]int{1, 2}, 1, 10),
				f32([]int{1, 2}, 0, 100), f32([]int{1, 2}, 1, 2), f32([]int{1, 2}, 3, 0)),
			want: list(f32([]int{2, 1, 2}, 0, 110, 0.5, 140))},
		{op: "BatchNormalization", name: "spatial 0 wants whole entries", version: 7,
			attrs: Attrs{IntAttr("spatial", 0)},
			in:    list(x, scale, shift, vec(1, 2), vec(3, 0)), err: ErrInput},
		{op: "BatchNormalization", name: "training",
			attrs: Attrs{IntAttr("training_mode", 1), FloatAttr("momentum", 0.75), eps},
			in:    list(x, scale, shift, vec(2, 0), vec(5, 4)),
			want:  list(f32([]int{1, 2, 2}, -1, 1, 90, 110), vec(2, 1), vec(4, 4))},
		{op: "BatchNormalization", name: "training of version 9", version: 9,
			attrs: Attrs{FloatAttr("momentum", 0.75), eps},
			in:    list(x, scale, shift, vec(2, 0), vec(5, 4)),
			want: list(f32([]int{1, 2, 2}, -1, 1, 90, 110), vec(2, 1), vec(4, 4), vec(2, 4),
				vec(1, 4))},
		{op: "BatchNormalization", name: "statistics of inference",
			in:   list(x, scale, shift, vec(1, 2), vec(3, 0)),
			want: list[*tensor.Tensor](nil, nil, nil), err: ErrInput},
		{op: "BatchNormalization", name: "channels",
			in: list(x, vec(1), shift, vec(1, 2), vec(3, 0)), err: ErrInput},
		{op: "InstanceNormalization", attrs: Attrs{eps}, in: list(x, scale, shift),
			want: list(f32([]int{1, 2, 2}, -1, 1, 90, 110))},
		{op: "GroupNormalization", attrs: Attrs{eps, IntAttr("num_groups", 2)},
			in:   list(x, scale, shift),
			want: list(f32([]int{1, 2, 2}, -1, 1, 90, 110))},
		{op: "GroupNormalization", name: "one scale a group", version: 18,
			attrs: Attrs{eps, IntAttr("num_groups", 1)},
			in:    list(f32([]int{1, 2, 1}, -2, 2), vec(3), vec(1)),
			want:  list(f32([]int{1, 2, 1}, -2, 4))},
		{op: "GroupNormalization", name: "groups", attrs: Attrs{IntAttr("num_groups", 3)},
			in: list(x, scale, shift), err: ErrAttr},
		{op: "LayerNormalization", attrs: Attrs{eps}, in: list(x, scale, shift),
			want: list(f32([]int{1, 2, 2}, -1, 110, -1, 110), f32([]int{1, 2, 1}, 2, 4),
				f32([]int{1, 2, 1}, 1, 0.5))},
		{op: "LayerNormalization", name: "two axes, no bias", attrs: Attrs{eps, IntAttr("axis", 1)},
			in:   list(f32([]int{1, 2, 1}, 3, 5), f32([]int{2, 1}, 1, 2)),
			want: list(f32([]int{1, 2, 1}, -1, 2), f32([]int{1, 1, 1}, 4))},
		{op: "LayerNormalization", name: "half keeps float32 moments", attrs: Attrs{eps},
			in:   list(halves(1, 3), halves(1, 2)),
			want: list(halves(-1, 2), vec(2), vec(1))},
		{op: "LayerNormalization", name: "scale", in: list(x, vec(1, 2, 3)), err: ErrInput},
		{op: "RMSNormalization", attrs: Attrs{eps}, in: list(vec(1, 7), vec(5, 1)),
			want: list(vec(1, 1.4))},
		{op: "MeanVarianceNormalization", attrs: Attrs{IntsAttr("axes", 0)}, in: list(vec(1, 3)),
			want: list(vec(-1, 1))},
		{op: "LpNormalization", in: list(f32([]int{2, 2}, 3, 4, 0, 0)),
			want: list(f32([]int{2, 2}, 0.6, 0.8, 0, 0))},
		{op: "LpNormalization", name: "L1 on axis 0",
			attrs: Attrs{IntAttr("p", 1), IntAttr("axis", 0)}, in: list(f32([]int{2, 1}, -1, 3)),
			want: list(f32([]int{2, 1}, -0.25, 0.75))},
		{op: "LpNormalization", name: "p", attrs: Attrs{IntAttr("p", 3)}, in: list(vec(1)),
			err: ErrAttr},
		{op: "LRN", attrs: Attrs{IntAttr("size", 2), FloatAttr("alpha", 2), FloatAttr("beta", 1)},
			in:   list(f32([]int{1, 3, 1}, 1, 2, 3)),
			want: list(f32([]int{1, 3, 1}, 1./6, 2./14, 3./10))},
		{op: "LRN", name: "size", in: list(x), err: ErrAttr},
	})
}

// TestNormsAgree computes layer normalisation as exporters decompose it.
func TestNormsAgree(t *testing.T) {
	x := eval1(t, "Sin", nil, seq(3, 4, 8))
	scale, shift := eval1(t, "Cos", nil, seq(8)), seq(8)
	mean := eval1(t, "ReduceMean", nil, x, i64(-1))
	centred := eval1(t, "Sub", nil, x, mean)
	variance := eval1(t, "ReduceMean", nil,
		eval1(t, "Pow", nil, centred, tensor.Scalar[float32](2)), i64(-1))
	root := eval1(t, "Sqrt", nil, eval1(t, "Add", nil, variance, tensor.Scalar[float32](1e-5)))
	want := eval1(t, "Add", nil, eval1(t, "Mul", nil, eval1(t, "Div", nil, centred, root), scale),
		shift)
	if err := tensor.Close(eval1(t, "LayerNormalization", nil, x, scale, shift), want, 1e-5,
		1e-5); err != nil {
		t.Error(err)
	}
}

func TestRNN(t *testing.T) {
	tanh := func(x float64) float32 { return float32(math.Tanh(x)) }
	x := f32([]int{2, 1, 1}, 1, 2) // two steps of one input
	w, r := f32([]int{1, 1, 1}, 0.5), f32([]int{1, 1, 1}, 0.25)
	h1 := tanh(0.5)
	h2 := tanh(1 + 0.25*float64(h1))
	linear := Attrs{StringsAttr("activations", "Affine")}
	runCases(t, []evalCase{
		{op: "RNN", in: list(x, w, r),
			want: list(f32([]int{2, 1, 1, 1}, h1, h2), f32([]int{1, 1, 1}, h2))},
		{op: "RNN", name: "reverse", attrs: append(linear, StringAttr("direction", "reverse")),
			in:   list(x, w, r),
			want: list(f32([]int{2, 1, 1, 1}, 0.75, 1), f32([]int{1, 1, 1}, 0.75))},
		{op: "RNN", name: "bias, lengths, state", attrs: linear,
			in: list(f32([]int{2, 2, 1}, 1, 1, 1, 1), w, r, f32([]int{1, 2}, 1, 2),
				tensor.From([]int32{2, 1}, 2), f32([]int{1, 2, 1}, 0, 4)),
			want: list(f32([]int{2, 1, 2, 1}, 3.5, 4.5, 4.375, 0),
				f32([]int{1, 2, 1}, 4.375, 4.5))},
		{op: "RNN", name: "batch first", attrs: append(linear, IntAttr("layout", 1)),
			in:   list(f32([]int{1, 2, 1}, 1, 2), w, r),
			want: list(f32([]int{1, 2, 1, 1}, 0.5, 1.125), f32([]int{1, 1, 1}, 1.125))},
		{op: "RNN", name: "clip", attrs: append(linear, FloatAttr("clip", 0.75)), in: list(x, w, r),
			want: list(f32([]int{2, 1, 1, 1}, 0.5, 0.75))},
		{op: "RNN", name: "parameters in order",
			attrs: Attrs{StringAttr("direction", "bidirectional"),
				StringsAttr("activations", "Relu", "Affine"),
				FloatsAttr("activation_alpha", 2), FloatsAttr("activation_beta", 1)},
			in: list(f32([]int{1, 1, 1}, 3), f32([]int{2, 1, 1}, -1, 1),
				f32([]int{2, 1, 1}, 0, 0)),
			want: list(f32([]int{1, 2, 1, 1}, 0, 7), f32([]int{2, 1, 1}, 0, 7))},
		{op: "RNN", name: "activation", attrs: Attrs{StringsAttr("activations", "Sin")},
			in: list(x, w, r), err: ErrAttr},
		{op: "RNN", name: "direction", attrs: Attrs{StringAttr("direction", "up")},
			in: list(x, w, r), err: ErrAttr},
		{op: "RNN", name: "weights", in: list(x, f32([]int{1, 2, 1}, 1, 1), r), err: ErrInput},
		{op: "RNN", name: "length", in: list(x, w, r, nil, tensor.From([]int32{3}, 1)),
			err: ErrInput},
	})
}

// gatesOf spells one weight a gate for a single input and unit.
func gatesOf(v ...float32) *tensor.Tensor { return f32([]int{1, len(v), 1}, v...) }

func TestGatedRNN(t *testing.T) {
	s := func(x float64) float64 { return 1 / (1 + math.Exp(-x)) }
	x, h0 := f32([]int{1, 1, 1}, 2), f32([]int{1, 1, 1}, 0.5)
	gru := func(h float64) []*tensor.Tensor {
		return list(f32([]int{1, 1, 1, 1}, float32(h)), f32([]int{1, 1, 1}, float32(h)))
	}
	z, r := s(2*0.1+0.5*0.2), s(2*0.3+0.5*0.4)
	before := math.Tanh(2*0.5 + r*0.5*0.6 + 0.7)
	after := math.Tanh(2*0.5 + r*(0.5*0.6+0.7))
	bias := f32([]int{1, 6}, 0, 0, 0, 0, 0, 0.7)
	w, rec := gatesOf(0.1, 0.3, 0.5), gatesOf(0.2, 0.4, 0.6)
	lw, lr := gatesOf(0.1, 0.2, 0.3, 0.4), gatesOf(0.5, 0.6, 0.7, 0.8)
	c0, p := f32([]int{1, 1, 1}, -1), f32([]int{1, 3}, 0.1, 0.2, 0.3)
	i, f, g := s(0.2+0.25+0.1*-1), s(0.6+0.35+0.3*-1), math.Tanh(0.8+0.4)
	lstm := func(f float64) []*tensor.Tensor {
		c := f*-1 + i*g
		h := float32(s(0.4+0.3+0.2*c) * math.Tanh(c))
		return list(f32([]int{1, 1, 1, 1}, h), f32([]int{1, 1, 1}, h),
			f32([]int{1, 1, 1}, float32(c)))
	}
	runCases(t, []evalCase{
		{op: "GRU", in: list(x, w, rec, bias, nil, h0), want: gru((1-z)*before + z*0.5)},
		{op: "GRU", name: "linear_before_reset", attrs: Attrs{IntAttr("linear_before_reset", 1)},
			in:   list(x, w, rec, bias, nil, h0),
			want: gru((1-z)*after + z*0.5)},
		{op: "LSTM", in: list(x, lw, lr, nil, nil, h0, c0, p), want: lstm(f)},
		{op: "LSTM", name: "input_forget", attrs: Attrs{IntAttr("input_forget", 1)},
			in: list(x, lw, lr, nil, nil, h0, c0, p), want: lstm(1 - i)},
	})
}

// TestBidirectional checks that both directions at once are each direction alone, and that the
// reverse direction is the forward one on the reversed sequence.
func TestBidirectional(t *testing.T) {
	for name, gates := range map[string]int{"RNN": 1, "GRU": 3, "LSTM": 4} {
		x := eval1(t, "Sin", nil, seq(5, 2, 3))
		w, r := eval1(t, "Cos", nil, seq(2, gates*4, 3)), eval1(t, "Sin", nil, seq(2, gates*4, 4))
		one := func(v *tensor.Tensor, d int64) *tensor.Tensor {
			return eval1(t, "Slice", nil, v, i64(d), i64(d+1), i64(0))
		}
		direction := func(d string) Attrs { return Attrs{StringAttr("direction", d)} }
		both := eval1(t, name, direction("bidirectional"), x, w, r)
		forward := eval1(t, name, nil, x, one(w, 0), one(r, 0))
		back := eval1(t, name, direction("reverse"), x, one(w, 1), one(r, 1))
		same(t, name, eval1(t, "Concat", Attrs{IntAttr("axis", 1)}, forward, back), both)
		turned := func(v *tensor.Tensor) *tensor.Tensor {
			return eval1(t, "Slice", nil, v, i64(-1), i64(math.MinInt64), i64(0), i64(-1))
		}
		same(t, name+" reversed", back,
			turned(eval1(t, name, nil, turned(x), one(w, 1), one(r, 1))))
	}
}
