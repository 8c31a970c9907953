package admit

import (
	"errors"
	"fmt"
	"time"
)

// The kinds of refusals.
var (
	// ErrInvalid is a configuration, or a request, that cannot be: asking again does not help.
	ErrInvalid = errors.New("invalid")
	// ErrModel is a request for a model that is not there.
	ErrModel = errors.New("no such model")
	// ErrFull is a request beyond what a model's queue takes (503).
	ErrFull = errors.New("the queue is full")
	// ErrAccount is a request beyond what its own account may have waiting (429).
	ErrAccount = errors.New("the account has as many requests waiting as it may")
	// ErrLate is a request that cannot be on time (503).
	ErrLate = errors.New("cannot be on time")
	// ErrOutranked is a request that was put out for one with a better claim (503).
	ErrOutranked = errors.New("put out for a request with a better claim")
	// ErrLeaving is a request for a model that is leaving (503).
	ErrLeaving = errors.New("the model is leaving")
)

// Refusal is the error about a request that is not served.
type Refusal struct {
	// Kind is one of the sentinels, which errors.Is finds.
	Kind  error
	Model string
	// RetryAfter is after how long the same request may be admitted, by the forecast; 0: asking
	// again does not help.
	RetryAfter time.Duration
	detail     string
}

// Error implements error.
func (r *Refusal) Error() string {
	text := fmt.Sprintf("model %s: %v", r.Model, r.Kind)
	if r.detail != "" {
		text += ": " + r.detail
	}
	if r.RetryAfter > 0 {
		text += fmt.Sprintf(": ask again in %v", r.RetryAfter.Round(time.Microsecond))
	}
	return text
}

// Unwrap returns the kind.
func (r *Refusal) Unwrap() error { return r.Kind }

// Yours reports whether the asker's own account is why (429), and not the server (503).
func (r *Refusal) Yours() bool { return r.Kind == ErrAccount }

// Seconds returns RetryAfter as HTTP's header has it: whole seconds, rounded up, and at least 1; 0
// where asking again does not help.
func (r *Refusal) Seconds() int64 {
	return int64((r.RetryAfter + time.Second - 1) / time.Second)
}

// Refused is a request that was admitted and is put out.
type Refused struct {
	ID  uint64
	Why *Refusal
}
