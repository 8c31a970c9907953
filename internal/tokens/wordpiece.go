package tokens

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// WordPiece makes of each word the longest tokens that there are, from its begin on (Devlin et al.,
// "BERT", NAACL 2019, whose program tokenization.py the rules of words are from).
type WordPiece struct {
	ids   map[string]int64
	cased bool
	// Unknown is the number that stands for a word that is no tokens: that of [UNK], -1 where the
	// vocabulary has none.
	Unknown int64
}

// mostLetters is from how many letters on a word is unknown as a whole.
const mostLetters = 100

// NewWordPiece makes tokens of a vocabulary, numbered from 0 on. Letters stay as they are where it
// is cased.
func NewWordPiece(tokens []string, cased bool) *WordPiece {
	w := &WordPiece{ids: map[string]int64{}, cased: cased, Unknown: -1}
	for i, t := range tokens {
		w.ids[t] = int64(i)
	}
	if id, ok := w.ids["[UNK]"]; ok {
		w.Unknown = id
	}
	return w
}

// Lacks is the first word of a text that is no tokens, "" where all are.
func (w *WordPiece) Lacks(text string) string {
	known := *w
	known.Unknown = -1
	for word := range strings.FieldsSeq(w.clean(text)) {
		if list := known.pieces(nil, word); list[0] < 0 {
			return word
		}
	}
	return ""
}

// ID implements [Tokenizer].
func (w *WordPiece) ID(token string) (int64, bool) {
	id, ok := w.ids[token]
	return id, ok
}

// Tokens implements [Tokenizer].
func (w *WordPiece) Tokens(text string, most int) (list []int64) {
	for word := range strings.FieldsSeq(w.clean(text)) {
		if len(list) >= most {
			break
		}
		list = w.pieces(list, word)
	}
	return list[:min(len(list), most)]
}

// clean drops what is no text, and puts spaces around punctuation and around the letters of
// Chinese.
func (w *WordPiece) clean(text string) string {
	var b strings.Builder
	for _, r := range text {
		switch {
		case r == 0, r == utf8.RuneError:
		case r == '\t', r == '\n', r == '\r', unicode.Is(unicode.Zs, r):
			b.WriteByte(' ')
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Cs, unicode.Co):
		case chinese(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	text = b.String()
	if !w.cased {
		text = norm.NFD.String(strings.ToLower(text))
	}
	b.Reset()
	for _, r := range text {
		switch {
		case !w.cased && unicode.Is(unicode.Mn, r):
		case r < 128 && r > ' ' && !(r >= '0' && r <= '9') && !unicode.IsLetter(r),
			unicode.IsPunct(r):
			b.WriteByte(' ')
			b.WriteRune(r)
			b.WriteByte(' ')
		default:
			b.WriteRune(r)
		}
	}
	return b.String()
}

// chinese reports whether a letter is of the blocks of CJK's that BERT takes for words.
func chinese(r rune) bool {
	return r >= 0x4e00 && r <= 0x9fff || r >= 0x3400 && r <= 0x4dbf || r >= 0x20000 &&
		r <= 0x2a6df || r >= 0x2a700 && r <= 0x2ceaf || r >= 0xf900 && r <= 0xfaff ||
		r >= 0x2f800 && r <= 0x2fa1f
}

// pieces appends the tokens of a word.
func (w *WordPiece) pieces(list []int64, word string) []int64 {
	if utf8.RuneCountInString(word) > mostLetters {
		return append(list, w.Unknown)
	}
	before, first := len(list), ""
	for len(word) > 0 {
		end := len(word)
		id, ok := w.ids[first+word]
		for !ok && end > 0 {
			_, n := utf8.DecodeLastRuneInString(word[:end])
			if end -= n; end > 0 {
				id, ok = w.ids[first+word[:end]]
			}
		}
		if !ok {
			return append(list[:before], w.Unknown)
		}
		list, word, first = append(list, id), word[end:], "##"
	}
	return list
}
