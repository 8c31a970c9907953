package op

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

func words(v ...string) *tensor.Tensor { return tensor.FromStrings(v, len(v)) }

func wordRows(rows, cols int, v ...string) *tensor.Tensor {
	return tensor.FromStrings(v, rows, cols)
}

func TestText(t *testing.T) {
	flags := func(v ...bool) *tensor.Tensor { return tensor.From(v, len(v)) }
	pattern := func(p string) Attrs { return Attrs{StringAttr("pattern", p)} }
	stop := StringsAttr("stopwords", "Monday", "b")
	week := words("monday", "MONDAY", "Monday", "", "B", "b", "Été ß")
	runCases(t, []evalCase{
		{op: "StringNormalizer", in: list(week), want: list(week)},
		{op: "StringNormalizer", name: "any case", attrs: Attrs{stop}, in: list(week),
			want: list(words("", "Été ß"))},
		{op: "StringNormalizer", name: "one case",
			attrs: Attrs{stop, IntAttr("is_case_sensitive", 1)}, in: list(week),
			want: list(words("monday", "MONDAY", "", "B", "Été ß"))},
		{op: "StringNormalizer", name: "upper, after the stop words",
			attrs: Attrs{stop, IntAttr("is_case_sensitive", 1),
				StringAttr("case_change_action", "UPPER")},
			in: list(week), want: list(words("MONDAY", "MONDAY", "", "B", "ÉTÉ ß"))},
		{op: "StringNormalizer", name: "lower",
			attrs: Attrs{StringAttr("case_change_action", "LOWER")},
			in:    list(wordRows(1, 2, "Aa", "É")), want: list(wordRows(1, 2, "aa", "é"))},
		{op: "StringNormalizer", name: "nothing left", attrs: Attrs{stop},
			in: list(wordRows(1, 2, "b", "B")), want: list(wordRows(1, 1, ""))},
		{op: "StringNormalizer", name: "nothing given", in: list(words()), want: list(words(""))},
		{op: "StringNormalizer", name: "two rows", in: list(wordRows(2, 1, "a", "b")),
			err: ErrInput},
		{op: "StringNormalizer", name: "sideways",
			attrs: Attrs{StringAttr("case_change_action", "SIDEWAYS")}, in: list(words("a")),
			err: ErrAttr},

		{op: "StringConcat", in: list(words("a", "b", ""), words("1", "", "")),
			want: list(words("a1", "b", ""))},
		{op: "StringConcat", name: "broadcast", in: list(wordRows(2, 1, "a", "b"), words("1", "2")),
			want: list(wordRows(2, 2, "a1", "a2", "b1", "b2"))},
		{op: "StringConcat", name: "scalar",
			in:   list(words("é", "a"), tensor.FromStrings(list("!"))),
			want: list(words("é!", "a!"))},
		{op: "StringConcat", name: "numbers", in: list(words("a"), i64(1)), err: ErrInput},

		{op: "StringSplit", in: list(words("  a b  c ", "", "\t", "d")),
			want: list(wordRows(4, 3, "a", "b", "c", "", "", "", "", "", "", "d", "", ""),
				i64(3, 0, 0, 1))},
		{op: "StringSplit", name: "white space once", attrs: Attrs{IntAttr("maxsplit", 1)},
			in:   list(words(" a b  c ", "d")),
			want: list(wordRows(2, 2, "a", "b  c", "d", ""), i64(2, 1))},
		{op: "StringSplit", name: "never", attrs: Attrs{IntAttr("maxsplit", 0)},
			in: list(words(" a b ", "")), want: list(wordRows(2, 1, "a b", ""), i64(1, 0))},
		{op: "StringSplit", name: "delimiter", attrs: Attrs{StringAttr("delimiter", ",")},
			in:   list(words("a,,b", ",", "")),
			want: list(wordRows(3, 3, "a", "", "b", "", "", "", "", "", ""), i64(3, 2, 1))},
		{op: "StringSplit", name: "delimiter once",
			attrs: Attrs{StringAttr("delimiter", ", "), IntAttr("maxsplit", 1)},
			in:    list(words("a, b, c")), want: list(wordRows(1, 2, "a", "b, c"), i64(2))},
		{op: "StringSplit", name: "parts only", in: list(tensor.FromStrings(list("a b"))),
			want: list(words("a", "b"))},
		{op: "StringSplit", name: "nothing", in: list(wordRows(0, 2)),
			want: list(tensor.FromStrings(nil, 0, 2, 0), tensor.From([]int64{}, 0, 2))},
		{op: "StringSplit", name: "numbers", in: list(i64(1)), err: ErrInput},

		{op: "RegexFullMatch", attrs: pattern("a|abc"), in: list(words("a", "abc", "ab", "abcd")),
			want: list(flags(true, true, false, false))},
		{op: "RegexFullMatch", name: "own anchors", attrs: pattern("^a.c$"),
			in: list(words("abc", "a\nc", "abc\n")), want: list(flags(true, false, false))},
		{op: "RegexFullMatch", name: "flags", attrs: pattern("(?is)A.C"),
			in: list(words("abc", "a\nc", "é")), want: list(flags(true, true, false))},
		{op: "RegexFullMatch", name: "open bracket", attrs: pattern("["), in: list(words("a")),
			err: ErrAttr},
		{op: "RegexFullMatch", name: "brackets that close ours", attrs: pattern("a)(?:b"),
			in: list(words("ab")), err: ErrAttr},
		{op: "RegexFullMatch", name: "no pattern", in: list(words("ab")), err: ErrAttr},
	})
}

func TestTfIdf(t *testing.T) {
	// One item: 2, 3, 5; two: (5,6), (7,8), (6,7).
	attrs := func(mode string, lo, hi, skips int64, more ...Attr) Attrs {
		return append(Attrs{StringAttr("mode", mode), IntAttr("min_gram_length", lo),
			IntAttr("max_gram_length", hi), IntAttr("max_skip_count", skips),
			IntsAttr("ngram_counts", 0, 3), IntsAttr("ngram_indexes", 2, 1, 0, 5, 4, 3),
			IntsAttr("pool_int64s", 2, 3, 5, 5, 6, 7, 8, 6, 7)}, more...)
	}
	weights := FloatsAttr("weights", 10, 20, 30, 40, 50, 60)
	text := Attrs{StringAttr("mode", "TF"), IntAttr("min_gram_length", 2),
		IntAttr("max_gram_length", 2), IntAttr("max_skip_count", 0),
		IntsAttr("ngram_counts", 0, 0), IntsAttr("ngram_indexes", 0, 1),
		StringsAttr("pool_strings", "a", "b", "a\x00", "b")}
	f := func(v ...float32) *tensor.Tensor { return tensor.From(v, len(v)) }
	in := i64(2, 2, 5, 6, 5, 6, 7, 8)
	runCases(t, []evalCase{
		{op: "TfIdfVectorizer", attrs: attrs("TF", 1, 2, 1), in: list(in),
			want: list(f(2, 0, 2, 1, 1, 2))},
		{op: "TfIdfVectorizer", name: "pairs", attrs: attrs("TF", 2, 2, 0), in: list(in),
			want: list(f(0, 0, 0, 1, 1, 2))},
		{op: "TfIdfVectorizer", name: "skips", attrs: attrs("TF", 2, 2, 2),
			in: list(i64(5, 0, 6, 6, 0, 0, 7)), want: list(f(0, 0, 0, 1, 0, 2))},
		{op: "TfIdfVectorizer", name: "weights go with the pool",
			attrs: attrs("IDF", 1, 2, 1, weights), in: list(in),
			want: list(f(30, 0, 10, 60, 50, 40))},
		{op: "TfIdfVectorizer", name: "counts times weights",
			attrs: attrs("TFIDF", 1, 2, 1, weights), in: list(in),
			want: list(f(60, 0, 20, 60, 50, 80))},
		{op: "TfIdfVectorizer", name: "no weights", attrs: attrs("IDF", 1, 2, 1), in: list(in),
			want: list(f(1, 0, 1, 1, 1, 1))},
		{op: "TfIdfVectorizer", name: "rows", attrs: attrs("TF", 1, 1, 0),
			in:   list(tensor.From(list[int32](2, 2, 5, 3), 2, 2)),
			want: list(tensor.From(list[float32](0, 0, 2, 0, 0, 0, 1, 1, 0, 0, 0, 0), 2, 6))},
		{op: "TfIdfVectorizer", name: "empty row", attrs: attrs("TF", 1, 2, 9), in: list(i64()),
			want: list(f(0, 0, 0, 0, 0, 0))},
		{op: "TfIdfVectorizer", name: "strings", attrs: text,
			in: list(words("a", "b", "a\x00", "b", "a", "\x00b")), want: list(f(1, 1))},
		{op: "TfIdfVectorizer", name: "wrong items", attrs: text, in: list(i64(1)), err: ErrInput},
		{op: "TfIdfVectorizer", name: "endless skips", attrs: attrs("TF", 1, 2, 1<<62),
			in: list(i64(2)), want: list(f(0, 0, 1, 0, 0, 0))},
		{op: "TfIdfVectorizer", name: "mode", attrs: attrs("IDT", 1, 2, 1), in: list(in),
			err: ErrAttr},
		{op: "TfIdfVectorizer", name: "lengths", attrs: attrs("TF", 2, 1, 1), in: list(in),
			err: ErrAttr},
		{op: "TfIdfVectorizer", name: "longer than the pool tells", attrs: attrs("TF", 1, 3, 1),
			in: list(in), err: ErrAttr},
		{op: "TfIdfVectorizer", name: "weights",
			attrs: attrs("TF", 1, 2, 1, FloatsAttr("weights", 1)), in: list(in), err: ErrAttr},
		{op: "TfIdfVectorizer", name: "rank", attrs: attrs("TF", 1, 2, 1),
			in: list(tensor.From(list[int64](2), 1, 1, 1)), err: ErrInput},
	})
}

// What doubles with every node must not take the memory of the machine before anyone is asked.
func TestTextIsAskedFor(t *testing.T) {
	broke := errors.New("no more")
	long := words(strings.Repeat("x", 1000))
	for _, tt := range []struct {
		op    string
		attrs Attrs
		in    []*tensor.Tensor
		least int64
	}{
		{"StringConcat", nil, list(long, long), 2000},
		{"StringNormalizer", Attrs{StringAttr("case_change_action", "UPPER")}, list(long), 1000},
		{"Cast", Attrs{IntAttr("to", int64(tensor.String))}, list(seq(100)), 400},
	} {
		call := &Call{Type: tt.op, Version: latest, Attrs: tt.attrs, NumIn: len(tt.in), NumOut: 1}
		var asked int64
		e := &Eval{Call: call, Ctx: t.Context(), In: tt.in, Out: make([]*tensor.Tensor, 1),
			Reserve: func(n int64) error {
				asked += n
				return broke
			}}
		if err := RunIn(row(t, call), e); !errors.Is(err, broke) || asked < tt.least {
			t.Errorf("%s: asked for %d bytes, want at least %d: %v", tt.op, asked, tt.least, err)
		}
	}
}

func TestOperatorsOnStringsAndComplexNumbers(t *testing.T) {
	z := tensor.From(list[complex64](2, 1+1i, 0, 1-1i, 2), 5)
	runCases(t, []evalCase{
		{op: "NonZero", in: list(words("", "a", "b")),
			want: list(tensor.From(list[int64](1, 2), 1, 2))},
		{op: "NonZero", in: list(z), want: list(tensor.From(list[int64](0, 1, 3, 4), 1, 4))},
		{op: "Unique", in: list(z),
			want: list(tensor.From(list[complex64](0, 1-1i, 1+1i, 2), 4), i64(2, 3, 1, 0),
				i64(3, 2, 0, 1, 3), i64(1, 1, 1, 2))},
		{op: "Unique", in: list(words("b", "a", "b")),
			want: list(words("a", "b"), i64(1, 0), i64(1, 0, 1), i64(1, 2))},
		{op: "Where", in: list(tensor.From(list(true, false), 2), words("a", "b"), words("c")),
			want: list(words("a", "c"))},
		{op: "Pad", in: list(words("a"), i64(1, 1), tensor.FromStrings(list("-"))),
			want: list(words("-", "a", "-"))},
		{op: "Pad", name: "empty by default", in: list(words("a"), i64(0, 1)),
			want: list(words("a", ""))},
		{op: "Transpose", in: list(wordRows(1, 2, "a", "b")), want: list(wordRows(2, 1, "a", "b"))},
		{op: "OneHot", in: list(i64(1, 0), tensor.Scalar[int64](2), words("off", "on")),
			want: list(wordRows(2, 2, "off", "on", "on", "off"))},
		{op: "Trilu", in: list(wordRows(2, 2, "a", "b", "c", "d")),
			want: list(wordRows(2, 2, "a", "b", "", "d"))},
		{op: "Transpose", in: list(tensor.From(list[complex128](1i, 2), 1, 2)),
			want: list(tensor.From(list[complex128](1i, 2), 2, 1))},
		{op: "Equal", in: list(words("a", "b"), words("a")),
			want: list(tensor.From(list(true, false), 2))},
		{op: "ScatterElements", in: list(words("a", "b"), i64(1), words("c")),
			want: list(words("a", "c"))},
		{op: "ScatterElements", name: "sum of words", attrs: Attrs{StringAttr("reduction", "add")},
			in: list(words("a", "b"), i64(1), words("c")), err: ErrUnsupported},
		{op: "ConstantOfShape", attrs: Attrs{TensorAttr("value", words("x"))}, in: list(i64(2)),
			want: list(words("x", "x"))},
		{op: "IsNaN", in: list(codes(tensor.Float8E4M3FNUZ, 0x80, 0x7f)),
			want: list(tensor.From(list(true, false), 2))},
		{op: "IsInf", in: list(codes(tensor.Float8E5M2, 0x7c, 0x7d, 0xfc)),
			want: list(tensor.From(list(true, false, true), 3))},
		{op: "Dropout", in: list(codes(tensor.Float8E5M2, 1, 2)),
			want: list(codes(tensor.Float8E5M2, 1, 2), tensor.From(list(true, true), 2))},
	})
}

// (1·2 + 2·3) · 0.5 · 2 / 4 is 2, and 1000 of it saturate.
func TestQLinearMatMulOfFloat8(t *testing.T) {
	s, zero := tensor.Scalar[float32], tensor.FromCodes(tensor.Float8E4M3FN, []uint8{0})
	// 1, 2, 448, 448
	a := tensor.FromCodes(tensor.Float8E4M3FN, []uint8{0x38, 0x40, 0x7e, 0x7e}, 2, 2)
	b := tensor.FromCodes(tensor.Float8E4M3FN, []uint8{0x40, 0x44}, 2, 1) // 2, 3
	runCases(t, []evalCase{{op: "QLinearMatMul",
		in:   list(a, s(0.5), zero, b, s(2), zero, s(4), zero),
		want: list(tensor.FromCodes(tensor.Float8E4M3FN, []uint8{0x40, 0x7e}, 2, 1))}})
}
