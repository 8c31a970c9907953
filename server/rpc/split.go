package rpc

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"time"
)

// Split has one listener answer both protocols: what begins as HTTP/2 does, or over TLS has chosen
// it (h2, by ALPN), goes to grpc, and all else to http. Closing either closes both, and on. Its
// connections are plain or *tls.Conn.
func Split(on net.Listener) (http, grpc net.Listener) {
	s := &splitter{on: on, done: make(chan struct{})}
	s.http, s.grpc = &half{s, make(chan net.Conn)}, &half{s, make(chan net.Conn)}
	go s.accept()
	return s.http, s.grpc
}

// splitter is a listener that two share.
type splitter struct {
	on         net.Listener
	http, grpc *half
	done       chan struct{}
	close      sync.Once
}

// half is a part of a splitter.
type half struct {
	*splitter
	conns chan net.Conn
}

// Accept implements net.Listener.
func (h *half) Accept() (net.Conn, error) {
	select {
	case c := <-h.conns:
		return c, nil
	case <-h.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (h *half) Close() (err error) {
	h.close.Do(func() {
		close(h.done)
		err = h.on.Close()
	})
	return err
}

// Addr implements net.Listener.
func (h *half) Addr() net.Addr { return h.on.Addr() }

// retry is how long to wait after an error such as too many open files.
const retry = 100 * time.Millisecond

func (s *splitter) accept() {
	for {
		c, err := s.on.Accept()
		switch {
		case err == nil:
			go s.sort(c)
		case errors.Is(err, net.ErrClosed):
			_ = s.http.Close()
			return
		default:
			time.Sleep(retry)
		}
	}
}

// sort gives a connection to whom it is for, unless it does not say so in time.
func (s *splitter) sort(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(patience))
	to, c, err := s.look(c)
	if err != nil {
		_ = c.Close()
		return
	}
	_ = c.SetDeadline(time.Time{})
	select {
	case to.conns <- c:
	case <-s.done:
		_ = c.Close()
	}
}

// look finds out whom a connection is for.
func (s *splitter) look(c net.Conn) (*half, net.Conn, error) {
	if t, ok := c.(*tls.Conn); ok {
		if err := t.Handshake(); err != nil {
			return nil, c, err
		}
		if t.ConnectionState().NegotiatedProtocol == "h2" {
			return s.grpc, c, nil
		}
		return s.http, c, nil
	}
	first := make([]byte, 0, len(preface))
	for len(first) < len(preface) && strings.HasPrefix(preface, string(first)) {
		n, err := c.Read(first[len(first):cap(first)])
		if first = first[:len(first)+n]; err != nil && n == 0 {
			return nil, c, err
		}
	}
	p := &begun{Conn: c, first: first}
	if string(first) == preface {
		return s.grpc, p, nil
	}
	return s.http, p, nil
}

// begun is a connection of which the first bytes were read.
type begun struct {
	net.Conn
	first []byte
}

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}
