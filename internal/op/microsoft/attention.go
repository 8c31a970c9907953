package microsoft

import (
	"math"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// attentions are the forms of scaled dot-product attention that ONNX Runtime's transformer
// optimiser writes, and the rotary embedding that goes with them. GroupQueryAttention is in
// grouped.go.
func attentions() []op.Op {
	return []op.Op{
		composition(op.Op{Name: "Attention", MinIn: 2, MaxIn: 7, MinOut: 1, MaxOut: 2}, allRounded,
			defineAttention),
		composition(op.Op{Name: "QAttention", MinIn: 5, MaxIn: 9, MinOut: 1, MaxOut: 2}, allRounded,
			defineQAttention),
		composition(op.Op{Name: "MultiHeadAttention", MinIn: 1, MaxIn: 10, MinOut: 1, MaxOut: 4},
			allRounded, defineMultiHeadAttention),
		composition(op.Op{Name: "RotaryEmbedding", MinIn: 4, MaxIn: 4}, allRounded, defineRotary),
	}
}

// attended is the attention of queries, keys and values, each batch × heads × length × size.
type attended struct {
	q, k, v op.Var
	mask    op.Var // of keys, int32: see keyBias
	bias    op.Var // added to the scores
}

// headCount is attribute num_heads.
func (x *expander) headCount() int64 {
	n := x.Attrs.Int("num_heads", 0)
	if n < 1 || n > math.MaxInt32 {
		x.Fail(op.ErrAttr, "num_heads is %d, must be positive", n)
	}
	return n
}

// split parts batch × length × heads·size into batch × heads × length × size.
func (x *expander) split(v op.Var, heads int64) op.Var {
	x.Ranked(v, "operand", 3)
	return x.Transpose(x.Reshape(v, 0, 0, heads, -1), 0, 2, 1, 3)
}

// append is a cache, batch × heads × length × size, followed by new positions; the cache may be
// absent.
func (x *expander) append(past, v op.Var) op.Var {
	if past == op.Absent {
		return v
	}
	x.Ranked(past, "cache", 4)
	return x.Op("Concat", op.Attrs{op.IntAttr("axis", 2)}, past, v)
}

// attend computes softmax(q·kᵀ·scale + masks + bias)·v as batch × length × heads·size, and the
// scores before the softmax.
func (x *expander) attend(a attended) (y, scores op.Var) {
	scale := float64(x.Attrs.Float("scale", 0))
	if size, _ := x.Known(a.q, 3); scale == 0 {
		if size == 0 {
			x.Later()
		}
		scale = 1 / math.Sqrt(float64(size))
	}
	scores = x.Op("MatMul", nil, x.Scale(a.q, scale), x.Transpose(a.k, 0, 1, 3, 2))
	scores = x.Add(scores, x.keyBias(a))
	if x.Attrs.Bool("unidirectional", false) {
		scores = x.Add(scores, x.causalBias(a))
	}
	scores = x.Add(scores, a.bias)
	weights := x.Op("Softmax", op.Attrs{op.IntAttr("axis", -1)}, scores)
	y = x.Transpose(x.Op("MatMul", nil, weights, a.v), 0, 2, 1, 3)
	return x.Reshape(y, 0, 0, -1), scores
}

// filtered is zero where keep holds and attribute mask_filter_value elsewhere.
func (x *expander) filtered(like, keep op.Var) op.Var {
	return x.Op("Where", nil, keep, x.Scalar(like, 0),
		x.Scalar(like, float64(x.Attrs.Float("mask_filter_value", -10000))))
}

// hidden is added to the scores of keys that a query must not see, whatever mask_filter_value is.
// It is half of the lowest float32, so that its sum with a score and another mask is still finite.
const hidden = -math.MaxFloat32 / 2

// keyBias hides keys: a mask of rank 2 is batch × keys, of rank 3 batch × queries × keys; one of
// rank 1 has the end of each batch entry's keys, and may go on with the beginnings.
func (x *expander) keyBias(a attended) op.Var {
	if a.mask == op.Absent {
		return op.Absent
	}
	if d := x.DType(a.mask); x.Err == nil && d != tensor.Int32 {
		x.Fail(op.ErrInput, "mask is %v, must be int32", d)
	}
	switch shape := x.Ranked(a.mask, "mask", 1, 2, 3); len(shape) {
	case 2:
		return x.filtered(a.q, x.Unsqueeze(x.Op("Greater", nil, a.mask, x.Scalar(a.mask, 0)), 1, 2))
	case 3:
		return x.filtered(a.q, x.Unsqueeze(x.Op("Greater", nil, a.mask, x.Scalar(a.mask, 0)), 1))
	}
	return x.filtered(a.q, x.Unsqueeze(x.between(a), 1, 2))
}

// between says of each key of each batch entry, as batch × keys, whether it lies in the part that
// the mask names: from the beginning of the entry, where the mask has beginnings, up to its end.
func (x *expander) between(a attended) op.Var {
	batch, length := x.Shape(a.q)[:1], x.Shape(a.mask)
	if x.Err != nil {
		return op.Absent
	}
	keys := x.Cast(x.Count(x.Dim(a.k, 2)), tensor.Int32)
	part := func(from int64) op.Var {
		rows := x.Reshape(a.mask, -1, 1)
		if length[0].Equal(batch[0]) {
			return rows
		}
		n, ok := batch[0].Int()
		if !ok {
			x.Later()
		}
		return x.Op("Slice", nil, rows, x.Ints(from*int64(n)), x.Ints((from+1)*int64(n)), x.Ints(0))
	}
	keep := x.Op("Less", nil, keys, part(0))
	if length[0].Equal(batch[0]) {
		return keep
	}
	if _, ok := length[0].Int(); !ok {
		x.Later()
	} else if !length[0].Equal(batch[0].MulInt(2)) {
		x.Fail(op.ErrInput, "mask has %v elements for a batch of %v", length[0], batch[0])
	}
	return x.Op("And", nil, keep, x.Op("Not", nil, x.Op("Less", nil, keys, part(1))))
}

// causalBias hides the keys after each query; the queries are the last positions.
func (x *expander) causalBias(a attended) op.Var {
	queries, keys := x.Dim(a.q, 2), x.Dim(a.k, 2)
	place := x.Add(x.Count(queries), x.Op("Sub", nil, keys, queries))
	after := x.Op("Less", nil, x.Unsqueeze(place, 1), x.Count(keys))
	return x.Op("Where", nil, after, x.Scalar(a.q, hidden), x.Scalar(a.q, 0))
}

// refuse fails, with an error of kind op.ErrUnsupported, where the call uses an attribute or an
// input that ONNX Runtime has on other devices only.
func (x *expander) refuse(attr string, inputs ...int) {
	if attr != "" && x.Attrs.Int(attr, 0) != 0 {
		x.Fail(op.ErrUnsupported, "%s is set", attr)
	}
	for _, i := range inputs {
		if x.Input(i) != op.Absent {
			x.Fail(op.ErrUnsupported, "input %d, for buffers that are shared between calls", i)
		}
	}
}

// defineAttention projects the input to queries, keys and values in one product.
func defineAttention(x *expander) {
	x.refuse("past_present_share_buffer", 6)
	x.refuse("do_rotary")
	x.Ranked(x.Input(0), "input", 3)
	x.Ranked(x.Input(1), "weights", 2)
	qkv := x.Op("MatMul", nil, x.Input(0), x.Input(1))
	if x.Input(2) != op.Absent {
		x.Ranked(x.Input(2), "bias", 1)
	}
	x.selfAttention(x.Add(qkv, x.Input(2)), x.Input(3), x.Input(4), x.Input(5))
}

// selfAttention gives the outputs of Attention for queries, keys and values beside each other. past
// holds keys and values.
func (x *expander) selfAttention(qkv, mask, past, bias op.Var) {
	parts := x.parted(qkv)
	heads := x.headCount()
	a := attended{q: x.split(parts[0], heads), k: x.split(parts[1], heads),
		v: x.split(parts[2], heads), mask: mask, bias: bias}
	if past != op.Absent {
		x.Ranked(past, "past", 5)
		half := func(i int64) op.Var {
			return x.Op("Gather", op.Attrs{op.IntAttr("axis", 0)}, past,
				x.Constant(tensor.Scalar(i)))
		}
		a.k, a.v = x.append(half(0), a.k), x.append(half(1), a.v)
	}
	y, _ := x.attend(a)
	x.Give(0, y)
	if x.Wants(1) {
		x.Give(1, x.Op("Concat", op.Attrs{op.IntAttr("axis", 0)}, x.Unsqueeze(a.k, 0),
			x.Unsqueeze(a.v, 0)))
	}
}

// parted parts the last axis into queries, keys and values, by attribute qkv_hidden_sizes or into
// thirds.
func (x *expander) parted(qkv op.Var) []op.Var {
	sizes := x.Attrs.Ints("qkv_hidden_sizes")
	if sizes == nil {
		d, ok := x.Known(qkv, 2)
		if !ok {
			x.Later()
		}
		if x.Err == nil && d%3 != 0 {
			x.Fail(op.ErrInput, "weights give %d columns, no multiple of 3", d)
		}
		sizes = []int64{int64(d / 3), int64(d / 3), int64(d / 3)}
	}
	if len(sizes) != 3 {
		x.Fail(op.ErrAttr, "qkv_hidden_sizes is %v, must have three sizes", sizes)
	}
	return x.Ops("", "Split", x.Opset, 3, op.Attrs{op.IntAttr("axis", 2)}, qkv, x.Ints(sizes...))
}

// Inputs of QAttention, in order.
const (
	qattnX = iota
	qattnW
	qattnBias
	qattnXScale
	qattnWScale
	qattnMask
	qattnXZero
	qattnWZero
	qattnPast
)

// defineQAttention is Attention whose projection multiplies 8-bit integers.
func defineQAttention(x *expander) {
	x.refuse("past_present_share_buffer")
	x.refuse("do_rotary")
	x.Ranked(x.Input(qattnX), "input", 3)
	x.Ranked(x.Input(qattnW), "weight", 2)
	qkv := x.integerProduct(x.Input(qattnX), x.Input(qattnW), x.Input(qattnXZero),
		x.Input(qattnWZero), x.Input(qattnXScale), x.Input(qattnWScale))
	x.Ranked(x.Input(qattnBias), "bias", 1)
	x.selfAttention(x.Add(qkv, x.Input(qattnBias)), x.Input(qattnMask), x.Input(qattnPast),
		op.Absent)
}

// Inputs of MultiHeadAttention, in order.
const (
	mhaQ = iota
	mhaK
	mhaV
	mhaBias
	mhaMask
	mhaScoreBias
	mhaPastK
	mhaPastV
	mhaPastLength
	mhaIndirection
)

// defineMultiHeadAttention attends with queries, keys and values that were projected before.
func defineMultiHeadAttention(x *expander) {
	x.refuse("", mhaPastLength, mhaIndirection)
	q, k, v := x.unpacked()
	if (x.Input(mhaPastK) == op.Absent) != (x.Input(mhaPastV) == op.Absent) {
		x.Fail(op.ErrInput, "past_key and past_value must be given together")
	}
	bq, bk, bv := x.biases(q, k, v)
	heads := x.headCount()
	headed := func(w, bias op.Var) op.Var {
		if len(x.Ranked(w, "key or value", 3, 4)) == 4 {
			return w // batch × heads × length × size already: the cache of a cross attention
		}
		return x.split(x.Add(w, bias), heads)
	}
	x.Ranked(q, "query", 3)
	a := attended{q: headed(q, bq), k: x.append(x.Input(mhaPastK), headed(k, bk)),
		v:    x.append(x.Input(mhaPastV), headed(v, bv)),
		mask: x.Input(mhaMask), bias: x.Input(mhaScoreBias)}
	y, scores := x.attend(a)
	for i, out := range []op.Var{y, a.k, a.v, scores} {
		x.Give(i, out)
	}
}

// unpacked returns queries, keys and values, which may come in one operand, batch × length × heads
// × 3 × size, or keys and values in one with 2.
func (x *expander) unpacked() (q, k, v op.Var) {
	q, k, v = x.Input(mhaQ), x.Input(mhaK), x.Input(mhaV)
	part := func(packed op.Var, i int64) op.Var {
		w := x.Op("Gather", op.Attrs{op.IntAttr("axis", 3)}, packed, x.Constant(tensor.Scalar(i)))
		return x.Reshape(w, 0, 0, -1)
	}
	switch {
	case k == op.Absent:
		x.Ranked(q, "packed queries, keys and values", 5)
		return part(q, 0), part(q, 1), part(q, 2)
	case v == op.Absent:
		x.Ranked(k, "packed keys and values", 5)
		return q, part(k, 0), part(k, 1)
	}
	return q, k, v
}

// biases are the parts of input bias for queries, keys and values; absent without it.
func (x *expander) biases(q, k, v op.Var) (bq, bk, bv op.Var) {
	bias := x.Input(mhaBias)
	if bias == op.Absent {
		return op.Absent, op.Absent, op.Absent
	}
	x.Ranked(bias, "bias", 1)
	width := func(w op.Var) int64 {
		n, ok := x.Known(w, int64(x.Rank(w)-1))
		if !ok {
			x.Later()
		}
		return int64(n)
	}
	x.Ranked(q, "query", 3)
	x.Ranked(k, "key", 3, 4)
	x.Ranked(v, "value", 3, 4)
	n := width(q)
	part := func(from, to int64) op.Var {
		return x.Op("Slice", nil, bias, x.Ints(from), x.Ints(to), x.Ints(0))
	}
	if x.Rank(k) == 4 {
		return part(0, n), op.Absent, op.Absent
	}
	return part(0, n), part(n, n+width(k)), part(n+width(k), n+width(k)+width(v))
}

// defineRotary turns pairs of elements by the angles of their positions. position_ids, of rank 2,
// has the position of every place of every sequence; of rank 1 it has one number, the position of
// the first place of all of them.
func defineRotary(x *expander) {
	x.refuse("is_packed_batching")
	in, ids := x.Input(0), x.Input(1)
	shape := x.Ranked(in, "input", 3, 4)
	if x.Err != nil {
		return
	}
	batch, length := x.Dim(in, 0), x.Dim(in, int64(len(shape)-2))
	at := ids
	if s := x.Shape(ids); len(s) < 2 {
		first := x.Reshape(ids, 1)
		place := x.Add(x.Count(length), first)
		at = x.Op("Expand", nil, place, x.Op("Concat", op.Attrs{op.IntAttr("axis", 0)}, batch,
			length))
	}
	attrs := only(x.Call, "interleaved", "rotary_embedding_dim")
	if len(shape) == 3 {
		attrs = append(attrs, op.IntAttr("num_heads", x.rotaryHeads(shape[2])))
	}
	x.Give(0, x.Op("RotaryEmbedding", attrs, in, x.Input(2), x.Input(3), at))
}

// rotaryHeads is attribute num_heads, or what the width of the caches, half a head, tells.
func (x *expander) rotaryHeads(hidden op.Dim) int64 {
	if n := x.Attrs.Int("num_heads", 0); n > 0 {
		return n
	}
	half, ok := x.Known(x.Input(2), 1)
	n, ok2 := hidden.Int()
	if !ok || !ok2 || half == 0 {
		x.Later()
		return 0
	}
	return int64(n / (2 * half))
}
