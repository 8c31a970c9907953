package zoo

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// bertBase is the base model of Devlin et al., "BERT: Pre-training of Deep Bidirectional
// Transformers for Language Understanding", NAACL 2019, section 3, as Hugging Face's BertModel:
// without a task's head, with the pooler.
func bertBase() Arch {
	a := bertArch(bertSize{layers: 12, hidden: 768, head: 64})
	a.Name = "bert-base"
	a.Doc = "text encoder, 12 layers of width 768 (Devlin et al., BERT, 2019)"
	a.Parameters = 109_482_240
	return a
}

// miniLM is the 6-layer encoder of width 384 that sentence-transformers/all-MiniLM-L6-v2 is trained
// from: Wang et al., "MiniLM: Deep Self-Attention Distillation", NeurIPS 2020, with every second
// layer of the 12-layer student kept.
func miniLM() Arch {
	a := bertArch(bertSize{layers: 6, hidden: 384, head: 32})
	a.Name = "minilm-l6"
	a.Doc = "sentence encoder, 6 layers of width 384 (Wang et al., MiniLM, 2020)"
	a.Parameters = 22_713_216
	return a
}

// Sizes that all BERT models share.
const (
	bertVocabulary = 30522
	bertPositions  = 512
	bertTypes      = 2
	bertEpsilon    = 1e-12
)

// bertSize is what sets BERT models apart: layers, width, and the width of one attention head.
type bertSize struct{ layers, hidden, head int }

func bertArch(s bertSize) Arch {
	return Arch{
		Inputs: []Input{token("input_ids", bertVocabulary), token("attention_mask", 2),
			token("token_type_ids", bertTypes)},
		options:  textOptions,
		multiple: s.head,
		draft:    func(b *builder, o Options) { newBERT(b, o, s).draft() },
	}
}

// bert writes one encoder.
type bert struct {
	*builder
	layers, hidden, vocabulary int
	heads                      heads
}

func newBERT(b *builder, o Options, s bertSize) bert {
	h := or(o.Hidden, s.hidden)
	return bert{builder: b, layers: or(o.Layers, s.layers), hidden: h,
		vocabulary: or(o.Vocabulary, bertVocabulary),
		heads:      heads{count: h / s.head, size: s.head}}
}

func (m bert) draft() {
	batch, sequence := op.Sym("batch"), op.Sym("sequence")
	ids := m.input("input_ids", tensor.Int64, batch, sequence)
	attention := m.input("attention_mask", tensor.Int64, batch, sequence)
	types := m.input("token_type_ids", tensor.Int64, batch, sequence)

	mask := m.additiveMask(attention)
	x := m.embed(ids, types)
	for i := range m.layers {
		x = m.layer(m.in("encoder").in(fmt.Sprintf("layer.%d", i)), x, mask)
	}
	m.output(x, "last_hidden_state", batch, sequence, op.Known(m.hidden))

	pooler := m.in("pooler")
	first := pooler.opWith("Gather", axis(1), x, pooler.int(0))
	pooled := pooler.in("activation").
		op("Tanh", pooler.in("dense").linear(first, m.hidden, m.hidden))
	m.output(pooled, "pooler_output", batch, op.Known(m.hidden))
}

// embed is the sum of token, segment and position embeddings of figure 2.
func (m bert) embed(ids, types *graph.Value) *graph.Value {
	b := m.in("embeddings")
	sequence := b.unsqueeze(b.dim(ids, 1), 0)
	positions := make([]int64, bertPositions)
	for i := range positions {
		positions[i] = int64(i)
	}
	numbers := b.constant(tensor.From(positions, 1, bertPositions))
	position := b.op("Slice", numbers, b.ints(0), sequence, b.ints(1), b.ints(1))

	word := m.lookup(b.in("word_embeddings"), m.vocabulary, ids)
	segment := m.lookup(b.in("token_type_embeddings"), bertTypes, types)
	x := b.op("Add", word, segment)
	x = b.op("Add", x, m.lookup(b.in("position_embeddings"), bertPositions, position))
	return b.in("LayerNorm").layerNorm(x, m.hidden, bertEpsilon)
}

func (m bert) lookup(b *builder, rows int, index *graph.Value) *graph.Value {
	return b.op("Gather", b.param("weight", normal(embeddingStd), rows, m.hidden), index)
}

// layer is one encoder layer: attention, then a feed-forward network of four times the width, each
// added to its input and normalised.
func (m bert) layer(b *builder, x, mask *graph.Value) *graph.Value {
	c := m.attention(b.in("attention").in("self"), x, mask)
	out := b.in("attention").in("output")
	a := out.op("Add", out.in("dense").dense(c, m.hidden, m.hidden), x)
	a = out.in("LayerNorm").layerNorm(a, m.hidden, bertEpsilon)

	wide := 4 * m.hidden
	middle := b.in("intermediate")
	f := middle.in("dense").dense(a, m.hidden, wide)
	f = middle.in("intermediate_act_fn").geluErf(f)

	end := b.in("output")
	y := end.op("Add", end.in("dense").dense(f, wide, m.hidden), a)
	return end.in("LayerNorm").layerNorm(y, m.hidden, bertEpsilon)
}

// attention is softmax(q k^T / sqrt(size) + mask) v over the heads, in the order in which Hugging
// Face computes it.
func (m bert) attention(b *builder, x, mask *graph.Value) *graph.Value {
	count, size := int64(m.heads.count), int64(m.heads.size)
	q := b.in("query").dense(x, m.hidden, m.hidden)
	k := b.in("key").dense(x, m.hidden, m.hidden)
	k = b.likeLeading(k, count, size)
	v := b.in("value").dense(x, m.hidden, m.hidden)
	v = b.transpose(b.likeLeading(v, count, size), 0, 2, 1, 3)
	q = b.transpose(b.likeLeading(q, count, size), 0, 2, 1, 3)

	s := b.op("MatMul", q, b.transpose(k, 0, 2, 3, 1))
	s = b.op("Div", s, b.float(float32(math.Sqrt(float64(size)))))
	p := b.opWith("Softmax", axis(-1), b.op("Add", s, mask))
	c := b.transpose(b.op("MatMul", p, v), 0, 2, 1, 3)
	return b.likeLeading(c, int64(m.hidden))
}
