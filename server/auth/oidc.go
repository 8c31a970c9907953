package auth

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"
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
	ip, _ := netip.ParseAddr(u.Hostname())
	local := u.Hostname() == "localhost" || ip.IsLoopback()
	if u.Scheme != "https" && !(u.Scheme == "http" && local) {
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
}

func newIssuer(o OIDC, now func() time.Time) *issuer {
	if o == (OIDC{}) {
		return nil
	}
	limited := &limitedTransport{rate.NewLimiter(rate.Every(askEvery), askBurst), now}
	return &issuer{o: o, now: now, client: &http.Client{Transport: limited, Timeout: askLimit}}
}

// limitedTransport asks no more often than a limit.
type limitedTransport struct {
	limit *rate.Limiter
	now   func() time.Time
}

var errAsked = errors.New("it was asked too often")

// RoundTrip implements http.RoundTripper.
func (t *limitedTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !t.limit.AllowN(t.now(), 1) {
		return nil, errAsked
	}
	return http.DefaultTransport.RoundTrip(r)
}

// subject verifies a token: its signature, issuer, audience and times.
func (i *issuer) subject(ctx context.Context, raw string) (string, error) {
	ctx = oidc.ClientContext(ctx, i.client)
	v, err := i.prepared(ctx)
	if err != nil {
		return "", err
	}
	t, err := v.Verify(ctx, raw)
	if err != nil {
		return "", err
	}
	return t.Subject, nil
}

func (i *issuer) prepared(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.verifier == nil {
		// the keys are asked for later too, when this request is over
		p, err := oidc.NewProvider(context.WithoutCancel(ctx), i.o.Issuer)
		if err != nil {
			return nil, fmt.Errorf("the issuer cannot be asked: %w", err)
		}
		i.verifier = p.Verifier(&oidc.Config{ClientID: i.o.Audience, Now: i.now})
	}
	return i.verifier, nil
}

// looksIssued reports whether a credential has the form of a JSON web token, which none of the
// server's own has.
func looksIssued(credential string) bool {
	return strings.Count(credential, ".") == 2 && !strings.HasPrefix(credential, tokenPrefix)
}
