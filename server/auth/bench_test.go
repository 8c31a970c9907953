package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// discard is a writer that keeps nothing.
type discard struct{ header http.Header }

func (d *discard) Header() http.Header         { return d.header }
func (d *discard) Write(p []byte) (int, error) { return len(p), nil }
func (d *discard) WriteHeader(int)             {}

// BenchmarkGuard is what a request for an inference costs more on a server with accounts.
func BenchmarkGuard(b *testing.B) {
	p := begin(b, b.TempDir())
	h := p.guard(b, OIDC{}).HTTP(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	r := httptest.NewRequest("POST", "/v2/models/m-1/infer", nil)
	r.Header.Set("Authorization", "Bearer "+p.add(b, "ann", "read,infer on m-*"))
	w := &discard{http.Header{}}
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(w, r)
	}
}
