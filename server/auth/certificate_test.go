package auth

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"io"
	"log"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t *testing.T) *authority {
	t.Helper()
	a := &authority{}
	a.certificate, a.key = a.make(t, &x509.Certificate{IsCA: true, BasicConstraintsValid: true,
		Subject: pkix.Name{CommonName: "authority"}, KeyUsage: x509.KeyUsageCertSign})
	return a
}

// make makes a certificate of a template, signed by itself if the authority has none.
func (a *authority) make(t *testing.T, c *x509.Certificate) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c.SerialNumber, err = rand.Int(rand.Reader, big.NewInt(1<<60))
	if err != nil {
		t.Fatal(err)
	}
	c.NotBefore, c.NotAfter = time.Now().Add(-time.Hour), time.Now().Add(time.Hour)
	parent, by := a.certificate, a.key
	if parent == nil {
		parent, by = c, key
	}
	der, err := x509.CreateCertificate(rand.Reader, c, parent, key.Public(), by)
	if err != nil {
		t.Fatal(err)
	}
	made, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return made, key
}

// files writes a certificate for localhost and its key, and returns their paths.
func (a *authority) files(t *testing.T, dir, name string) (certificate, key string) {
	t.Helper()
	c, k := a.make(t, &x509.Certificate{Subject: pkix.Name{CommonName: name},
		DNSNames: []string{"localhost"}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}})
	der, err := x509.MarshalPKCS8PrivateKey(k)
	if err != nil {
		t.Fatal(err)
	}
	certificate, key = filepath.Join(dir, "server.pem"), filepath.Join(dir, "server.key")
	writePEM(t, certificate, "CERTIFICATE", c.Raw)
	writePEM(t, key, "PRIVATE KEY", der)
	return certificate, key
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	b := pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der})
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// serve serves over TLS, HTTP/1.1 only, until the test ends.
func serve(t *testing.T, c *TLS, h http.Handler) (address string) {
	t.Helper()
	on, err := tls.Listen("tcp", "127.0.0.1:0", c.Config("http/1.1"))
	if err != nil {
		t.Fatal(err)
	}
	s := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute,
		ErrorLog: log.New(io.Discard, "", 0)}
	go func() { _ = s.Serve(on) }()
	t.Cleanup(func() { _ = s.Close() })
	return on.Addr().String()
}

// client trusts an authority, and has a certificate unless that is nil.
func client(a *authority, own *tls.Certificate) *http.Client {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	c := &tls.Config{RootCAs: pool, NextProtos: []string{"h2", "http/1.1"}}
	if own != nil {
		c.Certificates = []tls.Certificate{*own}
	}
	return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
}

// TestCertificates: a client's certificate of the authority is the account that has one of its
// names; others are nobody, and none of another authority comes through at all.
func TestCertificates(t *testing.T) {
	p := begin(t, t.TempDir())
	token := p.add(t, "bob")
	if err := p.book.Add(t.Context(), Account{Name: "ann", Weight: 1, Certificates: []string{
		"uri:spiffe://example/ann", "CN=ann,O=example"}}); err != nil {
		t.Fatal(err)
	}
	ca, other, dir := newAuthority(t), newAuthority(t), t.TempDir()
	certificate, key := ca.files(t, dir, "server")
	authorities := filepath.Join(dir, "ca.pem")
	writePEM(t, authorities, "CERTIFICATE", ca.certificate.Raw)
	c, err := NewTLS(certificate, key, authorities, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	url := "https://" + serve(t, c, p.guard(t, OIDC{}).HTTP(who)) + "/v2"
	ask := func(by *authority, template *x509.Certificate, authorization string) (int, string) {
		var own *tls.Certificate
		if template != nil {
			template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}
			made, key := by.make(t, template)
			own = &tls.Certificate{Certificate: [][]byte{made.Raw}, PrivateKey: key}
		}
		r, err := http.NewRequestWithContext(t.Context(), "GET", url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if authorization != "" {
			r.Header.Set("Authorization", authorization)
		}
		got, err := client(ca, own).Do(r)
		if err != nil {
			return 0, err.Error()
		}
		defer got.Body.Close()
		if got.ProtoMajor != 1 {
			t.Errorf("it speaks %s", got.Proto)
		}
		return got.StatusCode, text(got)
	}
	spiffe := uris(t, "spiffe://example/ann")
	ann := pkix.Name{CommonName: "ann", Organization: []string{"example"}}
	for name, c := range map[string]struct {
		by            *authority
		template      *x509.Certificate
		authorization string
		status        int
		says          string
	}{
		"by subject": {ca, &x509.Certificate{Subject: ann}, "", 200, "ann"},
		"by URI":     {ca, &x509.Certificate{URIs: spiffe}, "", 200, "ann"},
		"unknown": {ca, &x509.Certificate{Subject: pkix.Name{CommonName: "ann"}}, "", 401,
			`account here: CN=ann"`},
		"none":              {nil, nil, "", 401, "this server has accounts"},
		"a token instead":   {nil, nil, "Bearer " + token, 200, "bob"},
		"a token beside it": {ca, &x509.Certificate{Subject: ann}, "Bearer " + token, 200, "bob"},
		"a bad one beside":  {ca, &x509.Certificate{Subject: ann}, "Bearer x", 401, "not known"},
		"of another":        {other, &x509.Certificate{Subject: ann}, "", 0, ""},
	} {
		if status, body := ask(c.by, c.template, c.authorization); status != c.status ||
			!strings.Contains(body, c.says) {
			t.Errorf("%s: status %d, %s", name, status, body)
		}
	}
	p.clock.pass(time.Since(p.clock.Now()) + 2*time.Hour) // a connection may last for longer
	if status, body := ask(ca, &x509.Certificate{Subject: ann}, ""); status != 401 ||
		!strings.Contains(body, "expired") {
		t.Errorf("expired meanwhile: status %d, %s", status, body)
	}
}

// TestHeadersBesideCertificate: two headers are refused beside a certificate too, which holds until
// it expires, also in a request that goes on.
func TestHeadersBesideCertificate(t *testing.T) {
	p := begin(t, t.TempDir())
	g := p.guard(t, OIDC{})
	if err := p.book.Add(t.Context(), Account{Name: "ann", Weight: 1, Certificates: []string{
		"CN=ann"}, Grants: []Grant{{All, Read}}}); err != nil {
		t.Fatal(err)
	}
	c, _ := newAuthority(t).make(t, &x509.Certificate{Subject: pkix.Name{CommonName: "ann"}})
	shows := credentials{tls: &tls.ConnectionState{VerifiedChains: [][]*x509.Certificate{{c}}}}
	a, err := g.account(t.Context(), shows)
	if err != nil {
		t.Fatal(err)
	}
	ctx := g.with(t.Context(), a)
	if !May(ctx, Read, "m") {
		t.Error("it may not read")
	}
	shows.authorization = []string{"Bearer x", "Bearer y"}
	if a, err := g.account(t.Context(), shows); !errors.Is(err, ErrUnauthenticated) {
		t.Errorf("got %+v, %v", a, err)
	}
	p.clock.pass(c.NotAfter.Sub(p.clock.Now())) // while the request goes on
	if May(ctx, Read, "m") {
		t.Error("it may read by a certificate that has expired")
	}
}

// TestSessions: a client with a certificate shows it each time, and not by a session of one that
// may have been accepted by an authority that is no more.
func TestSessions(t *testing.T) {
	p := begin(t, t.TempDir())
	ca, dir := newAuthority(t), t.TempDir()
	certificate, key := ca.files(t, dir, "server")
	authorities := filepath.Join(dir, "ca.pem")
	writePEM(t, authorities, "CERTIFICATE", ca.certificate.Raw)
	for with, resumes := range map[string]bool{authorities: false, "": true} {
		c, err := NewTLS(certificate, key, with, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		url := "https://" + serve(t, c, p.guard(t, OIDC{}).HTTP(who)) + "/v2"
		by := client(ca, nil)
		by.Transport.(*http.Transport).TLSClientConfig.ClientSessionCache =
			tls.NewLRUClientSessionCache(8)
		for i := range 2 {
			got, err := by.Get(url)
			if err != nil {
				t.Fatal(err)
			}
			_ = text(got)
			if i == 1 && got.TLS.DidResume != resumes {
				t.Errorf("authority %q: resumed %v", with, got.TLS.DidResume)
			}
		}
	}
}

// TestCertNames: the names of a certificate, the most precise first.
func TestCertNames(t *testing.T) {
	got := CertNames(&x509.Certificate{Subject: pkix.Name{CommonName: "a"}, DNSNames: []string{"d"},
		EmailAddresses: []string{"e@x"}, URIs: uris(t, "spiffe://x/y")})
	want := []string{"uri:spiffe://x/y", "email:e@x", "dns:d", "CN=a"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}

func uris(t *testing.T, text string) []*url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return []*url.URL{u}
}

// TestCertificatesAreReloaded: connections have the certificate that the files have now; while the
// files do not fit together, they have the one before.
func TestCertificatesAreReloaded(t *testing.T) {
	ca, dir, c := newAuthority(t), t.TempDir(), &clock{now: time.Now()}
	certificate, key := ca.files(t, dir, "first")
	loaded, err := NewTLS(certificate, key, "", slog.New(slog.DiscardHandler), c.Now)
	if err != nil {
		t.Fatal(err)
	}
	address := serve(t, loaded, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok")
	}))
	name := func() string {
		got, err := client(ca, nil).Get("https://" + address)
		if err != nil {
			t.Fatal(err)
		}
		defer got.Body.Close()
		return got.TLS.PeerCertificates[0].Subject.CommonName
	}
	later := time.Now()
	replace := func(certificateOnly bool, name string) {
		before, err := os.ReadFile(key)
		if err != nil {
			t.Fatal(err)
		}
		ca.files(t, dir, name)
		if certificateOnly {
			err = os.WriteFile(key, before, 0o600)
		}
		later = later.Add(time.Second) // file systems have clocks of coarse ticks
		if err = errors.Join(err, os.Chtimes(certificate, later, later),
			os.Chtimes(key, later, later)); err != nil {
			t.Fatal(err)
		}
		c.pass(lookEvery)
	}
	if got := name(); got != "first" {
		t.Errorf("got %s", got)
	}
	replace(false, "second")
	if got := name(); got != "second" || loaded.Err() != nil {
		t.Errorf("got %s, %v", got, loaded.Err())
	}
	replace(true, "third")
	if got := name(); got != "second" || loaded.Err() == nil {
		t.Errorf("while the key is another's: %s, %v", got, loaded.Err())
	}
	replace(false, "fourth")
	if got := name(); got != "fourth" || loaded.Err() != nil {
		t.Errorf("got %s, %v", got, loaded.Err())
	}
	if err := os.Remove(key); err != nil {
		t.Fatal(err)
	}
	c.pass(lookEvery)
	if got := name(); got != "fourth" || !errors.Is(loaded.Err(), os.ErrNotExist) {
		t.Errorf("without a key: %s, %v", got, loaded.Err())
	}
	if _, err := NewTLS(certificate, key, "", nil, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("at the start: %v", err)
	}
}
