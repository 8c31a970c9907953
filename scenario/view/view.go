package view

import (
	"os"

	"golang.org/x/term"
)

// New returns the view that fits f: a live one on a terminal, lines elsewhere.
func New(f *os.File) View {
	if term.IsTerminal(int(f.Fd())) {
		return newLive(f)
	}
	return &plain{w: f}
}
