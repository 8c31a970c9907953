package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/data"
)

// The sizes of the translation: rows of length tokens, vectors of wide numbers, heads of attention.
const (
	length = 14
	wide   = 64
	heads  = 4
)

// translation makes phonemes of the letters of words.
func (b *bench) translation() (t task, err error) {
	var of struct{ Samples, Letters, Phonemes int }
	out, err := b.run(prepareScript, nil, "words", b.words, b.dir)
	if err == nil {
		err = json.Unmarshal(out, &of)
	}
	if err == nil {
		err = errors.Join(writeTranslation(b.path("translation.onnx"), of.Letters, of.Phonemes),
			b.tokens("letters", 1, data.Both, nil), b.tokens("before", 2, data.Begin, nil),
			b.tokens("after", 2, data.End, new(int64(-100))))
	}
	const part = 0.1
	t = task{name: "translation", metric: "accuracy", part: part, count: of.Samples,
		peer: request{Task: "translation", Batch: 64, Epochs: 6, Rate: 2e-3, Divide: 1,
			Inputs: []string{b.path("letters.npy"), b.path("before.npy")},
			Labels: b.path("after.npy"), Letters: of.Letters, Phonemes: of.Phonemes, Wide: wide,
			Heads: heads, Length: length}}
	t.recipe = fmt.Sprintf(`model: %s/translation.onnx
start: random
data:
  inputs:
    letters: {text: %[1]s/words.tsv, column: 1, vocabulary: %[1]s/letters.txt, mask: there}
    before: {text: %[1]s/words.tsv, column: 2, vocabulary: %[1]s/before.txt, cased: true, around: begin}
  labels: {text: %[1]s/words.tsv, column: 2, vocabulary: %[1]s/after.txt, cased: true, around: end}
  batch: 64
  eval: {part: %v}
loss: {softmax-cross-entropy: {ignore: -100}}
optimizer: {adam: {rate: 2e-3}}
schedule: {cosine: {warmup: 50}}
clip: 1
epochs: 6
`, b.dir, part)
	t.peer.Warmup, t.peer.Clip = 50, 1
	return t, err
}

// tokens writes the tokens of a column, by a vocabulary of that name, as PyTorch reads them.
func (b *bench) tokens(name string, column int, around data.Around, fill *int64) error {
	t, err := data.ReadTexts(b.path("words.tsv"), data.TextOptions{Column: column, Length: length,
		Vocabulary: b.path(name + ".txt"), Cased: column == 2, Around: around, Fill: fill})
	if err != nil {
		return err
	}
	if t.Cut > 0 {
		return fmt.Errorf("%d words are longer than %d tokens", t.Cut, length)
	}
	return b.write(name+".npy", t.Tokens)
}

// transformer is a network of attention under construction.
type transformer struct{ *network }

// linear is x times a weight, and a bias.
func (n transformer) linear(name string, x *graph.Value, from, to int) *graph.Value {
	x = n.op("MatMul", name+".product", nil, x, n.weight(name+".weight", from, to))
	return n.op("Add", name, nil, x, n.weight(name+".bias", to))
}

func (n transformer) norm(name string, x *graph.Value) *graph.Value {
	return n.op("LayerNormalization", name, op.Attrs{op.IntAttr("axis", -1)}, x,
		n.full(name+".scale", 1, wide), n.full(name+".bias", 0, wide))
}

// heads cuts vectors into those of heads.
func (n transformer) heads(name string, x *graph.Value, perm ...int64) *graph.Value {
	x = n.op("Reshape", name+".cut", nil, x, ints(name+".sizes", 0, length, heads, wide/heads))
	return n.op("Transpose", name+".heads", op.Attrs{op.IntsAttr("perm", perm...)}, x)
}

// attend adds to x what it attends to in another value, where the mask adds to the scores.
func (n transformer) attend(name string, x, to, mask *graph.Value) *graph.Value {
	q := n.heads(name+".q", n.linear(name+".query", x, wide, wide), 0, 2, 1, 3)
	k := n.heads(name+".k", n.linear(name+".key", to, wide, wide), 0, 2, 3, 1)
	v := n.heads(name+".v", n.linear(name+".value", to, wide, wide), 0, 2, 1, 3)
	s := n.op("MatMul", name+".scores", nil, q, k)
	s = n.op("Mul", name+".scaled", nil, s, graph.NewConst(name+".scale",
		tensor.Scalar(float32(1/math.Sqrt(wide/heads)))))
	s = n.op("Softmax", name+".softmax", op.Attrs{op.IntAttr("axis", -1)},
		n.op("Add", name+".masked", nil, s, mask))
	o := n.op("Transpose", name+".back", op.Attrs{op.IntsAttr("perm", 0, 2, 1, 3)},
		n.op("MatMul", name+".read", nil, s, v))
	o = n.op("Reshape", name+".joined", nil, o, ints(name+".joint", 0, length, wide))
	return n.linear(name+".out", o, wide, wide)
}

func (n transformer) add(name string, x, y *graph.Value) *graph.Value {
	return n.op("Add", name, nil, x, y)
}

// feed adds to x what two layers make of it.
func (n transformer) feed(name string, x *graph.Value) *graph.Value {
	h := n.linear(name+".up", n.norm(name+".norm", x), wide, 2*wide)
	h = n.op("Relu", name+".relu", nil, h)
	return n.add(name+".sum", x, n.linear(name+".down", h, 2*wide, wide))
}

// embed looks tokens up, and adds what their places are.
func (n transformer) embed(name string, ids *graph.Value, tokens int) *graph.Value {
	x := n.op("Gather", name+".vectors", nil, n.weight(name+".table", tokens, wide), ids)
	return n.add(name+".placed", x, n.weight(name+".places", length, wide))
}

// writeTranslation writes a Transformer (Vaswani et al. 2017, with normalisation in front) of one
// layer on each side. Scores are samples × phonemes × places.
func writeTranslation(path string, letters, phonemes int) error {
	n := transformer{&network{g: &graph.Graph{Name: "translation", Opsets: map[string]int{"": 17}}}}
	in := func(name string, d tensor.DType) *graph.Value {
		v := &graph.Value{Name: name, Type: op.Ranked(d, op.Sym("n"), op.Known(length))}
		n.g.Inputs = append(n.g.Inputs, v)
		return v
	}
	ids, before, there := in("letters", tensor.Int64), in("before", tensor.Int64),
		in("there", tensor.Float32)
	one := graph.NewConst("one", tensor.Scalar(float32(1)))
	large := graph.NewConst("large", tensor.Scalar(float32(10000)))
	hide := n.op("Mul", "hidden", nil, n.op("Sub", "absent", nil, there, one), large)
	hide = n.op("Unsqueeze", "hide", nil, hide, ints("axes", 1, 2))
	future := make([]float32, length*length)
	for i := range length {
		for k := i + 1; k < length; k++ {
			future[i*length+k] = -10000
		}
	}
	x := n.embed("source", ids, letters)
	h := n.norm("encoder.norm", x)
	x = n.add("encoder.sum", x, n.attend("encoder", h, h, hide))
	memory := n.norm("memory", n.feed("encoder.feed", x))
	y := n.embed("target", before, phonemes)
	h = n.norm("decoder.norm", y)
	y = n.add("decoder.sum", y, n.attend("decoder", h, h,
		graph.NewConst("future", tensor.From(future, length, length))))
	y = n.add("cross.sum", y, n.attend("cross", n.norm("cross.norm", y), memory, hide))
	y = n.norm("last", n.feed("decoder.feed", y))
	y = n.linear("phonemes", y, wide, phonemes)
	n.g.Outputs = []*graph.Value{n.op("Transpose", "scores", op.Attrs{op.IntsAttr("perm", 0, 2, 1)},
		y)}
	if n.err != nil {
		return n.err
	}
	return onnx.WriteFile(path, n.g, onnx.WriteOptions{})
}
