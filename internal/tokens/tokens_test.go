package tokens

import (
	"encoding/json"
	"slices"
	"testing"
)

// FuzzTokens: no text makes more tokens than it may, or none that the vocabulary has not.
func FuzzTokens(f *testing.F) {
	ids := map[string]int64{}
	for b, l := range letters {
		ids[l] = int64(b)
	}
	text, err := json.Marshal(ids)
	if err != nil {
		f.Fatal(err)
	}
	x, err := NewBPE(text, []byte("#version: 0.2\nt h\n"))
	if err != nil {
		f.Fatal(err)
	}
	w := NewWordPiece([]string{"[UNK]", "a", "##b", "é"}, false)
	f.Add("it's a  test\n\xff 漢字", 5)
	f.Fuzz(func(t *testing.T, text string, most int) {
		most = max(most, 0) % 1000
		var all []byte
		list := x.Tokens(text, len(text)+1)
		for _, id := range list {
			all = append(all, byte(id))
		}
		if string(all) != text {
			t.Errorf("%q becomes %q", text, all)
		}
		if n := len(x.Tokens(text, most)); n > most {
			t.Errorf("%d tokens of %d", n, most)
		}
		if n := len(w.Tokens(text, most)); n > most {
			t.Errorf("%d tokens of %d", n, most)
		}
	})
}

// TestRows: rows have the tokens around a text, are filled up, and say what they cut.
func TestRows(t *testing.T) {
	r, err := NewRows([]byte("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##b\n"), nil, false, 5)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		text string
		want []int64
		n    int
		cut  bool
	}{
		{"ab", []int64{2, 4, 5, 3, 0}, 4, false}, {"A a a", []int64{2, 4, 4, 4, 3}, 5, false},
		{"a a a a", []int64{2, 4, 4, 4, 3}, 5, true}, {"", []int64{2, 3, 0, 0, 0}, 2, false},
		{"x", []int64{2, 1, 3, 0, 0}, 3, false},
	} {
		row := make([]int64, 5)
		n, cut := r.Fill(row, tc.text)
		if n != tc.n || cut != tc.cut || !slices.Equal(row, tc.want) {
			t.Errorf("%q: %v of %d, %v", tc.text, row, n, cut)
		}
	}
	if _, err := NewRows([]byte("[PAD]\n[CLS]\n"), nil, false, 5); err == nil {
		t.Error("a vocabulary without [SEP] is taken")
	}
}

// TestLacks: the first word that is no tokens is told, as the text is read.
func TestLacks(t *testing.T) {
	w := NewWordPiece([]string{"[UNK]", "a", "##b"}, false)
	for text, want := range map[string]string{"a AB": "", "a xa b": "xa", "": "", "ab c": "c"} {
		if got := w.Lacks(text); got != want {
			t.Errorf("%q lacks %q, want %q", text, got, want)
		}
	}
	if w.Unknown != 0 {
		t.Errorf("unknown words are %d", w.Unknown)
	}
}
