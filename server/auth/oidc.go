package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"github.com/weirgpu/weir/server/oip"
)

// OIDC says whose tokens are accepted beside the server's own. The zero value is nobody's.
type OIDC struct {
	Issuer   string // its URL, as its tokens have it in iss
	Audience string // what its tokens for this server have in aud
}

// Check reports, as [ErrInvalid], an issuer whose answers anybody on the way could change, and one
// whose tokens for others would be accepted too.
func (o OIDC) Check() error {
	if o == (OIDC{}) {
		return nil
	}
	u, err := url.Parse(o.Issuer)
	if err != nil {
		return fmt.Errorf("%w: OIDC issuer: %w", ErrInvalid, err)
	}
	if !private(u) {
		return fmt.Errorf("%w: OIDC issuer %q: give its https URL", ErrInvalid, o.Issuer)
	}
	if o.Audience == "" {
		return fmt.Errorf("%w: OIDC issuer %s: its tokens for others would be accepted too: give "+
			"the audience of those for this server", ErrInvalid, o.Issuer)
	}
	return nil
}

// The issuer is asked for its keys when a token names one that is not known. Clients choose what
// tokens name, so it is asked so often at once, and then once in a while.
const (
	askBurst = 5
	askEvery = 10 * time.Second
	askLimit = 10 * time.Second
)

// issuer verifies its tokens. Its keys are asked for with the first one, and again when needed.
type issuer struct {
	o      OIDC
	now    func() time.Time
	client *http.Client

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier // nil until the issuer has answered
	asking   *asking               // nil where it is not asked now
}

// asking is what all wait for whose tokens came before the issuer has answered.
type asking struct {
	done chan struct{} // closed once err is known
	err  error
}

func newIssuer(o OIDC, now func() time.Time) *issuer {
	if o == (OIDC{}) {
		return nil
	}
	limited := &limitedTransport{rate.NewLimiter(rate.Every(askEvery), askBurst), now}
	return &issuer{o: o, now: now, client: &http.Client{Transport: limited, Timeout: askLimit}}
}

// limitedTransport asks no more often than a limit, and nobody whose answer others could change.
type limitedTransport struct {
	limit *rate.Limiter
	now   func() time.Time
}

var (
	errAsked = errors.New("it was asked too often")
	errPlain = errors.New("others could change what comes from there: it must be https")
)

// RoundTrip implements http.RoundTripper.
func (t *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !private(r.URL) {
		return nil, errPlain
	}
	if !t.limit.AllowN(t.now(), 1) {
		return nil, errAsked
	}
	return http.DefaultTransport.RoundTrip(r)
}

// private reports whether nobody on the way can change what comes from a URL.
func private(u *url.URL) bool {
	ip, _ := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || ip.IsLoopback()
	return u.Scheme == "https" || u.Scheme == "http" && local
}

// verify holds a token's signature, issuer, audience and times. The error is an *oip.Fault.
func (i *issuer) verify(ctx context.Context, raw string) (*oidc.IDToken, error) {
	v, err := i.prepared(ctx)
	if err != nil {
		return nil, &oip.Fault{Kind: oip.Unavailable, RetryAfter: askEvery, Err: err,
			Text: i.o.Issuer + " cannot be asked for what its tokens are verified by: ask again " +
				"later"}
	}
	t, err := v.Verify(oidc.ClientContext(ctx, i.client), raw)
	if err != nil {
		return nil, refuse(ErrUnauthenticated, "the token of %s does not hold: %v", i.o.Issuer, err)
	}
	return t, nil
}

// prepared asks the issuer, unless it has answered. All who come meanwhile wait for the one answer,
// each as long as ctx lasts.
func (i *issuer) prepared(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	if v := i.verifier; v != nil {
		i.mu.Unlock()
		return v, nil
	}
	a := i.asking
	if a == nil {
		a = &asking{done: make(chan struct{})}
		i.asking = a
		go i.ask(a)
	}
	i.mu.Unlock()
	select {
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-a.done:
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.verifier, a.err
}

// ask asks the issuer for what its tokens are verified by. Its keys are asked for later too, when
// no request waits any more.
func (i *issuer) ask(a *asking) {
	p, err := oidc.NewProvider(oidc.ClientContext(context.Background(), i.client), i.o.Issuer)
	if err != nil && !errors.Is(err, errAsked) {
		slog.Error("tokens of the issuer cannot be verified", "issuer", i.o.Issuer, "error", err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if a.err = err; err == nil {
		i.verifier = p.Verifier(&oidc.Config{ClientID: i.o.Audience, Now: i.now})
	}
	i.asking = nil
	close(a.done)
}

// looksIssued reports whether a credential has the form of a JSON web token, which none of the
// server's own has.
func looksIssued(credential string) bool {
	return strings.Count(credential, ".") == 2 && !strings.HasPrefix(credential, tokenPrefix)
}
