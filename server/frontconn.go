package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
	"github.com/weirgpu/weir/server/telemetry"
)

// The sizes of a connection's buffer, at first and at most: a larger request is net/http's, which
// bounds the memory of all bodies together. Heads of larger ones have frontHead at most.
const (
	frontFirst = 4 << 10
	frontMost  = 16 << 10
	frontHead  = 4 << 10
)

// frontConn is a connection whose small requests are answered before net/http reads them. To
// net/http, which may get it later, it is the connection with what was read and not answered in
// front.
type frontConn struct {
	net.Conn
	of       *front
	buf      []byte
	from, to int       // what was read and not answered
	host     string    // that was answered last
	rested   time.Time // the deadline of reading was set then
	taken    time.Time // when who takes nothing is given up
	memo     oip.Memo

	ctx    context.Context // done once the client is gone
	cancel context.CancelFunc
	count  atomic.Uint64 // odd while a request is under way
	seen   uint64        // of sweep

	mu       sync.Mutex
	quiet    sync.Cond
	busy     bool
	watching bool // for a client that goes
	stopped  bool // watching is to end
	closing  bool // it is to be closed, once busy ends
}

func newFrontConn(f *front, raw net.Conn) *frontConn {
	c := &frontConn{Conn: raw, of: f, buf: make([]byte, frontFirst)}
	c.quiet.L = &c.mu
	c.ctx, c.cancel = context.WithCancel(auth.Connected(context.Background(), raw))
	if f.first > 0 {
		_ = raw.SetReadDeadline(time.Now().Add(f.first))
	}
	return c
}

// NetConn is the connection itself.
func (c *frontConn) NetConn() net.Conn { return c.Conn }

// Read implements net.Conn.
func (c *frontConn) Read(p []byte) (int, error) {
	if c.from < c.to {
		n := copy(p, c.buf[c.from:c.to])
		if c.from += n; c.from == c.to {
			c.buf, c.from, c.to = nil, 0, 0
		}
		return n, nil
	}
	return c.Conn.Read(p)
}

// serve answers requests until one is not for it, and reports whether the connection is good for
// that; if not it is to be closed.
func (c *frontConn) serve() (good bool) {
	for {
		if c.from == c.to && !c.fill() {
			return false
		}
		var h head
		n := h.read(c.buf[c.from:c.to])
		if n == 0 || !c.mine(&h) || !c.whole(n+h.length) {
			_ = c.Conn.SetWriteDeadline(time.Time{})
			return true
		}
		if !c.begin() {
			return false
		}
		answered := c.answer(&h, c.buf[c.from+n:c.from+n+h.length])
		if c.from += n + h.length; !c.ended() || !answered {
			return false
		}
	}
}

// fill waits for a request, and reports whether some of one came.
func (c *frontConn) fill() bool {
	c.from, c.to = 0, 0
	for {
		n, err := c.Conn.Read(c.buf[:len(c.buf)-1]) // there is room for watch
		if c.to = n; n > 0 || err != nil {
			return n > 0
		}
	}
}

// mine reports whether net/http would have a request answered by the model, as far as the head
// tells.
func (c *frontConn) mine(h *head) bool {
	if h.length > frontMost-frontHead || int64(h.length) > c.of.of.o.Body {
		return false
	}
	if string(h.host) == c.host || c.of.of.o.AnyName {
		return true
	}
	c.host = string(h.host)
	if !loopback(c.host) {
		c.host = ""
		return false
	}
	return true
}

// whole waits until n bytes of a request are there, which takes net/http's patience at most, and
// reports whether they are.
func (c *frontConn) whole(n int) bool {
	if c.from+n <= c.to {
		return true
	}
	if n >= len(c.buf)-c.from {
		b := make([]byte, max(len(c.buf), n+1))
		c.to = copy(b, c.buf[c.from:c.to])
		c.buf, c.from = b, 0
	}
	c.rested = time.Time{}
	_ = c.Conn.SetReadDeadline(time.Now().Add(patience))
	for c.to-c.from < n {
		more, err := c.Conn.Read(c.buf[c.to : len(c.buf)-1])
		if c.to += more; err != nil && c.to-c.from < n {
			_ = c.Conn.SetReadDeadline(time.Now().Add(patience)) // net/http finds that, too
			return false
		}
	}
	return true
}

// begin says that a request is under way, unless the connection is closed.
func (c *frontConn) begin() bool {
	c.mu.Lock()
	closing := c.closing
	if !closing {
		c.busy = true
		c.count.Add(1)
	}
	c.mu.Unlock()
	if !closing {
		c.of.wake()
	}
	return !closing
}

// ended says that a request was answered, and reports whether there may be another one.
func (c *frontConn) ended() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.busy = false
	c.count.Add(1)
	if c.watching {
		c.stopped = true
		_ = c.Conn.SetReadDeadline(time.Unix(1, 0))
		for c.watching {
			c.quiet.Wait()
		}
		c.stopped = false
	}
	if c.closing || c.ctx.Err() != nil {
		return false
	}
	c.rest()
	return true
}

// rest sets until when the next request is waited for: each second anew, which is often enough.
func (c *frontConn) rest() {
	now := time.Now()
	if now.Sub(c.rested) < time.Second {
		return
	}
	c.rested = now
	var by time.Time
	if c.of.idle > 0 {
		by = now.Add(c.of.idle)
	}
	_ = c.Conn.SetReadDeadline(by)
}

// finish closes the connection, or has it closed once the request under way is answered.
func (c *frontConn) finish() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closing = true; !c.busy {
		_ = c.Conn.Close()
	}
}

// unwatched reports whether a request is under way and nobody watches for its client to go.
func (c *frontConn) unwatched() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.busy && !c.watching
}

// watch ends the request under way once its client is gone. What a client sends meanwhile is kept
// for the next request, as far as there is room.
func (c *frontConn) watch() {
	c.mu.Lock()
	if !c.busy || c.watching || c.to == len(c.buf) {
		c.mu.Unlock()
		return
	}
	c.watching, c.rested = true, time.Time{}
	to := c.buf[c.to:]
	_ = c.Conn.SetReadDeadline(time.Time{})
	c.mu.Unlock()
	n, err := c.Conn.Read(to)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.to += n
	if err != nil && !(c.stopped && errors.Is(err, os.ErrDeadlineExceeded)) {
		c.cancel()
	}
	c.watching = false
	c.quiet.Broadcast()
}

// answer answers a request, and reports whether the client has the answer.
func (c *frontConn) answer(h *head, body []byte) (sent bool) {
	s := c.of.of
	q, err := s.rec.Begin(), errPanic
	defer func() {
		if p := recover(); p != nil {
			s.o.Log.Error("panic while answering", "path", lineBegin[5:]+string(h.model), "panic",
				p, "stack", string(debug.Stack()))
			c.fail(http.StatusInternalServerError, 0, internalFault)
			sent = false
		}
		q.End(counted(err))
	}()
	sent, err = c.infer(h, body, q)
	if err == nil || sent {
		return sent
	}
	code := status(err)
	if code == http.StatusInternalServerError {
		s.o.Log.Error("request failed", "path", lineBegin[5:]+string(h.model), "error", err)
	}
	return c.fail(code, oip.RetryAfter(err), text(err))
}

// internalFault is what a client is told of a panic.
const internalFault = "internal fault: the server's log has it"

// infer answers a request by its model.
func (c *frontConn) infer(h *head, body []byte, q *telemetry.Request) (sent bool, err error) {
	s := c.of.of
	v, err := s.look(string(h.model), string(h.version))
	if err != nil {
		return false, err
	}
	q.For(v.counts, "")
	q.Bytes(int64(len(body)), 0)
	held := int64(len(body))
	if err := s.Hold(held); err != nil {
		return false, err
	}
	defer func() { s.Release(held) }()
	r, err := c.decode(v, h, body)
	if err != nil {
		return false, err
	}
	answer, err := s.Infer(telemetry.With(c.ctx, q), v.name, string(h.version), r)
	if err != nil {
		return false, err
	}
	defer answer.Close() // once it is sent: Drain waits for that
	buffer := answers.Get().(*[]byte)
	defer keepAnswer(buffer)
	all, header, err := answer.Append(append((*buffer)[:0], frontRoom[:]...))
	answer.free()
	if err != nil {
		return false, err
	}
	*buffer = all
	q.Mark(telemetry.Encoded)
	s.Take(int64(cap(all)))
	held += int64(cap(all))
	n, err := c.write(http.StatusOK, all, header)
	q.Bytes(int64(len(body)), n)
	return err == nil, nil // as over net/http, where a client that is gone has its answer, too
}

// decode reads a request of a client, whose requests are often alike, and so small that the memory
// which it has beside its bytes is not counted.
func (c *frontConn) decode(v *version, h *head, body []byte) (*oip.Request, error) {
	if h.header > 0 {
		return c.memo.Decode(body, h.header, nil)
	}
	return v.decode(body, h.header, nil)
}

// frontRoom is what an answer's head has room in.
var frontRoom [256]byte

// write writes an answer, whose bytes stand behind as many as frontRoom has, and returns how many
// of them it could. header is how many are JSON, where others follow.
func (c *frontConn) write(code int, all []byte, header int) (n int64, err error) {
	var room [len(frontRoom)]byte
	head := append(room[:0], "HTTP/1.1 200 OK\r\nContent-Length: "...)
	head = strconv.AppendInt(head, int64(len(all)-len(frontRoom)), 10)
	if header > 0 {
		head = append(head, "\r\nContent-Type: application/octet-stream\r\n"+headerLength+": "...)
		head = strconv.AppendInt(head, int64(header), 10)
	} else {
		head = append(head, "\r\nContent-Type: application/json"...)
	}
	head = append(head, "\r\nDate: "...)
	now := time.Now()
	head = append(append(head, dated(now)...), "\r\n\r\n"...)
	at := len(frontRoom) - len(head)
	copy(all[at:], head)
	return c.send(now, all[at:], len(head))
}

// send writes an answer, of which so many bytes are its head.
func (c *frontConn) send(now time.Time, b []byte, head int) (n int64, err error) {
	if len(b) > step {
		c.taken = time.Time{}
		to := &steps{w: c.Conn, to: c.Conn, began: now}
		_, err = to.Write(b)
		return max(0, to.n-int64(head)), err
	}
	if c.taken.Sub(now) < patience {
		c.taken = now.Add(2 * patience)
		_ = c.Conn.SetWriteDeadline(c.taken)
	}
	written, err := c.Conn.Write(b)
	return int64(max(0, written-head)), err
}

// fail answers by an error.
func (c *frontConn) fail(code int, after time.Duration, text string) bool {
	body, err := json.Marshal(oip.Failure{Error: text})
	if err != nil {
		return false
	}
	now := time.Now()
	b := fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nDate: %s\r\n", code,
		http.StatusText(code), dated(now))
	if after > 0 {
		b = fmt.Appendf(b, "Retry-After: %d\r\n", int(math.Ceil(after.Seconds())))
	}
	b = fmt.Appendf(b, "Content-Length: %d\r\n\r\n", len(body))
	_, err = c.send(now, append(b, body...), len(b))
	return err == nil
}

// date is a second, as heads have it.
type date struct {
	second int64
	text   string
}

var lastDate atomic.Pointer[date]

// dated is a moment as heads have it (RFC 9110, section 5.6.7).
func dated(now time.Time) string {
	second := now.Unix()
	if d := lastDate.Load(); d != nil && d.second == second {
		return d.text
	}
	d := &date{second, now.UTC().Format(http.TimeFormat)}
	lastDate.Store(d)
	return d.text
}
