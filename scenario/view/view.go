package view

import (
	"io"

	"github.com/weirgpu/weir/internal/terminal"
)

// New returns the view that fits w: a live one on a terminal that can be drawn on, lines elsewhere.
func New(w io.Writer) View {
	if terminal.Live(w) {
		return &live{w: w}
	}
	return &plain{w: w}
}
