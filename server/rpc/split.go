package rpc

import (
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Split has one listener answer both protocols: what begins as HTTP/2 does, or over TLS has chosen
// it (h2, by ALPN), goes to grpc, and all else to http. Once one of them is closed its connections
// are cut off and the other goes on, so that a server which ends by one protocol can still say so
// by the other; with the second on is closed. Its connections are plain or *tls.Conn.
func Split(on net.Listener) (http, grpc net.Listener) {
	s := &splitter{on: on}
	s.open.Store(2)
	s.http, s.grpc = newHalf(s), newHalf(s)
	go s.accept()
	return s.http, s.grpc
}

// splitter is a listener that two share.
type splitter struct {
	on         net.Listener
	http, grpc *half
	open       atomic.Int32 // halves that are not closed
}

// half is a part of a splitter.
type half struct {
	*splitter
	conns chan net.Conn
	done  chan struct{} // closed once it takes no more
	close sync.Once
}

func newHalf(s *splitter) *half {
	return &half{splitter: s, conns: make(chan net.Conn), done: make(chan struct{})}
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
		if h.open.Add(-1) == 0 {
			err = h.on.Close()
		}
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
			_ = errors.Join(s.http.Close(), s.grpc.Close())
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
	case <-to.done:
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

// NetConn is the connection itself.
func (b *begun) NetConn() net.Conn { return b.Conn }

// Read implements net.Conn.
func (b *begun) Read(p []byte) (int, error) {
	if len(b.first) == 0 {
		return b.Conn.Read(p)
	}
	n := copy(p, b.first)
	b.first = b.first[n:]
	return n, nil
}
