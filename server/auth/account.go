package auth

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/weirgpu/weir/server/audit"
)

// Account is who asks. Who gets one does not change it.
type Account struct {
	Name string `json:"name"`
	// Weight is the account's part of the devices' time against that of others; 1 is usual.
	Weight float64 `json:"weight"`
	// Queue is how many of its requests may wait at once; 0 leaves it to the server.
	Queue  int     `json:"queue"`
	Grants []Grant `json:"grants"`
	// Certificates are the names in clients' certificates that are this account; see [CertNames].
	Certificates []string `json:"certificates,omitempty"`
	// Subjects are what the issuer of OpenID Connect calls this account (the claim sub).
	Subjects []string `json:"subjects,omitempty"`

	owner     string    // see Owner, "" where no book has the account
	via, peer string    // what showed it, and where the request came from; for the audit
	token     string    // the ID of the token that showed it, "" for none
	until     time.Time // when what showed it expires, zero where token says so
}

// Owner names the account where things are kept that are its alone, such as jobs and shared memory:
// other than Name, which one that is added after it was removed may have too, nobody else's is ever
// the same. [OwnerName] has its name.
func (a *Account) Owner() string { return cmp.Or(a.owner, a.Name) }

// ownerMark is between the name and the number of an account in what Owner returns; no name has it.
const ownerMark = "#"

// OwnerName is the name of the account of which [Account.Owner] returned this.
func OwnerName(owner string) string {
	name, _, _ := strings.Cut(owner, ownerMark)
	return name
}

// May reports whether the account has one right, or all of a set, on a model.
func (a *Account) May(r Rights, model string) bool {
	return a.some(r, func(g Grant) bool { return g.covers(model) })
}

// MayAny reports whether it has the right on some model.
func (a *Account) MayAny(r Rights) bool { return a.some(r, func(Grant) bool { return true }) }

// MayAll reports whether it has the right on every model.
func (a *Account) MayAll(r Rights) bool {
	return a.some(r, func(g Grant) bool { return g.Pattern == All })
}

// some reports whether each right of r is in a grant that counts.
func (a *Account) some(r Rights, counts func(Grant) bool) bool {
	if r == 0 {
		return false
	}
	for one := Read; one <= Admin; one <<= 1 {
		if r&one == 0 {
			continue
		}
		found := false
		for _, g := range a.Grants {
			found = found || g.gives(one) && counts(g)
		}
		if !found {
			return false
		}
	}
	return true
}

// Event is what the audit is told of a change by the account, made by another package.
func (a *Account) Event(what, model, about, result string) audit.Event {
	return a.event(what, model, about, result)
}

type contextKey struct{}

// request is what the context of a request has.
type request struct {
	account *Account
	guard   *Guard // nil in a context of With
}

// With returns a context of what the account does outside of a request, such as on a command line.
func With(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, contextKey{}, &request{account: a})
}

var nobody Account

// From returns the account of a request; one without a name and without rights, never nil, where
// the server knows no accounts.
func From(ctx context.Context) *Account {
	if q, ok := ctx.Value(contextKey{}).(*request); ok {
		return q.account
	}
	return &nobody
}

// Now is [From] with the rights that the account has now: none, and no name, once it was removed,
// or what showed it was revoked or has expired.
func Now(ctx context.Context) *Account {
	if q, ok := ctx.Value(contextKey{}).(*request); ok {
		return q.now()
	}
	return &nobody
}

// now is the account with the rights that it has now: a request may go on for hours. It has none
// once the account was removed, or what showed it was revoked or has expired.
func (q *request) now() *Account {
	if q.guard == nil {
		return q.account
	}
	s := q.guard.book.state.Load()
	if id := q.account.token; id != "" {
		if t := s.tokens[id]; t == nil || t.expired(q.guard.book.now()) {
			return &nobody
		}
	}
	if end := q.account.until; !end.IsZero() && !q.guard.book.now().Before(end) {
		return &nobody
	}
	if a := s.accounts[q.account.Name]; a != nil && a.owner == q.account.owner {
		return a
	}
	return &nobody
}

// May reports whether a request may do, now, what needs the right on a model: for lists, which show
// what the account may see. Where the server knows no accounts, every request may; where it does,
// no request comes past its [Guard] without one.
func May(ctx context.Context, r Rights, model string) bool {
	q, ok := ctx.Value(contextKey{}).(*request)
	return !ok || q.now().May(r, model)
}

// MayAll is [May] for the right on all models.
func MayAll(ctx context.Context, r Rights) bool {
	q, ok := ctx.Value(contextKey{}).(*request)
	return !ok || q.now().MayAll(r)
}

// MayAny is [May] for the right on some model.
func MayAny(ctx context.Context, r Rights) bool {
	q, ok := ctx.Value(contextKey{}).(*request)
	return !ok || q.now().MayAny(r)
}

// Check is [May] for what is to be done: it reports an *oip.Fault, and records the refusal. what
// names what was asked, as in the table of endpoints. In a context of [With] nothing is recorded.
func Check(ctx context.Context, what string, r Rights, model string) error {
	if May(ctx, r, model) {
		return nil
	}
	q := ctx.Value(contextKey{}).(*request)
	if q.guard == nil {
		return denied(q.account, what, r, OfModel, model)
	}
	return q.guard.refused(q.account, what, r, OfModel, model)
}

// Offline is who changes the accounts of a server that does not run: whoever may write its files.
var Offline = &Account{Name: "(offline)", via: "files"}
