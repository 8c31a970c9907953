// Package tokens makes numbers of texts by a vocabulary, as the models that read texts want them.
//
// Meet first: [NewWordPiece] and [NewBPE], which read a vocabulary, and [Rows], which makes rows of
// one length.
//
// Concurrency: what is made of a vocabulary is not changed afterwards.
//
// What it refuses: a vocabulary of BPE that lacks a byte, merges that are no pairs, and one of
// WordPiece that lacks a token of [Rows].
package tokens

import (
	"errors"
	"strings"
)

// Tokenizer makes tokens of texts.
type Tokenizer interface {
	// Tokens are those of a text, the first most of them.
	Tokens(text string, most int) []int64
	// ID is the number of a token of the vocabulary.
	ID(token string) (id int64, ok bool)
}

// Lines are the lines of a file, without what ends them.
func Lines(text []byte) (list []string) {
	for line := range strings.Lines(string(text)) {
		list = append(list, strings.TrimRight(line, "\r\n"))
	}
	return list
}

// Rows is how texts become rows of tokens of one length.
type Rows struct {
	By         Tokenizer
	Length     int
	Pad        int64
	Begin, End []int64 // tokens in front of those of a text and behind them
}

// NewRows is rows by a vocabulary: by WordPiece with [CLS] in front and [SEP] behind, or by BPE
// where there are merges, without.
func NewRows(vocabulary, merges []byte, cased bool, length int) (*Rows, error) {
	r := &Rows{Length: length}
	if merges != nil {
		x, err := NewBPE(vocabulary, merges)
		if err != nil {
			return nil, err
		}
		r.By = x
		r.Pad, _ = x.ID("<|endoftext|>")
		return r, nil
	}
	x := NewWordPiece(Lines(vocabulary), cased)
	r.By, r.Begin, r.End = x, make([]int64, 1), make([]int64, 1)
	var found [3]bool
	r.Begin[0], found[0] = x.ID("[CLS]")
	r.End[0], found[1] = x.ID("[SEP]")
	r.Pad, found[2] = x.ID("[PAD]")
	if found != [3]bool{true, true, true} {
		return nil, errors.New("the vocabulary has not [PAD], [CLS] and [SEP]")
	}
	return r, nil
}

// Fill makes a row of a text, of Length numbers, and returns how many of them are tokens. What is
// longer is cut, and cut is then true.
func (r *Rows) Fill(row []int64, text string) (n int, cut bool) {
	n = copy(row, r.Begin)
	room := max(0, r.Length-len(r.Begin)-len(r.End))
	list := r.By.Tokens(text, room+1)
	n += copy(row[n:], list[:min(len(list), room)])
	n += copy(row[n:], r.End)
	for i := n; i < r.Length; i++ {
		row[i] = r.Pad
	}
	return n, len(list) > room
}
