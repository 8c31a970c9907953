package grad_test

import (
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// sums are products by labels, and products with zeros among their factors.
func (o operands) sums() []call {
	einsum := func(equation string, in ...*tensor.Tensor) call {
		return call{op: "Einsum", name: equation, in: in,
			attrs: attrs(op.StringAttr("equation", equation))}
	}
	zeros := func(at ...int) *tensor.Tensor {
		t := o.in(0.5, 2, 2, 4)
		for _, i := range at {
			tensor.As[float64](t)[i] = 0
		}
		return t
	}
	return []call{
		einsum("ij,jk->ik", o.f(2, 3), o.f(3, 4)),
		einsum("bij,bjk", o.f(2, 2, 3), o.f(2, 3, 2)),
		einsum("i,j,ij->", o.f(2), o.f(3), o.f(2, 3)),
		einsum("ij->ji", o.f(2, 3)), einsum("ij->", o.f(2, 3)), einsum("ij->i", o.f(2, 3)),
		einsum("ijk,k->j", o.f(2, 3, 2), o.f(2)),
		einsum("ii->i", o.f(3, 3)), einsum("iij,j->i", o.f(2, 2, 3), o.f(3)),
		einsum("ii", o.f(3, 3)), einsum("iii->i", o.f(2, 2, 2)),
		einsum("...ij,...jk->...ik", o.f(2, 1, 2, 3), o.f(4, 3, 2)),
		einsum("b...,b...->...", o.f(2, 3, 2), o.f(2, 1, 2)),
		einsum("ij,ij->j", o.f(1, 3), o.f(2, 3)),
		einsum("i,i->i", o.f(3), o.f(3)),
		{op: "ReduceProd", name: "zero", first: true, in: list(zeros(2), ints(1))},
		{op: "ReduceProd", name: "zeros", first: true, in: list(zeros(1, 3, 6), ints(-1)),
			attrs: attrs(op.IntAttr("keepdims", 0))},
	}
}

func (o operands) resizes() []call {
	mode := func(s string) op.Attr { return op.StringAttr("mode", s) }
	how := func(s string) op.Attr { return op.StringAttr("coordinate_transformation_mode", s) }
	scales := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	resize := func(name string, in []*tensor.Tensor, as ...op.Attr) call {
		held := []int{}
		for i := 1; i < len(in); i++ {
			held = append(held, i)
		}
		return call{op: "Resize", name: name, in: in, held: held, static: true, attrs: as}
	}
	image := func() *tensor.Tensor { return o.f(1, 2, 4, 5) }
	cs := []call{
		resize("nearest", list(image(), nil, nil, ints(1, 2, 7, 3))),
		resize("linear", list(image(), nil, scales(1, 1, 2, 0.6)), mode("linear")),
		resize("cubic", list(image(), nil, nil, ints(1, 2, 6, 9)), mode("cubic"),
			op.FloatAttr("cubic_coeff_a", -0.5), op.IntAttr("exclude_outside", 1)),
		resize("corners", list(image(), nil, nil, ints(1, 2, 7, 2)), mode("linear"),
			how("align_corners")),
		resize("antialias", list(image(), nil, nil, ints(2, 3)), mode("linear"),
			op.IntAttr("antialias", 1), op.IntsAttr("axes", 2, 3)),
		resize("aspect", list(image(), nil, nil, ints(9, 6)), mode("linear"),
			op.IntsAttr("axes", 3, 2), op.StringAttr("keep_aspect_ratio_policy", "not_larger")),
		resize("channels", list(image(), nil, nil, ints(1, 3, 4, 5)), mode("linear")),
		{op: "Upsample", version: 9, in: list(image(), scales(1, 1, 2, 3)), held: []int{1},
			static: true, attrs: attrs(mode("linear"))},
		{op: "Resize", name: "first", version: 10, in: list(image(), scales(1, 1, 0.5, 2)),
			held: []int{1}, static: true},
	}
	region := tensor.From([]float32{0, 0, 0.2, -0.3, 1, 1, 0.7, 1.2}, 8)
	return append(cs, resize("crop", list(image(), region, nil, ints(1, 2, 3, 4)), mode("linear"),
		how("tf_crop_and_resize"), op.FloatAttr("extrapolation_value", 3)))
}

func (o operands) samples() []call {
	mode := func(s string) op.Attr { return op.StringAttr("mode", s) }
	var cs []call
	for _, m := range []string{"linear", "cubic", "nearest"} {
		for _, padding := range []string{"zeros", "border", "reflection"} {
			for corners := range int64(2) {
				as := attrs(mode(m), op.StringAttr("padding_mode", padding),
					op.IntAttr("align_corners", corners))
				cs = append(cs, call{op: "GridSample", name: m + " " + padding, attrs: as,
					in: list(o.f(2, 2, 3, 4), o.in(-1.6, 1.6, 2, 3, 2, 2)), single: true})
			}
		}
	}
	cs = append(cs, call{op: "GridSample", name: "volume", single: true,
		in: list(o.f(1, 2, 2, 3, 2), o.in(-1.2, 1.2, 1, 2, 2, 1, 3))},
		call{op: "GridSample", name: "line", single: true,
			in: list(o.f(1, 1, 4), o.in(-1.2, 1.2, 1, 5, 1))})
	size := func(h, w, s int64) op.Attrs {
		return attrs(op.IntAttr("output_height", h), op.IntAttr("output_width", w),
			op.IntAttr("sampling_ratio", s), op.FloatAttr("spatial_scale", 0.7))
	}
	rois := func() *tensor.Tensor {
		return tensor.From([]float64{-1.1, 0.4, 4.3, 5.9, 1.3, 2.2, 7.9, 9.4, 0.2, 0.3, 0.7, 0.8},
			3, 4)
	}
	of := func() *tensor.Tensor { return ints(1, 0, 1) }
	return append(cs,
		call{op: "RoiAlign", in: list(o.f(2, 2, 5, 6), rois(), of()), attrs: size(2, 3, 2),
			single: true},
		call{op: "RoiAlign", name: "before half pixels", version: 10, attrs: size(3, 1, 3),
			single: true, in: list(o.f(2, 2, 5, 6), rois(), of())})
}

// recurrent are the recurrent layers in both directions, with every operand and activation.
func (o operands) recurrent() []call {
	var cs []call
	const seq, batch, in, hidden = 3, 2, 2, 3
	for i, name := range []string{"RNN", "GRU", "LSTM"} {
		gates, outs := []int{1, 3, 4}[i], 2
		if name == "LSTM" {
			outs = 3
		}
		layer := func(what string, dirs int, batchFirst, all bool, as ...op.Attr) {
			x, state := []int{seq, batch, in}, []int{dirs, batch, hidden}
			if batchFirst {
				x, state = []int{batch, seq, in}, []int{batch, dirs, hidden}
				as = append(as, op.IntAttr("layout", 1))
			}
			c := call{op: name, name: what, outs: outs, static: true, first: what != "plain",
				attrs: append(as, op.IntAttr("hidden_size", hidden)),
				in: list(o.f(x...), o.f(dirs, gates*hidden, in),
					o.f(dirs, gates*hidden, hidden))}
			if all {
				c.in = append(c.in, o.f(dirs, 2*gates*hidden),
					tensor.From([]int32{3, 1}, batch), o.f(state...))
				if name == "LSTM" {
					c.in = append(c.in, o.f(state...), o.f(dirs, 3*hidden))
				}
			}
			cs = append(cs, c)
		}
		direction := func(s string) op.Attr { return op.StringAttr("direction", s) }
		layer("plain", 1, false, false)
		layer("all", 1, false, true)
		layer("reverse", 1, false, true, direction("reverse"))
		layer("both", 2, true, true, direction("bidirectional"))
		functions := map[string][]string{"RNN": {"Affine"}, "GRU": {"HardSigmoid", "ScaledTanh"},
			"LSTM": {"Softsign", "Elu", "Softplus"}}[name]
		special := attrs(op.StringsAttr("activations", functions...),
			op.FloatsAttr("activation_alpha", 0.3, 1.2), op.FloatsAttr("activation_beta", 0.4, 0.7))
		layer("activations", 1, false, true, append(slices.Clone(special),
			op.FloatAttr("clip", 1.1))...)
		switch name {
		case "GRU":
			layer("linear before reset", 1, false, true, op.IntAttr("linear_before_reset", 1))
		case "LSTM":
			layer("coupled", 1, false, true, op.IntAttr("input_forget", 1))
		case "RNN":
			for _, f := range []string{"LeakyRelu", "ThresholdedRelu", "Relu", "Sigmoid"} {
				layer(f, 1, false, true, op.StringsAttr("activations", f))
			}
		}
	}
	return slices.Concat(cs, o.recurrentAtOnce(), o.recurrentBack())
}

// recurrentAtOnce are layers whose gradient is one operator.
func (o operands) recurrentAtOnce() (cs []call) {
	const seq, batch, in, hidden = 3, 2, 2, 3
	for _, direction := range []string{"forward", "reverse", "bidirectional"} {
		dirs := 1
		if direction == "bidirectional" {
			dirs = 2
		}
		state := func() *tensor.Tensor { return o.f(dirs, batch, hidden) }
		as := attrs(op.IntAttr("hidden_size", hidden), op.StringAttr("direction", direction))
		cs = append(cs, call{op: "LSTM", name: "at once, " + direction, outs: 3, static: true,
			first: direction != "reverse", attrs: as,
			in: list(o.f(seq, batch, in), o.f(dirs, 4*hidden, in), o.f(dirs, 4*hidden, hidden),
				o.f(dirs, 8*hidden), nil, state(), state())},
			call{op: "GRU", name: "at once, " + direction, outs: 2, static: true,
				first: direction != "reverse",
				attrs: append(slices.Clone(as), op.IntAttr("linear_before_reset", 1)),
				in: list(o.f(seq, batch, in), o.f(dirs, 3*hidden, in),
					o.f(dirs, 3*hidden, hidden), o.f(dirs, 6*hidden), nil, state())})
	}
	return cs
}

// recurrentBack are gradients of layers, with results of any numbers.
func (o operands) recurrentBack() (cs []call) {
	const seq, batch, in, hidden = 2, 1, 2, 2
	for i, cell := range []string{"GRU", "LSTM"} {
		gates, outs := 3+i, 5+i
		y := func() *tensor.Tensor { return o.f(seq, 2, batch, hidden) }
		state := func() *tensor.Tensor { return o.f(2, batch, hidden) }
		c := call{domain: op.FusedDomain, op: op.RecurrentGradient, version: 1, name: cell,
			outs: outs, static: true, first: true,
			attrs: attrs(op.StringAttr("cell", cell),
				op.StringAttr("direction", "bidirectional")),
			in: list(o.f(seq, batch, in), o.f(2, gates*hidden, in), o.f(2, gates*hidden, hidden),
				o.f(2, 2*gates*hidden), state(), nil, y(), y(), state())}
		if cell == "LSTM" {
			c.in[op.BackInitialC] = state()
			c.in = append(c.in, state())
		}
		cs = append(cs, c)
	}
	return cs
}

func (o operands) attention() []call {
	n := func(name string, v int64) op.Attr { return op.IntAttr(name, v) }
	q, kv := n("q_num_heads", 4), n("kv_num_heads", 2)
	attend := func(name string, outs int, in []*tensor.Tensor, as ...op.Attr) call {
		version := 24
		if name == "window" {
			version = 25
		}
		return call{op: "Attention", name: name, version: version, in: in, outs: outs,
			static: true, first: true, attrs: as}
	}
	heads := func() []*tensor.Tensor {
		return list(o.f(2, 2, 3, 4), o.f(2, 2, 5, 4), o.f(2, 2, 5, 3))
	}
	flat := func() []*tensor.Tensor { return list(o.f(2, 3, 8), o.f(2, 5, 4), o.f(2, 5, 6)) }
	yes := tensor.From([]bool{true, false, true, true, true, false, false, false, false, false,
		true, true, true, true, true}, 3, 5)
	cs := []call{
		attend("heads", 1, heads()), attend("flat", 1, flat(), q, kv),
		attend("scale and cap", 4, heads(), op.FloatAttr("scale", 0.7),
			op.FloatAttr("softcap", 1.3), n("qk_matmul_output_mode", 1)),
		attend("mask", 4, append(heads(), o.f(2, 1, 3, 5)), n("qk_matmul_output_mode", 2)),
		attend("mask and causal", 1, append(heads(), o.f(2, 1, 3, 5)), n("is_causal", 1)),
		attend("short mask", 1, append(heads(), o.f(3, 4))),
		attend("truth", 4, append(heads(), yes), n("qk_matmul_output_mode", 3)),
		attend("causal", 4, append(flat(), nil, o.f(2, 2, 2, 2), o.f(2, 2, 2, 3)), q, kv,
			n("is_causal", 1)),
		attend("padding", 1, append(heads(), nil, nil, nil, ints(3, 5)), n("is_causal", 1)),
		attend("window", 1, heads(), n("left_window_size", 1), n("right_window_size", 1)),
	}
	cs = append(cs, o.fusedAttention()...)
	rotary := func(name string, in []*tensor.Tensor, as ...op.Attr) call {
		return call{op: "RotaryEmbedding", name: name, in: in, attrs: as, static: true}
	}
	ids := shaped(ints(2, 0, 4, 1, 1, 3), 2, 3)
	return append(cs,
		rotary("heads", list(o.f(2, 2, 3, 6), o.f(2, 3, 3), o.f(2, 3, 3))),
		rotary("positions", list(o.f(2, 3, 8), o.f(5, 2), o.f(5, 2), ids), n("num_heads", 2)),
		rotary("interleaved", list(o.f(2, 3, 12), o.f(5, 2), o.f(5, 2), ids), n("num_heads", 2),
			n("interleaved", 1), n("rotary_embedding_dim", 4)))
}

// fusedAttention are calls of weir:Attention, and of its gradient with results of any numbers, of
// which its derivatives compute y and stats again.
func (o operands) fusedAttention() (cs []call) {
	lowest, scale := op.FloatAttr("hidden", -2), op.FloatAttr("scale", 0.7)
	yes := tensor.From([]bool{true, false, true, true, true, false, false, false, false, false,
		true, true, true, true, true}, 3, 5)
	add := func(name string, outs int, in []*tensor.Tensor, as ...op.Attr) {
		cs = append(cs, call{domain: op.FusedDomain, op: "Attention", name: name, version: 1,
			in: in, outs: outs, static: true, attrs: as})
	}
	back := func(name string, in []*tensor.Tensor, as ...op.Attr) {
		cs = append(cs, call{domain: op.FusedDomain, op: op.AttentionGradient, name: name,
			version: 1, in: in, outs: 3, static: true, attrs: as})
	}
	heads := func() []*tensor.Tensor {
		return list(o.f(2, 4, 3, 4), o.f(2, 2, 5, 4), o.f(2, 2, 5, 3))
	}
	add("heads", 1, heads(), scale)
	add("stats", 2, heads())
	add("matrices", 1, list(o.f(3, 4), o.f(5, 4), o.f(5, 3), yes), lowest)
	add("three axes", 1, list(o.f(2, 3, 4), o.f(2, 5, 4), o.f(2, 5, 3), yes), lowest, scale,
		op.IntAttr("added", 1))
	add("bias", 1, append(heads(), nil, o.f(4, 1, 5)), scale)
	add("rows first", 1, list(o.f(2, 3, 4, 4), o.f(2, 2, 5, 4), o.f(2, 5, 2, 3)),
		op.IntsAttr("rows_first", 1, 0, 1, 1))
	add("shared batch", 1, list(o.f(2, 4, 3, 4), o.f(1, 2, 5, 4), o.f(1, 2, 5, 3), yes), lowest)
	back("", append(heads(), yes, o.f(4, 1, 5), o.f(2, 4, 3, 3), o.f(2, 4, 3, 3),
		o.in(1, 2, 2, 4, 3, 2)), scale, lowest)
	back("rows first", list(o.f(2, 3, 4, 4), o.f(2, 2, 5, 4), o.f(2, 5, 2, 3), yes, nil,
		o.f(2, 3, 4, 3), o.f(2, 3, 4, 3), o.in(1, 2, 2, 4, 3, 2)),
		op.IntsAttr("rows_first", 1, 0, 1, 1), lowest, op.IntAttr("added", 1))
	return cs
}
