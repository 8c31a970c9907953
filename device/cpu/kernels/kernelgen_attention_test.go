package kernels

import (
	"context"
	"math"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// heads draws the sizes of an attention.
func (r source) heads() (batch, heads, group, queries, keys, size, value int) {
	return 1 + r.IntN(2), 1 + r.IntN(3), 1 + r.IntN(3), 1 + r.IntN(40), 1 + r.IntN(70),
		1 + r.IntN(40), 1 + r.IntN(40)
}

// genFusedAttention makes calls of weir:Attention.
func genFusedAttention(r source, key opKey) *sample {
	b, h, g, n, m, size, value := r.heads()
	rank := 4
	if r.one(4) {
		rank, b = 3, 1
	} else if r.one(8) {
		rank, b, h, g = 2, 1, 1, 1
	}
	s := r.call(key, nil)
	first := [4]int64{}
	if rank == 4 && r.one(2) {
		first = [4]int64{int64(r.IntN(2)), int64(r.IntN(2)), int64(r.IntN(2)), int64(r.IntN(2))}
		s.call.Attrs = append(s.call.Attrs, op.IntsAttr("rows_first", first[:]...))
	}
	kb := b
	if r.one(6) {
		kb = 1
	}
	for i, d := range [][4]int{{b, h * g, n, size}, {kb, h, m, size}, {kb, h, m, value}} {
		if first[i] == 1 {
			d[1], d[2] = d[2], d[1]
		}
		s.in = append(s.in, r.floats(d[4-rank:]...))
	}
	s.in = append(s.in, r.keepMask(n, m), r.bias([]int{b, h * g, n, m}[4-rank:]))
	s.constant = []bool{false, false, false, r.one(2), r.one(2)}
	if s.in[3] == nil {
		s.constant[3] = false
	}
	s.constant[4] = s.constant[4] && s.in[4] != nil
	s.call.NumIn = len(s.in)
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("scale", r.Float32()))
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs,
			op.FloatAttr("hidden", []float32{-math.MaxFloat32, -10000, -2}[r.IntN(3)]))
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("added", int64(r.IntN(2))))
	}
	if r.one(4) {
		s.call.Attrs = append(s.call.Attrs, op.StringAttr("precision", "bf16"))
	}
	if r.one(3) {
		s.call.NumOut = 2
	}
	s.atol = attentionError(s.call, size)
	if s.call.Attrs.Has("precision") && gemm.BF16.OnTiles() {
		s.atol += valueRounding(s.in[op.AttentionV])
	}
	return s
}

// genAttentionGradient makes the gradients of calls of weir:Attention, by what the reference gives
// of these.
func genAttentionGradient(r source, key opKey) *sample {
	s := genFusedAttention(r, opKey{op.FusedDomain, "Attention"})
	s.call.NumOut = 2
	o, _, ok := s.request()
	if !ok {
		return s
	}
	outs, err := op.Run(context.Background(), o, s.call, s.in)
	if err != nil {
		panic(err) // a valid call
	}
	s.in = append(s.in, r.floats(outs[0].Shape...), outs[0], outs[1])
	s.constant = append(s.constant, false, false, false)
	s.call.Type, s.call.NumIn, s.call.NumOut = key.name, len(s.in), 3
	// what a sum over queries, or over keys, is of
	terms := max(count(s.in[op.AttentionQ].Shape), count(s.in[op.AttentionK].Shape))
	s.atol = 8 * s.atol * sumError(terms) / sumError(1) / math.Sqrt(float64(terms))
	if s.call.Attrs.Has("precision") {
		s.atol += 0.1 * math.Sqrt(float64(terms))
	}
	return s
}

// valueRounding is by how much rounding values to bfloat16, and the weights that they are
// multiplied by, may change a result: each by 2^-9 of itself.
func valueRounding(v *tensor.Tensor) (off float64) {
	for _, x := range tensor.As[float32](v) {
		off = max(off, math.Abs(float64(x))/256)
	}
	return off
}

// keepMask is a triangle or random, or none.
func (r source) keepMask(n, m int) *tensor.Tensor {
	if r.one(2) {
		return nil
	}
	v, offset, triangle := make([]bool, n*m), r.IntN(m+1)-1, r.one(2)
	for i := range v {
		v[i] = i%m <= i/m+offset
		if !triangle {
			v[i] = !r.one(5)
		}
	}
	return tensor.From(v, n, m)
}

// bias is an additive mask that broadcasts to a shape, or none: random, or a triangle of
// infinities.
func (r source) bias(scores []int) *tensor.Tensor {
	n, m := scores[len(scores)-2], scores[len(scores)-1]
	if r.one(3) {
		return nil
	}
	if !r.one(3) {
		return r.floats(r.broadcastTo(scores)...)
	}
	v := make([]float32, n*m)
	for i := range v {
		if i%m > i/m+m-n {
			v[i] = float32(math.Inf(-1))
		}
	}
	return tensor.From(v, n, m)
}

// genAttention makes calls of ONNX's Attention.
func genAttention(r source, key opKey) *sample {
	b, h, g, n, m, size, value := r.heads()
	s := r.call(key, nil)
	flat := r.one(2)
	for _, d := range [][4]int{{b, h * g, n, size}, {b, h, m, size}, {b, h, m, value}} {
		if flat {
			s.in = append(s.in, r.floats(d[0], d[2], d[1]*d[3]))
		} else {
			s.in = append(s.in, r.floats(d[:]...))
		}
	}
	if flat {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("q_num_heads", int64(h*g)),
			op.IntAttr("kv_num_heads", int64(h)))
	}
	past := 0
	s.in = append(s.in, nil, nil, nil)
	if r.one(3) {
		past = r.IntN(20)
		s.in[op.AttentionPastK], s.in[op.AttentionPastV] = r.floats(b, h, past, size), r.floats(b,
			h, past, value)
		s.call.NumOut = 3
	} else if r.one(4) {
		s.call.NumOut = 1 + r.IntN(3)
	}
	r.attentionMasks(s, b, h*g, n, m+past)
	s.constant = make([]bool, len(s.in))
	s.call.NumIn = len(s.in)
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("scale", r.Float32()))
	}
	if r.one(4) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("softcap", 1+r.Float32()))
	}
	if r.one(2) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("is_causal", 1))
	}
	s.atol = attentionError(s.call, size)
	return s
}

func (r source) attentionMasks(s *sample, batch, heads, n, m int) {
	switch last := m - r.IntN(2)*r.IntN(m); r.IntN(3) {
	case 0:
		s.in[op.AttentionMask] = r.floats(append(r.broadcastTo([]int{batch, heads, n}), last)...)
	case 1:
		s.in[op.AttentionMask] = r.keepMask(n, last)
	}
	if s.call.Version >= 24 && r.one(3) {
		lens := make([]int64, batch)
		for i := range lens {
			lens[i] = int64(r.IntN(m + 1))
		}
		s.in = append(s.in, tensor.From(lens, batch))
	}
	for _, name := range []string{"left_window_size", "right_window_size"} {
		if s.call.Version >= 25 && r.one(3) {
			s.call.Attrs = append(s.call.Attrs, op.IntAttr(name, int64(r.IntN(m+2)-1)))
		}
	}
}

// genGrouped makes calls of GroupQueryAttention: the first of a row of calls or a later one, a few
// of them with lengths that cannot be.
func genGrouped(r source, key opKey) *sample {
	b, shared, group, length, _, size, _ := r.heads()
	if r.one(3) {
		length = 1
	}
	size = max(2, size&^1)
	heads, past, total := shared*group, 0, length
	if r.one(2) {
		past = 1 + r.IntN(40)
	}
	if past > 0 && !r.one(4) {
		total += 1 + r.IntN(past)
	}
	lens := make([]int32, b)
	for i := range lens {
		if lens[i] = int32(r.IntN(total)); total > length {
			lens[i] = int32(max(length-1, r.IntN(total)))
		}
		if r.one(30) {
			lens[i] = int32(r.IntN(3*total) - total)
		}
	}
	s := r.call(key,
		op.Attrs{op.IntAttr("num_heads", int64(heads)), op.IntAttr("kv_num_heads", int64(shared))})
	s.call.NumOut = 3
	if r.one(2) {
		s.in = []*tensor.Tensor{r.floats(b, length, (heads+2*shared)*size), nil, nil}
	} else {
		s.in = []*tensor.Tensor{
			r.floats(b, length, heads*size),
			r.floats(b, length, shared*size),
			r.floats(b, length, shared*size),
		}
		if v := tensor.As[float32](s.in[microsoft.GroupedV]); r.one(6) {
			v[r.IntN(len(v))] = float32(math.NaN())
		}
	}
	caches := []*tensor.Tensor{nil, nil}
	if past > 0 {
		caches = []*tensor.Tensor{r.floats(b, shared, past, size), r.floats(b, shared, past, size)}
	}
	s.in = append(append(s.in, caches...), tensor.From(lens, b), tensor.Scalar(int32(total)))
	r.groupedOptions(s, b, length, size, total)
	if r.one(3) {
		s.in = append(append(s.in, make([]*tensor.Tensor, microsoft.GroupedSink-len(s.in))...),
			r.floats(heads))
	} else if r.one(3) {
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("smooth_softmax", 1))
	}
	s.call.NumIn = len(s.in)
	s.constant = make([]bool, len(s.in))
	s.constant[microsoft.GroupedTotal] = true
	s.atol = attentionError(s.call, size)
	return s
}

// groupedOptions adds the rotary embedding and what changes scores.
func (r source) groupedOptions(s *sample, batch, length, size, total int) {
	if !r.one(3) {
		rows, pairs := total+r.IntN(4)-r.IntN(2)*r.IntN(3), 1+r.IntN(size/2)
		s.call.Attrs = append(s.call.Attrs, op.IntAttr("do_rotary", 1),
			op.IntAttr("rotary_interleaved", int64(r.IntN(2))))
		s.in = append(s.in, r.floats(max(1, rows), pairs), r.floats(max(1, rows), pairs))
		if r.one(4) {
			places := make([]int64, batch*length)
			for i := range places {
				places[i] = int64(r.IntN(max(1, rows)))
			}
			s.in = append(s.in, tensor.From(places, batch, length))
		}
	}
	if r.one(3) {
		s.call.Attrs = append(s.call.Attrs,
			op.IntAttr("local_window_size", int64(r.IntN(total+2)-1)))
	}
	if r.one(3) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("softcap", 1+r.Float32()))
	}
	if r.one(3) {
		s.call.Attrs = append(s.call.Attrs, op.FloatAttr("scale", r.Float32()))
	}
}
