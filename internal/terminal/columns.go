package terminal

import (
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"
)

// wide are characters that take two columns (Unicode Standard Annex 11, East Asian Width W and F,
// by blocks).
var wide = &unicode.RangeTable{
	R16: []unicode.Range16{{Lo: 0x1100, Hi: 0x115f, Stride: 1}, {Lo: 0x2e80, Hi: 0x303e, Stride: 1},
		{Lo: 0x3041, Hi: 0xa4cf, Stride: 1}, {Lo: 0xac00, Hi: 0xd7a3, Stride: 1},
		{Lo: 0xf900, Hi: 0xfaff, Stride: 1}, {Lo: 0xfe30, Hi: 0xfe6f, Stride: 1},
		{Lo: 0xff00, Hi: 0xff60, Stride: 1}, {Lo: 0xffe0, Hi: 0xffe6, Stride: 1}},
	R32: []unicode.Range32{{Lo: 0x1f300, Hi: 0x1f64f, Stride: 1},
		{Lo: 0x1f680, Hi: 0x1f6ff, Stride: 1}, {Lo: 0x1f900, Hi: 0x1f9ff, Stride: 1},
		{Lo: 0x20000, Hi: 0x3fffd, Stride: 1}},
}

// columnsOf is how many columns a character takes.
func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.Is(wide, r):
		return 2
	}
	return 1
}

// Columns is how many columns text takes. It must have no control characters.
func Columns(text string) int {
	n := 0
	for _, r := range text {
		n += columnsOf(r)
	}
	return n
}

// Plain is text with escapes as in Go in the place of characters that are not shown: what others
// have named moves no cursor, ends no line and turns no direction of writing.
func Plain(text string) string {
	shown := func(r rune) bool { return r != utf8.RuneError && strconv.IsPrint(r) }
	if strings.IndexFunc(text, func(r rune) bool { return !shown(r) }) < 0 {
		return text
	}
	var b strings.Builder
	for i, r := range text {
		if shown(r) {
			b.WriteRune(r)
			continue
		}
		_, n := utf8.DecodeRuneInString(text[i:])
		quoted := strconv.Quote(text[i : i+n])
		b.WriteString(quoted[1 : len(quoted)-1])
	}
	return b.String()
}

// Cut shortens text to at most width columns: the end gives way to an ellipsis.
func Cut(text string, width int) string {
	if Columns(text) <= width {
		return text
	}
	var b strings.Builder
	left := width - 1
	for _, r := range text {
		if left -= columnsOf(r); left < 0 {
			break
		}
		b.WriteRune(r)
	}
	if width > 0 {
		b.WriteString("…")
	}
	return b.String()
}

// Pad fills text up with spaces to width columns, after it or, for a negative width, before it.
func Pad(text string, width int) string {
	if width < 0 {
		return strings.Repeat(" ", max(0, -width-Columns(text))) + text
	}
	return text + strings.Repeat(" ", max(0, width-Columns(text)))
}

// Wrap breaks text into lines of at most width columns at spaces. A longer word has a line of its
// own, and a number keeps its unit.
func Wrap(text string, width int) string {
	var b strings.Builder
	at := 0
	words := strings.Fields(text)
	for i := 0; i < len(words); i++ {
		word := words[i]
		if i+1 < len(words) && isNumber(word) && isUnit(words[i+1]) {
			i++
			word += " " + words[i]
		}
		n := Columns(word)
		if at > 0 && at+1+n > width {
			b.WriteByte('\n')
			at = 0
		} else if at > 0 {
			b.WriteByte(' ')
			at++
		}
		b.WriteString(word)
		at += n
	}
	return b.String()
}

// units are those of weir's figures.
var units = []string{"%", "ns", "us", "µs", "ms", "s", "B", "KiB", "MiB", "GiB", "TiB", "PiB",
	"EiB", "M", "GFLOP", "GFLOP/s", "GB/s"}

func isUnit(word string) bool {
	return slices.Contains(units, strings.TrimRight(word, ".,:;)"))
}

func isNumber(word string) bool {
	last, _ := utf8.DecodeLastRuneInString(word)
	return unicode.IsDigit(last)
}

// Fit breaks a line that is wider than width columns at spaces, with its further lines indented. A
// width of 0 is any.
func Fit(line string, width int) string {
	if width <= 0 || Columns(line) <= width {
		return line
	}
	words := strings.TrimLeft(line, " ")
	first := min(len(line)-len(words), width/4)
	further := min(first+2, width/2)
	text := Wrap(words, width-further)
	return strings.Repeat(" ", first) + strings.ReplaceAll(text, "\n",
		"\n"+strings.Repeat(" ", further))
}

// Size is a number of bytes for people: three digits in the binary unit (IEC 80000-13) in which it
// is from 1 to 1023, as in "23.5 GiB", "1007 MiB" and "12 B".
func Size[N ~int64](bytes N) string {
	units := []string{"B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"}
	v, u := float64(bytes), 0
	for ; math.Abs(v) >= 1023.5; u++ {
		v /= 1024
	}
	digits := 2
	if abs := math.Abs(v); abs >= 99.95 {
		digits = 0
	} else if abs >= 9.995 {
		digits = 1
	}
	text := strconv.FormatFloat(v, 'f', digits, 64)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text + " " + units[u]
}
