package source

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"
)

// TestDistance: addresses are as near as who may reach them.
func TestDistance(t *testing.T) {
	for text, want := range map[string]int{"8.8.8.8": public, "2606:4700::1": public,
		"10.1.2.3": private, "192.168.0.1": private, "fd00::1": private, "100.64.0.1": private,
		"::ffff:10.0.0.1": private, "64:ff9b::a00:1": private, "64:ff9b::808:808": public,
		"169.254.169.254": link, "fe80::1": link, "224.0.0.1": link, "127.0.0.1": own, "::1": own,
		"0.0.0.0": own, "::ffff:127.0.0.1": own} {
		if got := distance(netip.MustParseAddr(text)); got != want {
			t.Errorf("%s: %d, want %d", text, got, want)
		}
	}
}

// TestReach: what a host sends elsewhere leads nowhere that is nearer than it is.
func TestReach(t *testing.T) {
	for near, cases := range map[int]map[string]bool{
		public: {"8.8.8.8:443": true, "10.0.0.1:443": false, "169.254.169.254:80": false,
			"127.0.0.1:1": false},
		private: {"8.8.8.8:443": true, "10.0.0.1:443": true, "169.254.169.254:80": false,
			"127.0.0.1:1": false},
		own: {"8.8.8.8:443": true, "127.0.0.1:1": true},
	} {
		r := &Reach{Host: "registry", near: near, known: true}
		for address, ok := range cases {
			if err := r.check("tcp", address, nil); (err == nil) != ok ||
				err != nil && !errors.Is(err, ErrReach) {
				t.Errorf("%d to %s: %v", near, address, err)
			}
		}
	}
	// a name with a far and a near address is far
	r := &Reach{}
	for _, address := range []string{"127.0.0.1:1", "8.8.8.8:1", "10.0.0.1:1"} {
		if err := r.learn("tcp", address, nil); err != nil {
			t.Fatal(err)
		}
	}
	if r.near != public {
		t.Error(r.near)
	}
}

// TestReachedByRedirection: a real redirection to this machine is not followed, nor one that leaves
// TLS, nor one that goes round.
func TestReachedByRedirection(t *testing.T) {
	inner := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("what is on this machine was asked")
	}))
	defer inner.Close()
	r := &Reach{Host: "registry.example", known: true}
	c := &http.Client{Transport: r.Transport(), CheckRedirect: r.redirect}
	if _, err := c.Get(inner.URL); !errors.Is(err, ErrReach) {
		t.Error(err)
	}
	at := func(scheme string) *http.Request { return &http.Request{URL: &url.URL{Scheme: scheme}} }
	if r.redirect(at("http"), []*http.Request{at("https")}) == nil {
		t.Error("it left TLS")
	}
	if r.redirect(at("https"), []*http.Request{at("http")}) != nil {
		t.Error("it did not go to TLS")
	}
	five := []*http.Request{at("http"), at("http"), at("http"), at("http"), at("http")}
	if r.redirect(at("http"), five) == nil {
		t.Error("it went round")
	}
}
