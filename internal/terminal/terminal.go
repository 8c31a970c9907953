package terminal

import (
	"io"
	"os"
	"strconv"
	"strings"

	"golang.org/x/term"
)

// wrapper is a writer in front of another, such as one that remembers errors.
type wrapper interface{ Unwrap() io.Writer }

// file returns the terminal that w writes to, nil when it writes elsewhere.
func file(w io.Writer) *os.File {
	for {
		inner, ok := w.(wrapper)
		if !ok {
			break
		}
		w = inner.Unwrap()
	}
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return f
	}
	return nil
}

// Is reports whether w writes to a terminal, itself or through writers that have a method Unwrap.
func Is(w io.Writer) bool { return file(w) != nil }

// Width is how many columns lines on w have, 0 where they may be as long as they are: elsewhere
// than on a terminal, unless COLUMNS says a number.
func Width(w io.Writer) int {
	if f := file(w); f != nil {
		if width, _, err := term.GetSize(int(f.Fd())); err == nil && width > 0 {
			return width
		}
	}
	if n, err := strconv.Atoi(os.Getenv("COLUMNS")); err == nil && n > 0 {
		return n
	}
	return 0
}

// Height is how many lines the terminal behind w has, 0 where there is none that says so.
func Height(w io.Writer) int {
	f := file(w)
	if f == nil {
		return 0
	}
	_, height, err := term.GetSize(int(f.Fd()))
	if err != nil {
		return 0
	}
	return height
}

// Live reports whether what is on w may be drawn over: on a terminal that moves its cursor.
func Live(w io.Writer) bool { return Is(w) && os.Getenv("TERM") != "dumb" }

// Color reports whether text on w may be coloured.
func Color(w io.Writer) bool { return Live(w) && os.Getenv("NO_COLOR") == "" }

// UTF8 reports whether text may have characters beyond ASCII.
func UTF8() bool {
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if locale := os.Getenv(name); locale != "" {
			return locale != "C" && locale != "POSIX"
		}
	}
	return true
}

// stand are the characters that stand for others in ASCII.
var stand = strings.NewReplacer("█", "#", "░", ".", "·", ".", "…", "~", "▶", ">", "×", "x", "µ",
	"u", "–", "-", "→", "->", "≤", "<=", "≥", ">=", "±", "+-")

// Text is text with ASCII in place of bars, dots and signs where [UTF8] does not allow them. What
// is of another alphabet, such as names, stays.
func Text(text string) string {
	if UTF8() {
		return text
	}
	return stand.Replace(text)
}
