package server

import (
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"
)

// This file, with those whose names begin as its own does, answers small requests for inferences on
// their connections, before net/http reads them. What net/http does for each request takes more
// time than all else that a small model needs: it makes maps of headers, sets deadlines, and begins
// a goroutine that watches the connection, which on a machine of few cores wakes another thread. A
// request as nearly all clients send it needs none of that; every other one goes on to net/http as
// it came, with its connection.

// Front returns a listener for h, an http.Server whose handler is s, that answers small requests
// for inferences of plain connections itself, as s would. Its Accept returns the connections whose
// next request is another one. The timeouts are those of h. Closing it closes on and the
// connections that are idle; one whose request is under way is closed once that is answered, which
// [Server.Drain] waits for.
func (s *Server) Front(on net.Listener, h *http.Server) net.Listener {
	f := &front{Listener: on, of: s, first: h.ReadHeaderTimeout, idle: h.IdleTimeout,
		handed: make(chan net.Conn), done: make(chan struct{}), conns: map[*frontConn]struct{}{}}
	return f
}

// front is a listener that answers some requests itself.
type front struct {
	net.Listener
	of          *Server
	first, idle time.Duration // how long a connection may be without a request; 0: for ever
	begin       sync.Once
	handed      chan net.Conn
	done        chan struct{}

	sweeping atomic.Bool // sweep is to be called

	mu     sync.Mutex  // taken before those of connections
	timer  *time.Timer // of sweep
	conns  map[*frontConn]struct{}
	closed bool
}

// Accept implements net.Listener.
func (f *front) Accept() (net.Conn, error) {
	f.begin.Do(func() { go f.accept() })
	select {
	case c := <-f.handed:
		return c, nil
	case <-f.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (f *front) Close() error {
	f.mu.Lock()
	first := !f.closed
	f.closed = true
	for c := range f.conns {
		c.finish()
	}
	f.mu.Unlock()
	if !first {
		return nil
	}
	close(f.done)
	return f.Listener.Close()
}

// again is how long to wait after an error such as too many open files.
const again = 100 * time.Millisecond

// accept takes connections until there are no more.
func (f *front) accept() {
	for {
		c, err := f.Listener.Accept()
		_, sealed := c.(*tls.Conn)
		switch {
		case errors.Is(err, net.ErrClosed):
			_ = f.Close()
			return
		case err != nil:
			time.Sleep(again)
		case sealed || f.of.used: // net/http knows of the one, and the other's handlers of more
			go f.hand(c)
		default:
			go f.serve(c)
		}
	}
}

// hand gives a connection to net/http.
func (f *front) hand(c net.Conn) {
	select {
	case f.handed <- c:
	case <-f.done:
		_ = c.Close()
	}
}

// serve answers what it can of a connection's requests.
func (f *front) serve(raw net.Conn) {
	c := newFrontConn(f, raw)
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		_ = raw.Close()
		return
	}
	f.conns[c] = struct{}{}
	f.mu.Unlock()
	kept := c.serve()
	f.mu.Lock()
	delete(f.conns, c)
	f.mu.Unlock()
	c.cancel()
	if kept {
		f.hand(c)
	} else {
		_ = raw.Close()
	}
}

// sweepEvery is how often it is looked for requests that go on for long.
const sweepEvery = 5 * time.Millisecond

// wake has sweep called, which it is while there are requests.
func (f *front) wake() {
	if f.sweeping.Load() || !f.sweeping.CompareAndSwap(false, true) {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.timer == nil {
		f.timer = time.AfterFunc(sweepEvery, f.sweep)
	} else {
		f.timer.Reset(sweepEvery)
	}
}

// sweep has the connections watched of requests that were under way when it was called last.
func (f *front) sweep() {
	f.mu.Lock()
	defer f.mu.Unlock()
	active := false
	for c := range f.conns {
		n := c.count.Load()
		switch {
		case n != c.seen:
			active = true
		case n%2 == 1:
			if active = true; c.unwatched() {
				go c.watch()
			}
		}
		c.seen = n
	}
	if active {
		f.timer.Reset(sweepEvery)
		return
	}
	f.sweeping.Store(false)
	for c := range f.conns { // one that began meanwhile may have seen that it is called
		if c.count.Load() != c.seen && f.sweeping.CompareAndSwap(false, true) {
			f.timer.Reset(sweepEvery)
		}
	}
}
