package view

import (
	"io"
	"os"

	"golang.org/x/term"
)

// New returns the view that fits w: a live one on a terminal, lines elsewhere.
func New(w io.Writer) View {
	if f, ok := w.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		return newLive(f)
	}
	return &plain{w: w}
}
