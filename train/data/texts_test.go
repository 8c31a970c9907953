package data

import (
	"cmp"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

const words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nthe\ncat\nsat\n##s\n"

// TestTexts: a column becomes rows of tokens, with what is asked for around them, filled up.
func TestTexts(t *testing.T) {
	path := write(t, "a.tsv", "x\tThe cats sat\r\ny\tcat\nz\t\n")
	vocabulary := write(t, "vocab.txt", words)
	fill := int64(-100)
	for _, tc := range []struct {
		o    TextOptions
		want []int64
		cut  int
	}{
		{TextOptions{Length: 7}, []int64{2, 4, 5, 7, 6, 3, 0, 2, 5, 3, 0, 0, 0, 0, 2, 3, 0, 0, 0, 0,
			0}, 0},
		{TextOptions{Length: 5, Around: Both}, []int64{2, 4, 5, 7, 3, 2, 5, 3, 0, 0, 2, 3, 0, 0, 0},
			1},
		{TextOptions{Length: 5, Around: Begin}, []int64{2, 4, 5, 7, 6, 2, 5, 0, 0, 0, 2, 0, 0, 0,
			0}, 0},
		{TextOptions{Length: 5, Around: End, Fill: &fill}, []int64{4, 5, 7, 6, 3, 5, 3, -100, -100,
			-100, 3, -100, -100, -100, -100}, 0},
		{TextOptions{Length: 2, Around: None}, []int64{4, 5, 5, 0, 0, 0}, 1},
	} {
		tc.o.Column, tc.o.Vocabulary = 2, vocabulary
		got, err := ReadTexts(path, tc.o)
		if err != nil {
			t.Fatal(err)
		}
		if v := tensor.As[int64](got.Tokens); !slices.Equal(v, tc.want) || got.Cut != tc.cut ||
			!slices.Equal(got.Tokens.Shape, []int{3, tc.o.Length}) {
			t.Errorf("%+v: %v of %v, %d cut", tc.o, v, got.Tokens.Shape, got.Cut)
		}
		for i, m := range tensor.As[int64](got.Mask) {
			if pad := tc.want[i] == 0 || tc.want[i] == -100; (m == 0) != pad {
				t.Errorf("%+v: the mask is %v", tc.o, tensor.As[int64](got.Mask))
				break
			}
		}
	}
	kept, err := ReadTexts(write(t, "b.tsv.gz", packed(t, "the dog\n")), TextOptions{Column: 1,
		Vocabulary: vocabulary, Keep: true, Length: 4})
	if err != nil || !slices.Equal(tensor.As[int64](kept.Tokens), []int64{2, 4, 1, 3}) {
		t.Errorf("%v, %v", kept, err)
	}
}

// TestTextsWrong: what is wrong with texts is said with file and line.
func TestTextsWrong(t *testing.T) {
	vocabulary := write(t, "vocab.txt", words)
	for _, tc := range []struct {
		text string
		o    TextOptions
		want string
	}{
		{"the\nthe dog sat\n", TextOptions{}, `a.tsv: unusable data: line 2: "dog" is no token of`},
		{"a\tthe\nb\n", TextOptions{Column: 2}, "a.tsv: unusable data: line 2: 1 columns, want"},
		{"the\n\xff\n", TextOptions{}, "a.tsv: unusable data: line 2: column 1 is no UTF-8"},
		{"", TextOptions{}, "a.tsv: unusable data: no line of text"},
		{"the\n" + strings.Repeat("x", maxLine+1), TextOptions{}, "line 2 has more than"},
		{"the", TextOptions{Length: 2}, "vocab.txt: unusable data: rows of 2 tokens"},
		{"the", TextOptions{Vocabulary: write(t, "none.txt", "a\nb\n")}, "none.txt: unusable data"},
		{"the", TextOptions{Keep: true, Vocabulary: write(t, "n.txt", "[PAD]\n[CLS]\n[SEP]\n")},
			"n.txt: unusable data: unknown: keep"},
		{"the", TextOptions{Merges: write(t, "m.txt", "a b c\n"),
			Vocabulary: write(t, "v.json", "{}")}, "v.json: unusable data"},
	} {
		o := tc.o
		o.Column, o.Length = max(o.Column, 1), cmp.Or(o.Length, 8)
		if o.Vocabulary == "" {
			o.Vocabulary = vocabulary
		}
		_, err := ReadTexts(write(t, "a.tsv", tc.text), o)
		if !errors.Is(err, ErrData) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%.20q: %v, want %q", tc.text, err, tc.want)
		}
	}
	if _, err := ReadTexts(filepath.Join(t.TempDir(), "a"), TextOptions{Column: 1, Length: 8,
		Vocabulary: vocabulary}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestNames: labels are whole numbers, or lines of a file of names.
func TestNames(t *testing.T) {
	names := write(t, "names.txt", "spam\nham\n")
	got, err := ReadNames(write(t, "a.tsv", "x\tham\ny\tspam\n"), 2, names)
	if err != nil || !slices.Equal(tensor.As[int64](got), []int64{1, 0}) {
		t.Errorf("%v, %v", got, err)
	}
	if got, err = ReadNames(write(t, "a.tsv", "7\n-1\n"), 1, ""); err != nil ||
		!slices.Equal(tensor.As[int64](got), []int64{7, -1}) {
		t.Errorf("%v, %v", got, err)
	}
	for _, tc := range []struct{ text, names, want string }{
		{"ham\neggs\n", names, `a.tsv: unusable data: line 2: label "eggs" is no line of`},
		{"1\n1.5\n", "", `a.tsv: unusable data: line 2: label "1.5" is no whole number`},
		{"spam\n", write(t, "n", "a\nb\na\n"), `n: unusable data: line 3: "a" is there twice`},
	} {
		if _, err := ReadNames(write(t, "a.tsv", tc.text), 1, tc.names); !errors.Is(err,
			ErrData) || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%q: %v, want %q", tc.text, err, tc.want)
		}
	}
}

// TestNoise: what is drawn follows from seed, epoch and sample, and has the moments that it should.
func TestNoise(t *testing.T) {
	rows := make([]int, 1000)
	for i := range rows {
		rows[i] = i
	}
	n := &Noise{Kind: Normal, Seed: 1}
	v := filled(t, n, []int{16}, rows, 3)
	if one := filled(t, n, []int{16}, []int{7}, 3); !slices.Equal(one, v[7*16:8*16]) {
		t.Error("a sample depends on its batch")
	}
	for name, other := range map[string][]float32{"epoch": filled(t, n, []int{16}, rows, 4),
		"seed": filled(t, &Noise{Kind: Normal, Seed: 2}, []int{16}, rows, 3)} {
		if slices.Equal(v, other) {
			t.Errorf("noise does not depend on the %s", name)
		}
	}
	for kind, square := range map[NoiseKind]float64{Normal: 1, Uniform: 1. / 3} {
		sum, squares := 0.0, 0.0
		for _, x := range filled(t, &Noise{Kind: kind}, []int{16}, rows, 0) {
			sum, squares = sum+float64(x), squares+float64(x)*float64(x)
		}
		if mean := sum / 16000; mean*mean > 1e-3 || squares/16000/square > 1.05 ||
			squares/16000/square < 0.95 {
			t.Errorf("%s: mean %v, square %v", kind, mean, squares/16000)
		}
	}
}
