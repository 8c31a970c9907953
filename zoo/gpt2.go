package zoo

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// gpt2 is the smallest model of Radford et al., "Language Models are Unsupervised Multitask
// Learners", 2019, table 2, as Hugging Face's GPT2LMHeadModel: no cache of keys and values, logits
// of every position.
func gpt2() Arch {
	return Arch{
		Name:       "gpt2",
		Doc:        "language model, 12 layers of width 768 (Radford et al., GPT-2, 2019)",
		Parameters: 124_439_808,
		Inputs:     []Input{token("input_ids", gptVocabulary), token("attention_mask", 2)},
		options:    textOptions,
		multiple:   gptHead,
		draft: func(b *builder, o Options) {
			h := or(o.Hidden, 768)
			gpt{builder: b, layers: or(o.Layers, 12), hidden: h,
				vocabulary: or(o.Vocabulary, gptVocabulary),
				heads:      heads{count: h / gptHead, size: gptHead}}.draft()
		},
	}
}

// Sizes that all GPT-2 models share.
const (
	gptVocabulary = 50257
	gptPositions  = 1024
	gptHead       = 64
	gptEpsilon    = 1e-5
)

// gpt writes one language model.
type gpt struct {
	*builder
	layers, hidden, vocabulary int
	heads                      heads
}

func (m gpt) draft() {
	batch, sequence := op.Sym("batch"), op.Sym("sequence")
	ids := m.input("input_ids", tensor.Int64, batch, sequence)
	attention := m.input("attention_mask", tensor.Int64, batch, sequence)

	b := m.in("transformer")
	length := b.dim(ids, 1)
	ids = b.reshape(ids, b.concat(0, b.ints(-1), b.unsqueeze(length, 0)))
	rows := b.dim(ids, 0)
	position := b.op("Range", b.int(0), b.cast(length, tensor.Int64), b.int(1))
	position = b.unsqueeze(position, 0)
	attention = b.reshape(attention, b.concat(0, b.unsqueeze(rows, 0), b.ints(-1)))
	mask := b.additiveMask(attention)

	wte := b.in("wte").param("weight", normal(embeddingStd), m.vocabulary, m.hidden)
	wpe := b.in("wpe").param("weight", normal(embeddingStd), gptPositions, m.hidden)
	x := b.op("Add", b.in("wte").op("Gather", wte, ids), b.in("wpe").op("Gather", wpe, position))
	width := b.lastDim(x)

	causal := graph.NewConst("transformer.causal_mask", lowerTriangle(gptPositions))
	for i := range m.layers {
		x = m.layer(b.in(fmt.Sprintf("h.%d", i)), x, mask, causal)
	}
	x = b.in("ln_f").layerNorm(x, m.hidden, gptEpsilon)
	x = b.reshape(x, b.concat(0, b.ints(-1), b.unsqueeze(length, 0), b.unsqueeze(width, 0)))

	head := m.in("lm_head") // its weight is tied to the token embedding (Press and Wolf, 2017)
	logits := head.op("MatMul", x, head.transpose(wte, 1, 0))
	m.output(logits, "logits", batch, sequence, op.Known(m.vocabulary))
}

// lowerTriangle is true where column <= row, [1, 1, n, n].
func lowerTriangle(n int) *tensor.Tensor {
	t := make([]bool, n*n)
	for i := range n {
		for j := range i + 1 {
			t[i*n+j] = true
		}
	}
	return tensor.From(t, 1, 1, n, n)
}

// layer is one block: normalisation comes before attention and before the feed-forward network
// (section 2.3).
func (m gpt) layer(b *builder, x, mask, causal *graph.Value) *graph.Value {
	// Projections into the residual stream shrink with its depth (section 2.3).
	residual := linearGain / float64(2*m.layers)

	attn := b.in("attn")
	h := b.in("ln_1").layerNorm(x, m.hidden, gptEpsilon)
	h = attn.in("c_attn").conv1D(h, m.hidden, 3*m.hidden, linearGain)
	h = m.attention(attn, h, mask, causal)
	h = attn.in("c_proj").conv1D(h, m.hidden, m.hidden, residual)
	x = b.op("Add", h, x)

	wide := 4 * m.hidden
	mlp := b.in("mlp")
	f := b.in("ln_2").layerNorm(x, m.hidden, gptEpsilon)
	f = mlp.in("c_fc").conv1D(f, m.hidden, wide, linearGain)
	f = mlp.in("act").geluTanh(f)
	f = mlp.in("c_proj").conv1D(f, wide, m.hidden, residual)
	return b.op("Add", x, f)
}

// attention is softmax(q k^T / sqrt(size)) v over the heads, each token seeing itself and those
// before it.
func (m gpt) attention(b *builder, qkv, mask, causal *graph.Value) *graph.Value {
	count, size, hidden := int64(m.heads.count), int64(m.heads.size), int64(m.hidden)
	parts := b.split(qkv, 2, hidden, hidden, hidden)
	q := b.transpose(b.likeLeading(parts[0], count, size), 0, 2, 1, 3)
	kRows := b.likeLeading(parts[1], count, size)
	k := b.transpose(kRows, 0, 2, 1, 3)
	v := b.transpose(b.likeLeading(parts[2], count, size), 0, 2, 1, 3)

	s := b.op("MatMul", q, b.transpose(kRows, 0, 2, 3, 1))
	s = b.op("Div", s, b.rootOfHeadSize(v))
	s = b.op("Where", b.visible(q, k, causal), b.cast(s, tensor.Float32), b.float(-math.MaxFloat32))
	p := b.opWith("Softmax", axis(-1), b.op("Add", s, mask))
	c := b.op("MatMul", b.cast(p, tensor.Float32), v)
	return b.likeLeading(b.transpose(c, 0, 2, 1, 3), hidden)
}

// rootOfHeadSize computes sqrt(size) from v's shape, with the operators that exporters write for
// torch.full([], size ** 0.5).
func (b *builder) rootOfHeadSize(v *graph.Value) *graph.Value {
	root := b.op("Pow", b.cast(b.lastDim(v), tensor.Float32), b.float(0.5))
	zero := op.Attrs{op.TensorAttr("value", tensor.From([]float32{0}, 1))}
	return b.op("Add", b.opWith("ConstantOfShape", zero, b.ints()), root)
}

// visible cuts from the triangle the rows of the queries, which are the last positions, and the
// columns of the keys.
func (b *builder) visible(q, k, causal *graph.Value) *graph.Value {
	queries, keys := b.secondLastDim(q), b.secondLastDim(k)
	first := b.op("Sub", keys, queries)
	m := b.op("Slice", causal, b.unsqueeze(first, 0), b.unsqueeze(keys, 0), b.ints(2), b.ints(1))
	return b.op("Slice", m, b.ints(0), b.unsqueeze(keys, 0), b.ints(3), b.ints(1))
}

// lastDim is x.size(-1), and secondLastDim x.size(-2), which exporters write with negative slices.
func (b *builder) lastDim(x *graph.Value) *graph.Value { return b.dimFromEnd(x, -1, math.MaxInt64) }

func (b *builder) secondLastDim(x *graph.Value) *graph.Value { return b.dimFromEnd(x, -2, -1) }

func (b *builder) dimFromEnd(x *graph.Value, from, to int64) *graph.Value {
	s := b.op("Slice", b.op("Shape", x), b.ints(from), b.ints(to), b.ints(0))
	return b.op("Squeeze", s, b.ints(0))
}

// conv1D is Hugging Face's name for a fully connected layer with the weight stored [in, out],
// applied to the rows of [batch, sequence, in] as one matrix.
func (b *builder) conv1D(x *graph.Value, in, out int, gain float64) *graph.Value {
	batch, sequence := b.dim(x, 0), b.dim(x, 1)
	rows := b.reshape(x, b.concat(0, b.ints(-1), b.unsqueeze(b.lastDim(x), 0)))
	y := b.opWith("Gemm", op.Attrs{op.FloatAttr("alpha", 1), op.FloatAttr("beta", 1)}, rows,
		b.param("weight", fanIn(gain, in), in, out), b.param("bias", normal(biasStd), out))
	return b.reshape(y, b.concat(0, b.unsqueeze(batch, 0), b.unsqueeze(sequence, 0),
		b.ints(int64(out))))
}
