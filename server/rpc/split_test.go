package rpc

import (
	"bufio"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// TestSplit: each connection goes to whom it is for, however its first bytes come, and with all of
// them; who says nothing is left.
func TestSplit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		on := newPipes()
		plain, calls := Split(on)
		serve := func(l net.Listener, name string) {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				b := make([]byte, 24)
				_, _ = io.ReadFull(c, b)
				_, _ = io.WriteString(c, name+string(b))
				_ = c.Close()
			}
		}
		go serve(plain, "http:")
		go serve(calls, "grpc:")
		for first, want := range map[string]string{preface: "grpc:",
			"PRI * HTTP/2.0\r\n\r\nSM\r\n\r!": "http:", "PUT / HTTP/1.1\r\n........": "http:",
			"GET / HTTP/1.1\r\n........": "http:"} {
			for _, at := range []int{0, 1, 20} {
				c := on.dial()
				go func() {
					_, _ = io.WriteString(c, first[:at])
					time.Sleep(time.Second)
					_, _ = io.WriteString(c, first[at:])
				}()
				if got, _ := io.ReadAll(c); string(got) != want+first {
					t.Errorf("%q, cut at %d: %q, want %s", first, at, got, want)
				}
			}
		}
		silent := on.dial()
		began := time.Now()
		if b, _ := io.ReadAll(silent); len(b) > 0 || time.Since(began) != patience {
			t.Errorf("who says nothing: %q after %v", b, time.Since(began))
		}
		if err := calls.Close(); err != nil {
			t.Error(err)
		}
		for first, want := range map[string]string{preface: "",
			"GET / HTTP/1.1\r\n........": "http:GET / HTTP/1.1\r\n........"} {
			for range 20 {
				c := on.dial()
				go func() { _, _ = io.WriteString(c, first) }()
				if got, _ := io.ReadAll(c); string(got) != want {
					t.Errorf("%q once one half is closed: %q, want %q", first, got, want)
				}
			}
		}
		if err := errors.Join(calls.Close(), plain.Close()); err != nil {
			t.Error(err)
		}
		if _, err := on.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Errorf("what was split is open after both halves are closed: %v", err)
		}
		if _, err := plain.Accept(); err == nil {
			t.Error("a half that is closed is open")
		}
	})
}

// TestSplitEnds: where the listener that was split is closed, so are both halves.
func TestSplitEnds(t *testing.T) {
	on := newPipes()
	plain, calls := Split(on)
	if err := on.Close(); err != nil {
		t.Fatal(err)
	}
	for _, half := range []net.Listener{plain, calls} {
		if _, err := half.Accept(); !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	}
}

// TestSplitHTTP: requests of HTTP get through to their server.
func TestSplitHTTP(t *testing.T) {
	on, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	plain, calls := Split(on)
	defer calls.Close()
	h := &http.Server{Handler: http.NotFoundHandler()}
	go func() { _ = h.Serve(plain) }()
	defer h.Close()
	c, err := net.Dial("tcp", on.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for range 2 {
		if _, err := io.WriteString(c, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		r, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || r.StatusCode != http.StatusNotFound {
			t.Fatalf("%v, %v", r, err)
		}
		_, _ = io.Copy(io.Discard, r.Body)
	}
}
