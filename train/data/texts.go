package data

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/weirgpu/weir/internal/tokens"
	"github.com/weirgpu/weir/tensor"
)

// Around says which of the tokens in front of a text and behind it rows have.
type Around string

// What is around the tokens of a text. A decoder that is trained to go on from what it should have
// given takes rows with [Begin], of which rows with [End] are the labels.
const (
	Both  Around = "both"
	Begin Around = "begin"
	End   Around = "end"
	None  Around = "none"
)

// TextOptions say how a column of texts becomes rows of tokens.
type TextOptions struct {
	Column     int    // counted from 1
	Vocabulary string // a file
	Merges     string // a file, of BPE; "" for WordPiece
	Cased      bool   // letters stay as they are, of WordPiece
	Around     Around // "" for both
	// Keep has words that are no tokens stand as [UNK]; without it they are refused.
	Keep   bool
	Length int    // of each row
	Fill   *int64 // what rows are filled up with; nil for the vocabulary's [PAD]
}

// Texts are rows of tokens of a column of texts.
type Texts struct {
	Tokens, Mask *tensor.Tensor // int64 of samples and Length; Mask is 1 where a text is
	Cut          int            // texts that were longer, of which only the begin is there
}

// mostVocabulary bounds the files of a vocabulary.
const mostVocabulary = 16 << 20

// ReadTexts reads a file of a sample a line, with tabs between its columns, packed by gzip or not.
// The errors are of kind [ErrData], with file and line.
func ReadTexts(path string, o TextOptions) (*Texts, error) {
	rows, err := o.rows()
	if err != nil {
		return nil, err
	}
	texts, err := column(path, o.Column)
	if err != nil {
		return nil, err
	}
	all, mask := make([]int64, len(texts)*o.Length), make([]int64, len(texts)*o.Length)
	out := &Texts{Tokens: tensor.From(all, len(texts), o.Length),
		Mask: tensor.From(mask, len(texts), o.Length)}
	for i, text := range texts {
		row := all[i*o.Length:][:o.Length]
		n, cut := rows.Fill(row, text)
		if at := slices.Index(row, unknown); at >= 0 && at < n {
			return nil, fmt.Errorf("%s: %w: line %d: %.40q is no token of %s: add it, or say "+
				"unknown: keep", path, ErrData, i+1,
				rows.By.(*tokens.WordPiece).Lacks(text), o.Vocabulary)
		}
		for k := range n {
			mask[i*o.Length+k] = 1
		}
		if cut {
			out.Cut++
		}
	}
	return out, nil
}

// unknown is the number of a word that is no tokens, and refused.
const unknown = -1 << 62

// rows reads the vocabulary.
func (o *TextOptions) rows() (*tokens.Rows, error) {
	vocabulary, err := whole(o.Vocabulary)
	if err != nil {
		return nil, err
	}
	var merges []byte
	if o.Merges != "" {
		if merges, err = whole(o.Merges); err != nil {
			return nil, err
		}
		merges = append([]byte{}, merges...) // BPE, also without any
	}
	r, err := tokens.NewRows(vocabulary, merges, o.Cased, o.Length)
	if err != nil {
		return nil, fmt.Errorf("%s: %w: %w", o.Vocabulary, ErrData, err)
	}
	if w, ok := r.By.(*tokens.WordPiece); ok {
		switch {
		case !o.Keep:
			w.Unknown = unknown
		case w.Unknown < 0:
			return nil, fmt.Errorf("%s: %w: unknown: keep: there is no token [UNK]", o.Vocabulary,
				ErrData)
		}
	}
	if o.Around == None || o.Around == End {
		r.Begin = nil
	}
	if o.Around == None || o.Around == Begin {
		r.End = nil
	}
	if n := len(r.Begin) + len(r.End); o.Length < n+1 {
		return nil, fmt.Errorf("%s: %w: rows of %d tokens have no room for a text", o.Vocabulary,
			ErrData, o.Length)
	}
	if o.Fill != nil {
		r.Pad = *o.Fill
	}
	return r, nil
}

// whole reads a file of a vocabulary.
func whole(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, mostVocabulary+1))
	if err == nil && len(b) > mostVocabulary {
		err = fmt.Errorf("%w: more than %d bytes", ErrData, mostVocabulary)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return b, nil
}

// column reads one column of a file of texts.
func column(path string, number int) (texts []string, err error) {
	err = unpacked(path, func(from io.Reader, _ string) error {
		s := bufio.NewScanner(from)
		s.Buffer(nil, maxLine)
		for line := 1; s.Scan(); line++ {
			fields := strings.Split(strings.TrimSuffix(s.Text(), "\r"), "\t")
			if len(fields) < number {
				return fmt.Errorf("line %d: %d columns, want column %d: columns are parted by tabs",
					line, len(fields), number)
			}
			text := fields[number-1]
			if !utf8.ValidString(text) {
				return fmt.Errorf("line %d: column %d is no UTF-8", line, number)
			}
			texts = append(texts, text)
		}
		if errors.Is(s.Err(), bufio.ErrTooLong) {
			return fmt.Errorf("line %d has more than %d bytes", len(texts)+1, maxLine)
		}
		if s.Err() == nil && len(texts) == 0 {
			return errors.New("no line of text")
		}
		return s.Err()
	})
	return texts, err
}

// ReadNames reads a column of labels: the numbers of lines of a file of names, from 0 on, or whole
// numbers where that is "". The errors are of kind [ErrData], with file and line.
func ReadNames(path string, number int, names string) (*tensor.Tensor, error) {
	texts, err := column(path, number)
	if err != nil {
		return nil, err
	}
	known := map[string]int64{}
	if names != "" {
		list, err := whole(names)
		if err != nil {
			return nil, err
		}
		for i, name := range tokens.Lines(list) {
			if _, twice := known[name]; twice {
				return nil, fmt.Errorf("%s: %w: line %d: %.40q is there twice", names, ErrData,
					i+1, name)
			}
			known[name] = int64(i)
		}
	}
	out := make([]int64, len(texts))
	for i, text := range texts {
		var ok bool
		if out[i], ok = known[text]; names != "" && !ok {
			return nil, fmt.Errorf("%s: %w: line %d: label %.40q is no line of %s", path, ErrData,
				i+1, text, names)
		}
		if names != "" {
			continue
		}
		if out[i], err = strconv.ParseInt(text, 10, 64); err != nil {
			return nil, fmt.Errorf("%s: %w: line %d: label %.40q is no whole number: name the "+
				"labels in a file of names", path, ErrData, i+1, text)
		}
	}
	return tensor.From(out, len(out)), nil
}
