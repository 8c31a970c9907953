package server

import (
	"errors"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/oip"
)

// httpError is an error that HTTP alone has, with its status.
type httpError struct {
	status int
	text   string
}

// Error implements error.
func (e *httpError) Error() string { return e.text }

// status is the HTTP status of an error.
func status(err error) int {
	var h *httpError
	if errors.As(err, &h) {
		return h.status
	}
	return oip.KindOf(err).Status()
}

// busy is a fault of a server that cannot do now what it may do soon.
func busy(format string, args ...any) *oip.Fault {
	f := oip.Faultf(oip.Unavailable, format, args...)
	f.RetryAfter = time.Second
	return f
}

// fault is the fault of an error about a request.
func fault(err error) *oip.Fault {
	var f *oip.Fault
	if errors.As(err, &f) {
		return f
	}
	f = &oip.Fault{Kind: oip.KindOf(err), Text: text(err), Err: err}
	switch {
	case errors.Is(err, weir.ErrInput):
		f.Kind = oip.Invalid
	case errors.Is(err, weir.ErrMemory), errors.Is(err, weir.ErrClosed):
		f.Kind = oip.Unavailable
	}
	if f.Kind == oip.Unavailable || f.Kind == oip.Late {
		f.RetryAfter = time.Second
	}
	return f
}

// text is what a client is told of an error: one line, without a stack.
func text(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
