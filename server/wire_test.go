package server

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/weirgpu/weir"
)

// wire is a connection over loopback that asks as cheaply as may be, so that a benchmark measures
// the server.
func wire(b *testing.B, s http.Handler) func() {
	h := httptest.NewServer(s)
	b.Cleanup(h.Close)
	c, err := net.Dial("tcp", h.Listener.Addr().String())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	ask := "POST " + inferPath + " HTTP/1.1\r\nHost: localhost\r\n" + headerLength +
		": 0\r\nContent-Length: 256\r\n\r\n" + string(make([]byte, 256))
	answer := make([]byte, 4096)
	return func() {
		if _, err := io.WriteString(c, ask); err != nil {
			b.Fatal(err)
		}
		if n, err := c.Read(answer); err != nil || string(answer[9:12]) != "200" {
			b.Fatalf("%v: %s", err, answer[:n])
		}
	}
}

// BenchmarkWire is a request over loopback, for a picture as bytes: with all that the server counts
// and without, and an answer of as many bytes from a handler that does nothing.
func BenchmarkWire(b *testing.B) {
	run := func(b *testing.B, ask func()) {
		ask()
		b.ReportAllocs()
		for b.Loop() {
			ask()
		}
	}
	serve := func(b *testing.B) *Server {
		s, err := New(Options{})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = s.Close() })
		if err := s.LoadAll(b.Context(), []Source{digitsSource()}); err != nil {
			b.Fatal(err)
		}
		return s
	}
	b.Run("infer", func(b *testing.B) { run(b, wire(b, serve(b))) })
	b.Run("uncounted", func(b *testing.B) {
		s := serve(b)
		v, err := s.look("digits", "")
		if err != nil {
			b.Fatal(err)
		}
		rec := s.rec
		b.Cleanup(func() { s.rec = rec })
		s.rec, v.counts = nil, nil
		run(b, wire(b, s))
	})
	b.Run("in process", func(b *testing.B) {
		s := serve(b)
		v, err := s.look("digits", "")
		if err != nil {
			b.Fatal(err)
		}
		r, err := v.raw(make([]byte, 256), nil)
		if err != nil {
			b.Fatal(err)
		}
		run(b, func() {
			a, err := s.Infer(context.Background(), "digits", "", r)
			if err != nil {
				b.Fatal(err)
			}
			a.Close()
		})
	})
	b.Run("model", func(b *testing.B) {
		s := serve(b)
		v, err := s.look("digits", "")
		if err != nil {
			b.Fatal(err)
		}
		r, err := v.raw(make([]byte, 256), nil)
		if err != nil {
			b.Fatal(err)
		}
		in := weir.Inputs{"image": r.Inputs[0].Tensor}
		run(b, func() {
			a, err := v.on.Run(context.Background(), in)
			if err != nil {
				b.Fatal(err)
			}
			a.Close()
		})
	})
	b.Run("echo", func(b *testing.B) {
		run(b, wire(b, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			_, _ = w.Write(make([]byte, 200))
		})))
	})
}
