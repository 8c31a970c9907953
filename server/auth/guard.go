package auth

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"strings"
	"time"

	"github.com/weirgpu/weir/server/audit"
	"github.com/weirgpu/weir/server/oip"
)

// Guard finds the accounts of requests, and refuses what they may not.
type Guard struct {
	book   *Book
	log    *audit.Log
	issuer *issuer // nil where none is configured
	slow   *throttle
}

// NewGuard returns a guard for the accounts of a book, which records refusals in log. An issuer
// that cannot be used is [ErrInvalid]; it is asked with the first token. now is the clock, nil for
// time.Now.
func NewGuard(b *Book, log *audit.Log, o OIDC, now func() time.Time) (*Guard, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if now == nil {
		now = time.Now
	}
	return &Guard{book: b, log: log, issuer: newIssuer(o, now), slow: newThrottle(now)}, nil
}

// credentials are what a request shows of who asks.
type credentials struct {
	authorization []string             // headers
	tls           *tls.ConnectionState // nil without TLS
	peer          string               // the client's address, with or without its port
}

// account finds who asks. The error is an *oip.Fault.
func (g *Guard) account(ctx context.Context, c credentials) (*Account, error) {
	peer := c.peer
	if host, _, err := net.SplitHostPort(peer); err == nil {
		peer = host
	}
	a, err := g.find(ctx, c)
	if err != nil {
		if !errors.Is(err, ErrUnauthenticated) {
			return nil, err // of which the client is not why
		}
		if wait := g.slow.failed(peer); wait > 0 {
			return nil, &oip.Fault{Kind: oip.Exhausted, RetryAfter: wait, Err: ErrTooOften,
				Text: "too many failed attempts from " + peer +
					": wait, and send a token that holds"}
		}
		return nil, err
	}
	if a == nil {
		return nil, refuse(ErrUnauthenticated, "this server has accounts: send a token as "+
			"\"Authorization: Bearer TOKEN\" (weir account token makes one)")
	}
	a.peer = peer
	return a, nil
}

// find returns a copy of the account, nil where none is claimed.
func (g *Guard) find(ctx context.Context, c credentials) (*Account, error) {
	if len(c.authorization) > 1 {
		return nil, refuse(ErrUnauthenticated, "%d headers Authorization: send one",
			len(c.authorization))
	}
	if len(c.authorization) == 1 {
		scheme, credential, _ := strings.Cut(c.authorization[0], " ")
		if !strings.EqualFold(scheme, "Bearer") {
			return nil, refuse(ErrUnauthenticated, "Authorization has the scheme %.20q: send "+
				"Bearer and a token", scheme)
		}
		return g.bearer(ctx, strings.TrimSpace(credential))
	}
	if c.tls == nil || len(c.tls.VerifiedChains) == 0 {
		return nil, nil
	}
	return g.certificate(c.tls.VerifiedChains[0][0])
}

func (g *Guard) bearer(ctx context.Context, credential string) (*Account, error) {
	if g.issuer == nil || !looksIssued(credential) {
		a, t, err := g.book.byToken(credential)
		if err != nil {
			return nil, err
		}
		a = a.shownBy("token " + t.Name)
		a.token = t.ID
		return a, nil
	}
	t, err := g.issuer.verify(ctx, credential)
	if err != nil {
		return nil, err
	}
	a := g.book.named(kindSubject, t.Subject)
	if a == nil {
		return nil, refuse(ErrUnauthenticated, "subject %.80q of %s has no account here",
			t.Subject, g.issuer.o.Issuer)
	}
	a = a.shownBy("oidc " + t.Subject)
	a.until = t.Expiry
	return a, nil
}

// shownBy is a copy of the account for a request that something showed to be its.
func (a *Account) shownBy(via string) *Account {
	own := *a
	own.via = via
	return &own
}

// certificate finds the account that has one of the names in a client's certificate, which TLS has
// verified.
func (g *Guard) certificate(c *x509.Certificate) (*Account, error) {
	if !g.book.now().Before(c.NotAfter) { // TLS has held it when the connection began
		return nil, refuse(ErrUnauthenticated, "the certificate has expired: connect with another")
	}
	names := CertNames(c)
	for _, name := range names {
		if a := g.book.named(kindCertificate, name); a != nil {
			a = a.shownBy("certificate " + name)
			a.until = c.NotAfter
			return a, nil
		}
	}
	return nil, refuse(ErrUnauthenticated, "the certificate's names have no account here: "+
		"%.300s", strings.Join(names, ", "))
}

// named returns the account that others call so, nil without one.
func (b *Book) named(kind, name string) *Account {
	s := b.state.Load()
	return s.accounts[s.names[[2]string{kind, name}]]
}

// CertNames are the names in a certificate by which an account may be known, the most precise
// first: "uri:" with a URI such as a SPIFFE ID, "email:", "dns:", and the subject as RFC 2253
// writes it, such as "CN=ann,O=example".
func CertNames(c *x509.Certificate) []string {
	var list []string
	for _, u := range c.URIs {
		list = append(list, "uri:"+u.String())
	}
	for _, e := range c.EmailAddresses {
		list = append(list, "email:"+e)
	}
	for _, d := range c.DNSNames {
		list = append(list, "dns:"+d)
	}
	if s := c.Subject.String(); s != "" {
		list = append(list, s)
	}
	return list
}

// allow holds a request of an account against what an endpoint needs. The error is an *oip.Fault.
func (g *Guard) allow(a *Account, e *Endpoint, model string) error {
	may := false
	switch e.Scope {
	case Anyone, Self:
		may = true
	case Some:
		may = a.MayAny(e.Right)
	case OfModel:
		may = a.May(e.Right, model)
	case OfAll:
		may = a.MayAll(e.Right)
	}
	if may {
		return nil
	}
	return g.refused(a, e.Name, e.Right, e.Scope, model)
}

// refused records that a right was refused.
func (g *Guard) refused(a *Account, what string, r Rights, s Scope, model string) error {
	g.log.Refused(a.event(what, model, r.String(), audit.Refused))
	return denied(a, what, r, s, model)
}

// denied is the fault of a right that an account has not.
func denied(a *Account, what string, r Rights, s Scope, model string) *oip.Fault {
	on := "on some model"
	switch s {
	case OfModel:
		on = "on model " + model
	case OfAll:
		on = "on all models"
	}
	return refuse(ErrDenied, "%s: account %s has no right to %s %s: whoever has admin may grant it",
		what, a.Name, r, on)
}

// with is the context of a request by an account.
func (g *Guard) with(ctx context.Context, a *Account) context.Context {
	return context.WithValue(ctx, contextKey{}, &request{a, g})
}

// record records what an endpoint changed, which must not be lost because the client is gone. What
// was answered with an error changed nothing, and can be asked for without end; so can what is a
// part of inferences, such as memory that is shared for them.
func (g *Guard) record(ctx context.Context, of *Endpoint, e audit.Event) {
	if of.Right == Infer || e.Result != audit.OK && e.Result != cutOff {
		g.log.Often(e)
		return
	}
	if err := g.log.Record(context.WithoutCancel(ctx), e); err != nil {
		slog.ErrorContext(ctx, "a change is not in the audit", "event", e, "error", err)
	}
}

// cutOff is the result of a change of which nobody knows whether it was made.
const cutOff = audit.Failed + ": it was cut off"
