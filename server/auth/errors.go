package auth

import (
	"errors"
	"fmt"
	"time"
)

// Kinds of errors.
var (
	// ErrUnauthenticated is a request whose account is not known.
	ErrUnauthenticated = errors.New("not authenticated")
	// ErrDenied is a request for what its account may not.
	ErrDenied = errors.New("not allowed")
	// ErrTooOften is a client whose attempts failed too often.
	ErrTooOften = errors.New("too many failed attempts")
	// ErrInvalid is an account, a grant or a token that cannot be as it was asked for.
	ErrInvalid = errors.New("not valid")
	// ErrUnknown is an account or a token that is not there.
	ErrUnknown = errors.New("there is none")
	// ErrLastAdmin is a change after which no account could administer the server.
	ErrLastAdmin = errors.New("it is the last account that may administer the server: grant " +
		"admin on * to another one first")
)

// Refusal is why a request goes no further.
type Refusal struct {
	Kind       error         // ErrUnauthenticated, ErrDenied or ErrTooOften
	RetryAfter time.Duration // when it may be tried again, 0 where that does not help
	Text       string
}

// Error implements error.
func (r *Refusal) Error() string { return r.Text }

// Unwrap gives the kind to errors.Is.
func (r *Refusal) Unwrap() error { return r.Kind }

func refuse(kind error, format string, args ...any) *Refusal {
	return &Refusal{Kind: kind, Text: fmt.Sprintf(format, args...)}
}
