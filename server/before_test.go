package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestUse: what is put before the endpoints sees all requests that may ask, the latest first, and
// can answer itself; endpoints can be added.
func TestUse(t *testing.T) {
	s := begin(t, Options{})
	s.Handle("GET /more/{x}", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, r.PathValue("x"))
	}))
	var seen string
	for i := range 2 {
		s.Use(func(next http.Handler) http.Handler {
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				seen += fmt.Sprint(i)
				if i == 0 && r.URL.Path == "/v2" {
					w.WriteHeader(401)
					return
				}
				next.ServeHTTP(w, r)
			})
		})
	}
	if got := ask(s, "GET", "/more/7", nil); string(all(t, got)) != "7" || seen != "10" {
		t.Errorf("status %d, seen by %s", got.StatusCode, seen)
	}
	if got := ask(s, "GET", "/v2", nil); got.StatusCode != 401 {
		t.Errorf("status %d", got.StatusCode)
	}
	seen = ""
	if got := ask(s, "POST", inferPath, nil, "Sec-Fetch-Site", "cross-site"); seen != "" ||
		got.StatusCode != 403 {
		t.Errorf("from a page elsewhere: status %d, seen by %q", got.StatusCode, seen)
	}
}

// TestAnyName: a server with accounts answers by whatever name; pages of other origins may not ask
// it either.
func TestAnyName(t *testing.T) {
	s := begin(t, Options{AnyName: true})
	for site, want := range map[string]int{"": 200, "cross-site": 403} {
		r := httptest.NewRequest("POST", "https://weir.example/v2/repository/index", nil)
		if site != "" {
			r.Header.Set("Sec-Fetch-Site", site)
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("site %q: status %d", site, w.Code)
		}
	}
}
