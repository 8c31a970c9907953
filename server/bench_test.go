package server

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
)

// BenchmarkInfer is a request in process, as HTTP's handler takes it, for a picture as bytes.
func BenchmarkInfer(b *testing.B) {
	s, err := New(Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if err := s.LoadAll(b.Context(), []Source{digitsSource()}); err != nil {
		b.Fatal(err)
	}
	raw := make([]byte, 4*64)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest("POST", "http://localhost"+inferPath, bytes.NewReader(raw))
		r.Header.Set(headerLength, "0")
		w := httptest.NewRecorder()
		if s.ServeHTTP(w, r); w.Code != http.StatusOK {
			body, _ := io.ReadAll(w.Body)
			b.Fatalf("%d %s", w.Code, body)
		}
	}
}
