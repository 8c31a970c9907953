package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// microsoftAttention are the forms of scaled dot-product attention that ONNX Runtime's transformer
// optimiser writes, and the rotary embedding that goes with them. GroupQueryAttention is in
// microsoft_grouped.go.
func microsoftAttention() []Op {
	return []Op{
		composition(Op{Name: "Attention", MinIn: 2, MaxIn: 7, MinOut: 1, MaxOut: 2}, allRounded,
			defineAttention),
		composition(Op{Name: "QAttention", MinIn: 5, MaxIn: 9, MinOut: 1, MaxOut: 2}, allRounded,
			defineQAttention),
		composition(Op{Name: "MultiHeadAttention", MinIn: 1, MaxIn: 10, MinOut: 1, MaxOut: 4},
			allRounded, defineMultiHeadAttention),
		composition(Op{Name: "RotaryEmbedding", MinIn: 4, MaxIn: 4}, allRounded, defineRotary),
	}
}

// attended is the attention of queries, keys and values, each batch × heads × length × size.
type attended struct {
	q, k, v value
	mask    value // of keys, int32: see keyBias
	bias    value // added to the scores
}

// headCount is attribute num_heads.
func (x *expander) headCount() int64 {
	n := x.Attrs.Int("num_heads", 0)
	if n < 1 || n > math.MaxInt32 {
		x.fail(ErrAttr, "num_heads is %d, must be positive", n)
	}
	return n
}

// split parts batch × length × heads·size into batch × heads × length × size.
func (x *expander) split(v value, heads int64) value {
	x.ranked(v, "operand", 3)
	return x.transpose(x.reshape(v, 0, 0, heads, -1), 0, 2, 1, 3)
}

// append is a cache, batch × heads × length × size, followed by new positions; the cache may be
// absent.
func (x *expander) append(past, v value) value {
	if past == absent {
		return v
	}
	x.ranked(past, "cache", 4)
	return x.op("Concat", Attrs{IntAttr("axis", 2)}, past, v)
}

// attend computes softmax(q·kᵀ·scale + masks + bias)·v as batch × length × heads·size, and the
// scores before the softmax.
func (x *expander) attend(a attended) (y, scores value) {
	scale := x.attr("scale", 0)
	if size, _ := x.known(a.q, 3); scale == 0 {
		if size == 0 {
			x.later()
		}
		scale = 1 / math.Sqrt(float64(size))
	}
	scores = x.op("MatMul", nil, x.scale(a.q, scale), x.transpose(a.k, 0, 1, 3, 2))
	scores = x.add(scores, x.keyBias(a))
	if x.Attrs.Bool("unidirectional", false) {
		scores = x.add(scores, x.causalBias(a))
	}
	scores = x.add(scores, a.bias)
	weights := x.op("Softmax", Attrs{IntAttr("axis", -1)}, scores)
	y = x.transpose(x.op("MatMul", nil, weights, a.v), 0, 2, 1, 3)
	return x.reshape(y, 0, 0, -1), scores
}

// filtered is zero where keep holds and attribute mask_filter_value elsewhere.
func (x *expander) filtered(like, keep value) value {
	return x.op("Where", nil, keep, x.scalar(like, 0),
		x.scalar(like, x.attr("mask_filter_value", -10000)))
}

// hidden is added to the scores of keys that a query must not see, whatever mask_filter_value is:
// as low as any sum of a score and another mask stays a number.
const hidden = -math.MaxFloat32 / 2

// keyBias hides keys: a mask of rank 2 is batch × keys, of rank 3 batch × queries × keys; one of
// rank 1 has the end of each batch entry's keys, and may go on with the beginnings.
func (x *expander) keyBias(a attended) value {
	if a.mask == absent {
		return absent
	}
	if d := x.dtype(a.mask); x.err == nil && d != tensor.Int32 {
		x.fail(ErrInput, "mask is %v, must be int32", d)
	}
	switch shape := x.ranked(a.mask, "mask", 1, 2, 3); len(shape) {
	case 2:
		return x.filtered(a.q, x.unsqueeze(x.op("Greater", nil, a.mask, x.scalar(a.mask, 0)), 1, 2))
	case 3:
		return x.filtered(a.q, x.unsqueeze(x.op("Greater", nil, a.mask, x.scalar(a.mask, 0)), 1))
	}
	return x.filtered(a.q, x.unsqueeze(x.between(a), 1, 2))
}

// between is, as batch × keys, whether a key is before the end of its batch entry, and not before
// its beginning.
func (x *expander) between(a attended) value {
	batch, length := x.shape(a.q)[:1], x.shape(a.mask)
	if x.err != nil {
		return absent
	}
	keys := x.cast(x.count(x.dim(a.k, 2)), tensor.Int32)
	part := func(from int64) value {
		rows := x.reshape(a.mask, -1, 1)
		if length[0].Equal(batch[0]) {
			return rows
		}
		n, ok := batch[0].Int()
		if !ok {
			x.later()
		}
		return x.op("Slice", nil, rows, x.ints(from*int64(n)), x.ints((from+1)*int64(n)), x.ints(0))
	}
	keep := x.op("Less", nil, keys, part(0))
	if length[0].Equal(batch[0]) {
		return keep
	}
	if _, ok := length[0].Int(); !ok {
		x.later()
	} else if !length[0].Equal(batch[0].MulInt(2)) {
		x.fail(ErrInput, "mask has %v elements for a batch of %v", length[0], batch[0])
	}
	return x.op("And", nil, keep, x.op("Not", nil, x.op("Less", nil, keys, part(1))))
}

// causalBias hides the keys after each query; the queries are the last positions.
func (x *expander) causalBias(a attended) value {
	queries, keys := x.dim(a.q, 2), x.dim(a.k, 2)
	place := x.add(x.count(queries), x.op("Sub", nil, keys, queries))
	after := x.op("Less", nil, x.unsqueeze(place, 1), x.count(keys))
	return x.op("Where", nil, after, x.scalar(a.q, hidden), x.scalar(a.q, 0))
}

// refuse ends the definition when an attribute or an input that other devices know is used.
func (x *expander) refuse(attr string, inputs ...int) {
	if attr != "" && x.Attrs.Int(attr, 0) != 0 {
		x.fail(ErrUnsupported, "%s is set", attr)
	}
	for _, i := range inputs {
		if x.input(i) != absent {
			x.fail(ErrUnsupported, "input %d, for buffers that are shared between calls", i)
		}
	}
}

// defineAttention projects the input to queries, keys and values in one product.
func defineAttention(x *expander) {
	x.refuse("past_present_share_buffer", 6)
	x.refuse("do_rotary")
	x.ranked(x.input(0), "input", 3)
	x.ranked(x.input(1), "weights", 2)
	qkv := x.op("MatMul", nil, x.input(0), x.input(1))
	if x.input(2) != absent {
		x.ranked(x.input(2), "bias", 1)
	}
	x.selfAttention(x.add(qkv, x.input(2)), x.input(3), x.input(4), x.input(5))
}

// selfAttention gives the outputs of Attention for queries, keys and values beside each other. past
// holds keys and values.
func (x *expander) selfAttention(qkv, mask, past, bias value) {
	parts := x.parted(qkv)
	heads := x.headCount()
	a := attended{q: x.split(parts[0], heads), k: x.split(parts[1], heads),
		v: x.split(parts[2], heads), mask: mask, bias: bias}
	if past != absent {
		x.ranked(past, "past", 5)
		half := func(i int64) value {
			return x.op("Gather", Attrs{IntAttr("axis", 0)}, past, x.constant(tensor.Scalar(i)))
		}
		a.k, a.v = x.append(half(0), a.k), x.append(half(1), a.v)
	}
	y, _ := x.attend(a)
	x.give(0, y)
	if x.wants(1) {
		x.give(1, x.op("Concat", Attrs{IntAttr("axis", 0)}, x.unsqueeze(a.k, 0),
			x.unsqueeze(a.v, 0)))
	}
}

// parted parts the last axis into queries, keys and values, by attribute qkv_hidden_sizes or into
// thirds.
func (x *expander) parted(qkv value) []value {
	sizes := x.Attrs.Ints("qkv_hidden_sizes")
	if sizes == nil {
		d, ok := x.known(qkv, 2)
		if !ok {
			x.later()
		}
		if x.err == nil && d%3 != 0 {
			x.fail(ErrInput, "weights give %d columns, no multiple of 3", d)
		}
		sizes = []int64{int64(d / 3), int64(d / 3), int64(d / 3)}
	}
	if len(sizes) != 3 {
		x.fail(ErrAttr, "qkv_hidden_sizes is %v, must have three sizes", sizes)
	}
	return x.ops("", "Split", x.opset, 3, Attrs{IntAttr("axis", 2)}, qkv, x.ints(sizes...))
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
	x.ranked(x.input(qattnX), "input", 3)
	x.ranked(x.input(qattnW), "weight", 2)
	qkv := x.integerProduct(x.input(qattnX), x.input(qattnW), x.input(qattnXZero),
		x.input(qattnWZero), x.input(qattnXScale), x.input(qattnWScale))
	x.ranked(x.input(qattnBias), "bias", 1)
	x.selfAttention(x.add(qkv, x.input(qattnBias)), x.input(qattnMask), x.input(qattnPast), absent)
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
	if (x.input(mhaPastK) == absent) != (x.input(mhaPastV) == absent) {
		x.fail(ErrInput, "past_key and past_value must be given together")
	}
	bq, bk, bv := x.biases(q, k, v)
	heads := x.headCount()
	headed := func(w, bias value) value {
		if len(x.ranked(w, "key or value", 3, 4)) == 4 {
			return w // batch × heads × length × size already: the cache of a cross attention
		}
		return x.split(x.add(w, bias), heads)
	}
	x.ranked(q, "query", 3)
	a := attended{q: headed(q, bq), k: x.append(x.input(mhaPastK), headed(k, bk)),
		v:    x.append(x.input(mhaPastV), headed(v, bv)),
		mask: x.input(mhaMask), bias: x.input(mhaScoreBias)}
	y, scores := x.attend(a)
	for i, out := range []value{y, a.k, a.v, scores} {
		x.give(i, out)
	}
}

// unpacked returns queries, keys and values, which may come in one operand, batch × length × heads
// × 3 × size, or keys and values in one with 2.
func (x *expander) unpacked() (q, k, v value) {
	q, k, v = x.input(mhaQ), x.input(mhaK), x.input(mhaV)
	part := func(packed value, i int64) value {
		w := x.op("Gather", Attrs{IntAttr("axis", 3)}, packed, x.constant(tensor.Scalar(i)))
		return x.reshape(w, 0, 0, -1)
	}
	switch {
	case k == absent:
		x.ranked(q, "packed queries, keys and values", 5)
		return part(q, 0), part(q, 1), part(q, 2)
	case v == absent:
		x.ranked(k, "packed keys and values", 5)
		return q, part(k, 0), part(k, 1)
	}
	return q, k, v
}

// biases are the parts of input bias for queries, keys and values; absent without it.
func (x *expander) biases(q, k, v value) (bq, bk, bv value) {
	bias := x.input(mhaBias)
	if bias == absent {
		return absent, absent, absent
	}
	x.ranked(bias, "bias", 1)
	width := func(w value) int64 {
		n, ok := x.known(w, int64(x.rank(w)-1))
		if !ok {
			x.later()
		}
		return int64(n)
	}
	x.ranked(q, "query", 3)
	x.ranked(k, "key", 3, 4)
	x.ranked(v, "value", 3, 4)
	n := width(q)
	part := func(from, to int64) value {
		return x.op("Slice", nil, bias, x.ints(from), x.ints(to), x.ints(0))
	}
	if x.rank(k) == 4 {
		return part(0, n), absent, absent
	}
	return part(0, n), part(n, n+width(k)), part(n+width(k), n+width(k)+width(v))
}

// defineRotary turns pairs by the angles of position_ids: one a place, or the first one's of each
// sequence.
func defineRotary(x *expander) {
	x.refuse("is_packed_batching")
	in, ids := x.input(0), x.input(1)
	shape := x.ranked(in, "input", 3, 4)
	if x.err != nil {
		return
	}
	batch, length := x.dim(in, 0), x.dim(in, int64(len(shape)-2))
	at := ids
	if s := x.shape(ids); len(s) < 2 {
		first := x.reshape(ids, 1)
		place := x.add(x.count(length), first)
		at = x.op("Expand", nil, place, x.op("Concat", Attrs{IntAttr("axis", 0)}, batch, length))
	}
	attrs := x.only("interleaved", "rotary_embedding_dim")
	if len(shape) == 3 {
		attrs = append(attrs, IntAttr("num_heads", x.rotaryHeads(shape[2])))
	}
	x.give(0, x.op("RotaryEmbedding", attrs, in, x.input(2), x.input(3), at))
}

// rotaryHeads is attribute num_heads, or what the width of the caches, half a head, tells.
func (x *expander) rotaryHeads(hidden Dim) int64 {
	if n := x.Attrs.Int("num_heads", 0); n > 0 {
		return n
	}
	half, ok := x.known(x.input(2), 1)
	n, ok2 := hidden.Int()
	if !ok || !ok2 || half == 0 {
		x.later()
		return 0
	}
	return int64(n / (2 * half))
}
