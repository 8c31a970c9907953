package main

import (
	"bytes"
	"context"
	"io"
	"os"
	"time"

	"github.com/weirgpu/weir/internal/fault"
)

// lastWords is how long a write may take once the command is to end: a reader that is there needs
// less, and one that has stopped reading is not waited for.
const lastWords = 100 * time.Millisecond

// checked is standard output that remembers its first error: a result that did not arrive makes
// exit code 1. A write into a pipe or to a terminal that nobody reads from ends with the context,
// which the system call would not (write(2)).
type checked struct {
	io.Writer
	waits context.Context // done once writes wait no longer; nil where they never wait
	err   error
}

// newChecked is one that heeds ctx.
func newChecked(ctx context.Context, out io.Writer) *checked {
	w := &checked{Writer: out}
	if f, ok := out.(*os.File); ok {
		if info, err := f.Stat(); err == nil && !info.Mode().IsRegular() {
			var late context.CancelCauseFunc
			w.waits, late = context.WithCancelCause(context.WithoutCancel(ctx))
			context.AfterFunc(ctx, func() {
				time.AfterFunc(lastWords, func() { late(context.Cause(ctx)) })
			})
		}
	}
	return w
}

// Write implements io.Writer.
func (w *checked) Write(p []byte) (n int, err error) {
	if w.waits == nil {
		n, err = w.Writer.Write(p)
	} else {
		own := bytes.Clone(p) // which a write that is left to itself reads
		n, err = fault.Await(w.waits, func() (int, error) { return w.Writer.Write(own) })
	}
	if w.err == nil {
		w.err = err
	}
	return n, err
}

// Unwrap gives the writer behind it to who asks whether that is a terminal.
func (w *checked) Unwrap() io.Writer { return w.Writer }
