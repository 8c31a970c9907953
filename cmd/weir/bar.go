package main

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/weirgpu/weir/internal/terminal"
)

// bar is a line that shows how far something is. It says nothing where it cannot be drawn over, and
// where there is no bar.
type bar struct {
	w     io.Writer
	what  string
	all   int64
	done  int64
	drawn time.Time
}

// barEvery is the least time between two drawings.
const barEvery = 100 * time.Millisecond

// newBar returns a bar of something that ends at all. It needs [bar.end].
func newBar(w io.Writer, what string, all int64) *bar {
	if !terminal.Live(w) {
		return nil
	}
	return &bar{w: w, what: what, all: max(all, 1)}
}

// show draws that so much is done.
func (b *bar) show(done int64, note string) {
	if b == nil {
		return
	}
	b.done = done
	if now := time.Now(); now.Sub(b.drawn) >= barEvery || done == b.all {
		b.drawn = now
		b.draw(note)
	}
}

func (b *bar) draw(note string) {
	const width = 24
	part := min(float64(b.done)/float64(b.all), 1)
	full := int(part * width)
	line := fmt.Sprintf("%s [%s%s] %3.0f %% %s", b.what, strings.Repeat("=", full),
		strings.Repeat(" ", width-full), 100*part, note)
	fmt.Fprint(b.w, "\r", terminal.Cut(line, max(terminal.Width(b.w)-1, 20)), "\x1b[K")
}

// end takes the line away.
func (b *bar) end() {
	if b != nil && !b.drawn.IsZero() {
		fmt.Fprint(b.w, "\r\x1b[K")
	}
}

// reading is from, and shows what is read of it.
func (b *bar) reading(from io.Reader) io.Reader { return &barReader{b, from, 0} }

type barReader struct {
	bar  *bar
	from io.Reader
	n    int64
}

// Read implements io.Reader.
func (r *barReader) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	r.n += int64(n)
	r.bar.show(r.n, terminal.Size(r.n))
	return n, err
}
