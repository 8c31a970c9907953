package main

import (
	"bytes"
	"fmt"
	"io"

	"github.com/weirgpu/weir/internal/terminal"
)

// say writes a line for people, in several where those on w are too short.
func say(w io.Writer, format string, args ...any) {
	line := fmt.Sprintf(format, args...)
	fmt.Fprintln(w, terminal.Text(terminal.Fit(line, terminal.Width(w))))
}

// fitted is text that is written line by line as by say. The last line must end.
type fitted struct {
	w    io.Writer
	line []byte // begun
}

// Write implements io.Writer.
func (f *fitted) Write(p []byte) (int, error) {
	f.line = append(f.line, p...)
	for {
		i := bytes.IndexByte(f.line, '\n')
		if i < 0 {
			return len(p), nil
		}
		say(f.w, "%s", f.line[:i])
		f.line = f.line[i+1:]
	}
}
