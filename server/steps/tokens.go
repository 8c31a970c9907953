package steps

import (
	"fmt"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	operators "github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/tokens"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// The most bytes of a vocabulary and of its merges, and of tokens of a row.
const (
	mostVocabulary = 16 << 20
	mostTokens     = 1 << 14
)

// rows is how texts become rows of tokens of one length.
type rows struct{ *tokens.Rows }

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
	var merges []byte
	if t.Merges != "" {
		if merges, err = j.read(t.Merges, mostVocabulary); err != nil {
			return nil, err
		}
		merges = append([]byte{}, merges...) // of BPE, also where there are none
	}
	r, err := tokens.NewRows(text, merges, t.Cased, int(t.Length))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", t.Vocabulary, err)
	}
	if x, ok := r.By.(*tokens.WordPiece); ok && x.Unknown < 0 {
		return nil, fmt.Errorf("%s has not [PAD], [UNK], [CLS] and [SEP]", t.Vocabulary)
	}
	if t.Pad != "" {
		n, ok := r.By.ID(t.Pad)
		if !ok {
			return nil, fmt.Errorf("pad: %s has no token %.40q", t.Vocabulary, t.Pad)
		}
		r.Pad = n
	}
	return &rows{r}, nil
}

// operator is the rows as an operator of a model: tokens, where they are, and zeros.
func (r *rows) operator() weir.Operator {
	return weir.Operator{Name: "Tokens", Outputs: 3, Infer: func(c *op.Infer) error {
		n := operators.Unknown()
		if in := c.In[0]; in.Ranked && len(in.Shape) == 1 {
			n = in.Shape[0]
		}
		for i := range c.Out {
			c.Out[i] = operators.Ranked(tensor.Int64, n, operators.Known(r.Length))
		}
		return nil
	}, Eval: r.eval}
}

func (r *rows) eval(c *op.Eval) error {
	texts := c.In[0].Strings
	var out [3][]int64
	for i := range out {
		t, err := c.ZeroOutput(i, tensor.Int64, []int{len(texts), r.Length})
		if err != nil {
			return err
		}
		out[i] = tensor.As[int64](t)
	}
	for i, text := range texts {
		if c.Ctx != nil && c.Ctx.Err() != nil {
			return c.Ctx.Err()
		}
		n, _ := r.Fill(out[0][i*r.Length:(i+1)*r.Length], text)
		for k := range n {
			out[1][i*r.Length+k] = 1
		}
	}
	return nil
}
