package auth

import (
	"errors"

	"github.com/weirgpu/weir/server/oip"
)

// Kinds of errors. The first three come in an *oip.Fault, which says what they mean to a client.
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

// refuse makes the fault of a request that goes no further; kind is ErrUnauthenticated or
// ErrDenied.
func refuse(kind error, format string, args ...any) *oip.Fault {
	f := oip.Faultf(oip.Unauthenticated, format, args...)
	if kind == ErrDenied {
		f.Kind = oip.Denied
	}
	f.Err = kind
	return f
}
