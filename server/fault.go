package server

import (
	"errors"
	"strings"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/admit"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/share"
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
	f.RetryAfter = retry
	return f
}

// retry is after how long to ask again where nothing is known of it.
const retry = time.Second

// fault is the fault of an error about a request.
func fault(err error) *oip.Fault {
	var f *oip.Fault
	if errors.As(err, &f) {
		return f
	}
	f = &oip.Fault{Kind: oip.KindOf(err), Text: text(err), Err: err}
	var r *admit.Refusal
	if errors.As(err, &r) {
		f.Kind, f.RetryAfter = refused(r), r.RetryAfter
		return f
	}
	switch {
	case errors.Is(err, weir.ErrInput):
		f.Kind = oip.Invalid
	case errors.Is(err, weir.ErrMemory), errors.Is(err, weir.ErrClosed):
		f.Kind = oip.Unavailable
	}
	again := !errors.Is(err, share.ErrNever)
	if again && (f.Kind == oip.Unavailable || f.Kind == oip.Late) {
		f.RetryAfter = retry
	}
	return f
}

// refused is the kind of a refusal. Who is late with nothing before it is late whenever it asks.
func refused(r *admit.Refusal) oip.Kind {
	switch {
	case errors.Is(r, admit.ErrInvalid):
		return oip.Invalid
	case r.Yours():
		return oip.Exhausted
	case errors.Is(r, admit.ErrLate) && r.RetryAfter == 0:
		return oip.Late
	}
	return oip.Unavailable
}

// text is what a client is told of an error: one line, without a stack.
func text(err error) string {
	line, _, _ := strings.Cut(err.Error(), "\n")
	return line
}
