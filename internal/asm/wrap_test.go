package asm

import (
	"strings"
	"testing"
)

func TestWrap(t *testing.T) {
	words := strings.TrimSpace(strings.Repeat("word ", 19)) // 94 columns
	for name, c := range map[string]struct{ in, want string }{
		"short":     {"// a\n// b\n", "// a\n// b\n"},
		"just fits": {"// " + words + " ab\n// c", "// " + words + " ab\n// c"},
		"paragraph": {"// " + words + " abc\n// d\n//\n// e",
			"// " + words + "\n// abc d\n//\n// e"},
		"list": {"// " + words + " abc\n//   - d", "// " + words + "\n// abc\n//   - d"},
		"directive": {"// " + words + " abc\n//go:noescape",
			"// " + words + "\n// abc\n//go:noescape"},
		"indented": {"\t// " + words + "\n\tx()",
			"\t// " + words[:len(words)-5] + "\n\t// word\n\tx()"},
		"long word": {"// " + strings.Repeat("x", 120), "// " + strings.Repeat("x", 120)},
		"function": {
			"func f(a int, b map[int]func(int, int), " + strings.Repeat("c", 50) +
				" bool) (e error) {",
			"func f(\n\ta int, b map[int]func(int, int), " + strings.Repeat("c", 50) +
				" bool,\n) (e error) {",
		},
		"call": {
			"\t\tf(" + strings.Repeat("a", 80) + ", g(b, c), " + strings.Repeat("d", 20) + ")",
			"\t\tf(\n\t\t\t" + strings.Repeat("a", 80) + ",\n\t\t\tg(b, c), " +
				strings.Repeat("d", 20) + ",\n\t\t)",
		},
		"no parentheses": {strings.Repeat("x", 101), strings.Repeat("x", 101)},
	} {
		if got := Wrap(c.in); got != c.want {
			t.Errorf("%s: got\n%s\nwant\n%s", name, got, c.want)
		}
	}
}
