package tokens

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// BPE merges the bytes of words, the pair that was learned first before others (Sennrich et al.,
// "Neural Machine Translation of Rare Words with Subword Units", ACL 2016; bytes as in GPT-2's
// encoder.py, whose rules of words these are).
type BPE struct {
	ids   map[string]int64
	ranks map[[2]string]int
}

// letters are what bytes are written as in vocabularies: those that can be seen as themselves, and
// others as letters from 256 on.
var letters = func() (list [256]string) {
	next := rune(256)
	for b := range list {
		seen := b >= '!' && b <= '~' || b >= 0xa1 && b <= 0xac || b >= 0xae
		if r := rune(b); seen {
			list[b] = string(r)
			continue
		}
		list[b] = string(next)
		next++
	}
	return list
}()

// NewBPE reads a vocabulary, JSON with a number for each token, and merges, a pair a line.
func NewBPE(vocabulary, merges []byte) (*BPE, error) {
	x := &BPE{ranks: map[[2]string]int{}}
	if err := json.Unmarshal(vocabulary, &x.ids); err != nil {
		return nil, fmt.Errorf("vocabulary: %w", err)
	}
	for i, line := range Lines(merges) {
		if line == "" || i == 0 && strings.HasPrefix(line, "#version") {
			continue
		}
		a, b, both := strings.Cut(line, " ")
		if !both || strings.Contains(b, " ") {
			return nil, fmt.Errorf("merges: line %d: give two parts", i+1)
		}
		x.ranks[[2]string{a, b}] = i
	}
	for b, l := range letters {
		if _, ok := x.ids[l]; !ok {
			return nil, fmt.Errorf("vocabulary: there is no token of byte %d, %q", b, l)
		}
	}
	return x, nil
}

// ID implements [Tokenizer].
func (x *BPE) ID(token string) (int64, bool) {
	id, ok := x.ids[token]
	return id, ok
}

// Tokens implements [Tokenizer].
func (x *BPE) Tokens(text string, most int) (list []int64) {
	for len(text) > 0 && len(list) < most {
		n := word(text)
		list = x.merge(list, text[:n])
		text = text[n:]
	}
	return list[:min(len(list), most)]
}

// mostBytes is how many bytes of a word are merged together: the time is their square.
const mostBytes = 256

// merge appends the tokens of a word.
func (x *BPE) merge(list []int64, word string) []int64 {
	for len(word) > mostBytes {
		list = x.merge(list, word[:mostBytes])
		word = word[mostBytes:]
	}
	parts := make([]string, len(word))
	for i := range parts {
		parts[i] = letters[word[i]]
	}
	for len(parts) > 1 {
		at, least := -1, len(x.ranks)*2+2
		for i := range parts[1:] {
			if r, ok := x.ranks[[2]string{parts[i], parts[i+1]}]; ok && r < least {
				at, least = i, r
			}
		}
		if at < 0 {
			break
		}
		parts[at] += parts[at+1]
		parts = append(parts[:at+1], parts[at+2:]...)
	}
	for _, p := range parts {
		id, ok := x.ids[p]
		if !ok { // a merge without a token: by bytes
			for _, r := range p {
				list = append(list, x.ids[string(r)])
			}
			continue
		}
		list = append(list, id)
	}
	return list
}

// word is the length of the first word: 's|'t|'re|'ve|'m|'ll|'d| ?letters| ?numbers| ?others, and
// spaces, of which the last one belongs to the word behind it.
func word(text string) int {
	for _, end := range []string{"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"} {
		if strings.HasPrefix(text, end) {
			return len(end)
		}
	}
	begin := 0
	if text[0] == ' ' && len(text) > 1 {
		begin = 1
	}
	r, _ := utf8.DecodeRuneInString(text[begin:])
	if unicode.IsSpace(r) {
		return spaces(text)
	}
	of := kindOf(r)
	n := begin
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if kindOf(r) != of {
			break
		}
		n += size
	}
	return n
}

// spaces is the length of those that a text begins with, but for one before a word.
func spaces(text string) int {
	n, last := 0, 0
	for n < len(text) {
		r, size := utf8.DecodeRuneInString(text[n:])
		if !unicode.IsSpace(r) {
			if last > 0 {
				return last
			}
			return n
		}
		last, n = n, n+size
	}
	return n
}

// kindOf tells letters, numbers, spaces and others apart.
func kindOf(r rune) int {
	switch {
	case unicode.IsLetter(r):
		return 1
	case unicode.IsNumber(r):
		return 2
	case unicode.IsSpace(r):
		return 3
	}
	return 4
}
