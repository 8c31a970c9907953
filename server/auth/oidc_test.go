package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// issuing is an issuer of OpenID Connect with keys of its own.
type issuing struct {
	*httptest.Server
	keys  atomic.Pointer[[]jose.JSONWebKey]
	asked atomic.Int64 // for its keys
	down  atomic.Bool
}

func newIssuing(t *testing.T, keys ...jose.JSONWebKey) *issuing {
	t.Helper()
	i := &issuing{}
	i.keys.Store(&keys)
	answer := func(body func() any) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			if i.down.Load() {
				w.WriteHeader(http.StatusServiceUnavailable)
				return
			}
			_ = json.NewEncoder(w).Encode(body())
		}
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", answer(func() any {
		return map[string]any{"issuer": i.URL, "jwks_uri": i.URL + "/keys",
			"authorization_endpoint": i.URL, "token_endpoint": i.URL,
			"id_token_signing_alg_values_supported": []string{"RS256", "ES256"}}
	}))
	mux.HandleFunc("GET /keys", answer(func() any {
		i.asked.Add(1)
		var set jose.JSONWebKeySet
		for _, k := range *i.keys.Load() {
			set.Keys = append(set.Keys, k.Public())
		}
		return set
	}))
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	return i
}

func rsaKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	k, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "RS256"}
}

func ecKey(t *testing.T, id string) jose.JSONWebKey {
	t.Helper()
	k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: k, KeyID: id, Algorithm: "ES256"}
}

// sign makes a token.
func sign(t *testing.T, k jose.JSONWebKey, claims map[string]any) string {
	t.Helper()
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(k.Algorithm),
		Key: k}, nil)
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := s.Sign(b)
	if err != nil {
		t.Fatal(err)
	}
	raw, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// TestOIDC: a token of the issuer for this server is the account of its subject, until it expires;
// one that was made by or for others, or was changed, is nobody's.
func TestOIDC(t *testing.T) {
	first, second, foreign := rsaKey(t, "1"), ecKey(t, "2"), rsaKey(t, "1")
	i := newIssuing(t, first)
	p := begin(t, t.TempDir())
	if err := p.book.Add(t.Context(), Account{Name: "ann", Weight: 1,
		Subjects: []string{"sub-1"}}); err != nil {
		t.Fatal(err)
	}
	h := p.guard(t, OIDC{i.URL, "weir"}).HTTP(who)
	now := p.clock.Now().Unix()
	claims := func(more map[string]any) map[string]any {
		c := map[string]any{"iss": i.URL, "aud": "weir", "sub": "sub-1", "iat": now,
			"exp": now + 300}
		for k, v := range more {
			c[k] = v
		}
		return c
	}
	good := sign(t, first, claims(nil))
	check := func(name, token string, want int) {
		t.Helper()
		if got := get(h, "GET", "/v2", "Bearer "+token); got.StatusCode != want {
			t.Errorf("%s: status %d: %s", name, got.StatusCode, text(got))
		}
	}
	i.down.Store(true)
	for range failBurst + 2 { // which is no fault of the client's
		check("the issuer is down", good, 503)
	}
	i.down.Store(false)
	p.clock.pass(askBurst * askEvery)
	if got := get(h, "GET", "/v2", "Bearer "+good); text(got) != "ann" {
		t.Fatalf("status %d", got.StatusCode)
	}
	check("for several", sign(t, first, claims(map[string]any{"aud": []string{"x", "weir"}})), 200)
	for name, bad := range map[string]map[string]any{"for another": {"aud": "other"},
		"of another": {"iss": "https://other.example"}, "of no subject here": {"sub": "sub-2"},
		"expired": {"exp": now - 1}, "not yet": {"nbf": now + 3600}} {
		check(name, sign(t, first, claims(bad)), 401)
		p.clock.pass(failEvery)
	}
	check("signed by a foreign key", sign(t, foreign, claims(nil)), 401)
	head, rest, _ := strings.Cut(good, ".")
	body, signature, _ := strings.Cut(rest, ".")
	plain := base64.RawURLEncoding.EncodeToString
	check("without a signature", plain([]byte(`{"alg":"none"}`))+"."+body+".", 401)
	check("with another body", head+"."+plain([]byte(`{"sub":"sub-1"}`))+"."+signature, 401)
	public, err := json.Marshal(first.Public())
	if err != nil {
		t.Fatal(err)
	}
	check("signed by the public key as a secret", sign(t, jose.JSONWebKey{Key: public, KeyID: "1",
		Algorithm: "HS256"}, claims(nil)), 401)
	i.keys.Store(&[]jose.JSONWebKey{second})
	renewed := sign(t, second, claims(map[string]any{"exp": now + 3600}))
	// who asks while the answer about the keys before is put away has that answer
	for range 100 {
		p.clock.pass(askEvery)
		if get(h, "GET", "/v2", "Bearer "+renewed).StatusCode == 200 {
			break
		}
		runtime.Gosched()
	}
	check("signed by the issuer's new key", renewed, 200)
	p.clock.pass(time.Hour)
	check("expired by now", good, 401)
}

// TestOIDCExpiresMeanwhile: a request that goes on when its token has expired has no rights any
// more.
func TestOIDCExpiresMeanwhile(t *testing.T) {
	key := rsaKey(t, "1")
	i := newIssuing(t, key)
	p := begin(t, t.TempDir())
	if err := p.book.Add(t.Context(), Account{Name: "ann", Weight: 1, Subjects: []string{"s"},
		Grants: []Grant{{All, Read}}}); err != nil {
		t.Fatal(err)
	}
	var ctx context.Context
	h := p.guard(t, OIDC{i.URL, "weir"}).HTTP(http.HandlerFunc(func(_ http.ResponseWriter,
		r *http.Request) {
		ctx = r.Context()
	}))
	token := sign(t, key, map[string]any{"iss": i.URL, "aud": "weir", "sub": "s",
		"exp": p.clock.Now().Unix() + 300})
	if got := get(h, "GET", "/v2", "Bearer "+token); got.StatusCode != 200 {
		t.Fatalf("status %d", got.StatusCode)
	}
	p.clock.pass(299 * time.Second)
	if !May(ctx, Read, "m") {
		t.Error("nothing while it is valid")
	}
	p.clock.pass(time.Second)
	if May(ctx, Read, "m") {
		t.Error("it may read with a token that has expired")
	}
}

// TestOIDCHangs: an issuer that does not answer keeps nobody beyond the time of their request. It
// is not the client's fault, who is told to come again.
func TestOIDCHangs(t *testing.T) {
	asked, answer := make(chan struct{}, askBurst), make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked <- struct{}{}
		<-answer
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	defer s.Close()
	p := begin(t, t.TempDir())
	h := p.guard(t, OIDC{s.URL, "weir"}).HTTP(who)
	ask := func(ctx context.Context) int {
		r := httptest.NewRequestWithContext(ctx, "GET", "https://weir.example/v2", nil)
		r.Header.Set("Authorization", "Bearer a.b.c")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	ended := make(chan int, 1)
	go func() { ended <- ask(t.Context()) }()
	<-asked
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	ask(gone)
	if len(ended) > 0 {
		t.Error("one whose client is gone waited until others were answered")
	}
	close(answer)
	if code := <-ended; code != http.StatusServiceUnavailable {
		t.Errorf("status %d", code)
	}
}

// TestOIDCKeysInPlain: keys that would come over a connection which anybody on the way could change
// are not asked for, whatever the issuer says of where they are.
func TestOIDCKeysInPlain(t *testing.T) {
	tr := newIssuer(OIDC{"https://id.example", "weir"}, time.Now).client.Transport
	for _, url := range []string{"http://id.example/keys", "ftp://localhost/keys"} {
		r, err := tr.RoundTrip(httptest.NewRequest("GET", url, nil))
		if err == nil {
			r.Body.Close()
		}
		if !errors.Is(err, errPlain) {
			t.Errorf("%s: %v", url, err)
		}
	}
}

// TestOIDCIsNotAskedForAll: tokens with keys that are not known do not make the server ask the
// issuer without end, and one of a key that is known goes on to hold.
func TestOIDCIsNotAskedForAll(t *testing.T) {
	key := rsaKey(t, "1")
	i := newIssuing(t, key)
	p := begin(t, t.TempDir())
	if err := p.book.Add(t.Context(), Account{Name: "ann", Weight: 1,
		Subjects: []string{"s"}}); err != nil {
		t.Fatal(err)
	}
	h := p.guard(t, OIDC{i.URL, "weir"}).HTTP(who)
	claims := map[string]any{"iss": i.URL, "aud": "weir", "sub": "s",
		"exp": p.clock.Now().Unix() + 300}
	good := "Bearer " + sign(t, key, claims)
	key.KeyID = "2"
	bad := "Bearer " + sign(t, key, claims)
	get(h, "GET", "/v2", good)
	for range 50 {
		get(h, "GET", "/v2", bad)
	}
	if n := i.asked.Load(); n == 0 || n > askBurst {
		t.Errorf("it was asked %d times", n)
	}
	if got := get(h, "GET", "/v2", good); got.StatusCode != 200 {
		t.Errorf("status %d", got.StatusCode)
	}
}

// TestOIDCOptions: an issuer that others could pretend to be is refused, and one without audience.
func TestOIDCOptions(t *testing.T) {
	p := begin(t, t.TempDir())
	for o, want := range map[OIDC]error{{}: nil, {"https://id.example", "weir"}: nil,
		{"http://127.0.0.1:9", "weir"}: nil, {"http://id.example", "weir"}: ErrInvalid,
		{"https://id.example", ""}: ErrInvalid, {"id.example", "weir"}: ErrInvalid,
		{"", "weir"}: ErrInvalid} {
		if _, err := NewGuard(p.book, p.log, o, nil); !errors.Is(err, want) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}
