package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"time"

	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/tap"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// conn is a connection between its client and gRPC's transport.
type conn struct {
	net.Conn
	of   *Server
	tls  *tls.ConnectionState // nil without TLS
	peer *auth.Peer

	frames frames // of the goroutine that reads
	rest   []byte // read, and not passed on

	mu     sync.Mutex
	calls  map[uint32]*call     // by the number of their stream
	sends  map[*answer]struct{} // answers that are being sent
	timer  *time.Timer          // looks after calls and sends, nil while there are none
	closed bool
}

// handshake makes connections known to their calls, by the way that gRPC has for credentials.
type handshake struct{ of *Server }

// ServerHandshake implements credentials.TransportCredentials.
func (h handshake) ServerHandshake(raw net.Conn) (net.Conn, credentials.AuthInfo, error) {
	c := &conn{Conn: raw, of: h.of, calls: map[uint32]*call{}, sends: map[*answer]struct{}{},
		frames: frames{skip: len(preface)}, peer: auth.NewPeer(raw)}
	if t, ok := raw.(*tls.Conn); ok {
		if err := t.Handshake(); err != nil { // by the deadline that the transport has set
			return nil, nil, errors.Join(err, raw.Close())
		}
		state := t.ConnectionState()
		c.tls = &state
	}
	if h.of.conns.Add(1) > MaxConnections {
		h.of.conns.Add(-1)
		return nil, nil, errors.Join(errors.New("too many connections"), raw.Close())
	}
	return c, c, nil
}

// ClientHandshake implements credentials.TransportCredentials.
func (h handshake) ClientHandshake(context.Context, string, net.Conn) (net.Conn,
	credentials.AuthInfo, error) {
	return nil, nil, errors.New("no client")
}

// Info implements credentials.TransportCredentials.
func (h handshake) Info() credentials.ProtocolInfo { return credentials.ProtocolInfo{} }

// OverrideServerName implements credentials.TransportCredentials.
func (h handshake) OverrideServerName(string) error { return nil }

// Clone implements credentials.TransportCredentials.
func (h handshake) Clone() credentials.TransportCredentials { return h }

// AuthType implements credentials.AuthInfo.
func (c *conn) AuthType() string { return "weir" }

// preface is what a client of HTTP/2 sends first (RFC 9113, section 3.4).
const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

// Read implements net.Conn. What is read ends with the frame that opens a call, so that the
// transport knows of the call, by tap, before it reads on.
func (c *conn) Read(p []byte) (int, error) {
	if len(c.rest) > 0 {
		n := copy(p, c.rest)
		n = c.frames.scan(c, p[:n])
		c.rest = c.rest[n:]
		return n, nil
	}
	n, err := c.Conn.Read(p)
	passed := c.frames.scan(c, p[:n])
	if passed < n {
		c.rest = append(c.rest[:0:0], p[passed:n]...)
		return passed, nil // an error comes again
	}
	return n, err
}

// Write implements net.Conn. A client that takes nothing ends its connection.
func (c *conn) Write(p []byte) (int, error) {
	_ = c.Conn.SetWriteDeadline(time.Now().Add(patience))
	return c.Conn.Write(p)
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.mu.Lock()
	var held int64
	first := !c.closed
	c.closed = true
	for a := range c.sends { // nobody may say any more what was sent
		held += a.held
		a.held = 0
	}
	clear(c.sends)
	c.mu.Unlock()
	if first {
		c.of.conns.Add(-1)
		c.of.o.Server.Release(held)
	}
	return c.Conn.Close()
}

// tap is asked about each call that is opened, by the goroutine that reads its connection.
func (s *Server) tap(ctx context.Context, info *tap.Info) (context.Context, error) {
	p, _ := peer.FromContext(ctx)
	c := p.AuthInfo.(*conn)
	m := s.methods[info.FullMethodName]
	if m == nil || ctx.Err() != nil {
		return ctx, nil // which the transport refuses, without a handler
	}
	k := &call{ctx: ctx, conn: c, method: m, id: c.frames.opened, limit: small, owes: !m.stream,
		authorization: info.Header["authorization"], opened: time.Now()}
	if m.large {
		k.limit = s.body
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls[k.id] = k
	c.look()
	return context.WithValue(ctx, callKey{}, k), nil
}

// interval is how often calls and answers that are not done are looked at.
const interval = time.Second

// look sees to it that scan is called, after the connection's end too: calls whose handlers never
// begin hold what came of them until then. c.mu is held.
func (c *conn) look() {
	if c.timer == nil {
		c.timer = time.AfterFunc(interval, c.scan)
	}
}

// scan ends calls whose message does not come, and a connection whose answers are not taken.
func (c *conn) scan() {
	now := time.Now()
	var slow []*call
	var held int64
	c.mu.Lock()
	c.timer = nil
	for _, k := range c.calls {
		switch {
		case k.late(now):
			slow = append(slow, k)
		case k.stream == nil && k.ctx.Err() != nil && now.After(k.opened.Add(interval)):
			held += k.abandon() // it was late before its handler could begin
		}
	}
	stuck := false
	for a := range c.sends {
		stuck = stuck || now.After(due(a.began, a.last, a.sent))
	}
	if len(c.calls)+len(c.sends) > 0 {
		c.look()
	}
	c.mu.Unlock()
	c.of.o.Server.Release(held)
	for _, k := range slow {
		k.end(oip.Faultf(oip.TooSlow, "the message came too slowly: send a part each %v, and %d "+
			"bytes a second", patience, pace))
	}
	if stuck {
		_ = c.Close() // the transport finds that out
	}
}
