package oip

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Kind is what an error means to the client that is told of it, by whichever protocol.
type Kind uint8

// The kinds. Each has its statuses in one table.
const (
	Internal        Kind = iota // the server's or the model's fault
	Invalid                     // the request is wrong: asking again does not help
	NotFound                    // there is no such model, version or thing
	Exists                      // there is one of that name already
	Unauthenticated             // who asks is not known
	Denied                      // who asks may not
	Exhausted                   // a bound of the client's own account: 429
	Unavailable                 // a bound of the server's, or it is not ready: 503
	Late                        // the answer cannot be there, or was not, at the deadline
	TooLarge                    // more bytes than are taken
	TooSlow                     // the client sends too slowly
	Unsupported                 // the server does not do that
	Cancelled                   // the client wants no answer any more
	Misplaced                   // files that come with a request are no folder of a model
)

// kinds is what each kind is in HTTP (RFC 9110; 429: RFC 6585; 499 is read by nobody, since the
// client is gone) and in gRPC (its doc/statuscodes.md). 400 for what exists, 503 for what is late
// and 13 for what is misplaced are tritonserver's.
var kinds = [...]struct {
	name         string
	status, code int
}{
	Internal:        {"internal fault", 500, 13},
	Invalid:         {"invalid", 400, 3},
	NotFound:        {"not found", 404, 5},
	Exists:          {"exists already", 400, 6},
	Unauthenticated: {"unauthenticated", 401, 16},
	Denied:          {"denied", 403, 7},
	Exhausted:       {"exhausted", 429, 8},
	Unavailable:     {"unavailable", 503, 14},
	Late:            {"late", 503, 4},
	TooLarge:        {"too large", 413, 8},
	TooSlow:         {"too slow", 408, 4},
	Unsupported:     {"unsupported", 501, 12},
	Cancelled:       {"cancelled", 499, 1},
	Misplaced:       {"misplaced", 400, 13},
}

// String returns the kind in words.
func (k Kind) String() string { return kinds[k].name }

// Status returns the kind's status of HTTP.
func (k Kind) Status() int { return kinds[k].status }

// Code returns the kind's status code of gRPC.
func (k Kind) Code() int { return kinds[k].code }

// Fault is an error with what it means to the client.
type Fault struct {
	Kind Kind
	// RetryAfter is after how long the same request may be taken; 0: nothing is said of it.
	RetryAfter time.Duration
	// Text is what the client is told: one line.
	Text string
	// Err is what the fault was made of, nil where it is its own.
	Err error
}

// Faultf returns a fault with a text as fmt.Sprintf makes it.
func Faultf(k Kind, format string, args ...any) *Fault {
	return &Fault{Kind: k, Text: fmt.Sprintf(format, args...)}
}

// Error implements error.
func (f *Fault) Error() string { return f.Text }

// Unwrap returns Err.
func (f *Fault) Unwrap() error { return f.Err }

// KindOf returns the kind of an error: that of the [Fault] in it, Invalid for [ErrRequest], Late
// and Cancelled for those of contexts, and else Internal.
func KindOf(err error) Kind {
	var f *Fault
	switch {
	case errors.As(err, &f):
		return f.Kind
	case errors.Is(err, ErrRequest):
		return Invalid
	case errors.Is(err, context.Canceled):
		return Cancelled
	case errors.Is(err, context.DeadlineExceeded):
		return Late
	}
	return Internal
}

// RetryAfter returns that of the [Fault] in an error, 0 without one.
func RetryAfter(err error) time.Duration {
	var f *Fault
	if errors.As(err, &f) {
		return f.RetryAfter
	}
	return 0
}
