package steps

import (
	"fmt"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	operators "github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// tokenizer makes tokens of a text. No more are looked for than most.
type tokenizer interface {
	tokens(text string, most int) []int64
}

// The most bytes of a vocabulary and of its merges, and of tokens of a row.
const (
	mostVocabulary = 16 << 20
	mostTokens     = 1 << 14
)

// rows is how texts become rows of tokens of one length.
type rows struct {
	by     tokenizer
	length int
	pad    int64
	around []int64 // the tokens in front of those of a text and behind, if there are
}

// tokenise adds a chain that makes tokens.
func (j *joiner) tokenise(b *builder, c *Chain, t *Tokenise, from *graph.Value) error {
	if len(c.Steps) > 1 {
		return fmt.Errorf("tokenise is the last step in front of a model")
	}
	if t.Length < 2 || t.Length > mostTokens {
		return fmt.Errorf("tokenise: length is %d: give 2 to %d", t.Length, mostTokens)
	}
	r, err := j.rows(t)
	if err != nil {
		return fmt.Errorf("tokenise: %w", err)
	}
	out := b.own(r.operator(), from)
	for i, to := range []string{c.To, t.Mask, t.Types} {
		if to == "" {
			continue
		}
		if err := j.feed(b, out[i], to); err != nil {
			return err
		}
	}
	return nil
}

// rows reads a vocabulary.
func (j *joiner) rows(t *Tokenise) (*rows, error) {
	text, err := j.read(t.Vocabulary, mostVocabulary)
	if err != nil {
		return nil, err
	}
	r := &rows{length: int(t.Length)}
	var id func(string) (int64, bool)
	if t.Merges != "" {
		merges, err := j.read(t.Merges, mostVocabulary)
		if err != nil {
			return nil, err
		}
		x, err := newBPE(text, merges)
		if err != nil {
			return nil, err
		}
		r.by, id = x, x.id
		r.pad, _ = x.id("<|endoftext|>")
	} else {
		x := newWordPiece(lines(text), t.Cased)
		r.by, id = x, x.id
		var found [4]bool
		r.around = make([]int64, 2)
		r.around[0], found[0] = x.id("[CLS]")
		r.around[1], found[1] = x.id("[SEP]")
		r.pad, found[2] = x.id("[PAD]")
		x.unknown, found[3] = x.id("[UNK]")
		if found != [4]bool{true, true, true, true} {
			return nil, fmt.Errorf("%s has not [PAD], [UNK], [CLS] and [SEP]", t.Vocabulary)
		}
	}
	if t.Pad != "" {
		n, ok := id(t.Pad)
		if !ok {
			return nil, fmt.Errorf("pad: %s has no token %.40q", t.Vocabulary, t.Pad)
		}
		r.pad = n
	}
	return r, nil
}

// operator is the rows as an operator of a model: tokens, where they are, and zeros.
func (r *rows) operator() weir.Operator {
	return weir.Operator{Name: "Tokens", Outputs: 3, Infer: func(c *op.Infer) error {
		n := operators.Unknown()
		if in := c.In[0]; in.Ranked && len(in.Shape) == 1 {
			n = in.Shape[0]
		}
		for i := range c.Out {
			c.Out[i] = operators.Ranked(tensor.Int64, n, operators.Known(r.length))
		}
		return nil
	}, Eval: r.eval}
}

func (r *rows) eval(c *op.Eval) error {
	texts := c.In[0].Strings
	var out [3][]int64
	for i := range out {
		t, err := c.ZeroOutput(i, tensor.Int64, []int{len(texts), r.length})
		if err != nil {
			return err
		}
		out[i] = tensor.As[int64](t)
	}
	for i, text := range texts {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			return c.Ctx.Err()
		}
		row, mask := out[0][i*r.length:(i+1)*r.length], out[1][i*r.length:]
		n := 0
		put := func(id int64) { row[n], mask[n] = id, 1; n++ }
		if r.around != nil {
			put(r.around[0])
		}
		for _, id := range r.by.tokens(text, r.length-len(r.around)) {
			put(id)
		}
		if r.around != nil {
			put(r.around[1])
		}
		for ; n < r.length; n++ {
			row[n] = r.pad
		}
	}
	return nil
}
