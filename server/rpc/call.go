package rpc

import (
	"context"
	"encoding/binary"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/weirgpu/weir/server/oip"
)

// small is the most bytes of a message that holds no tensors and no files.
const small = 1 << 20

// call is a call that was opened, from its headers to the return of its handler. Its fields below
// stream are under the mutex of its connection.
type call struct {
	ctx           context.Context // ends with the stream
	conn          *conn
	method        *method
	id            uint32
	limit         int64 // bytes of a message
	authorization []string
	opened        time.Time

	stream statusWriter // nil before the handler runs
	fault  error        // by which it was ended
	owes   bool         // a message must come, or the rest of one
	began  time.Time    // a message, or the call
	last   time.Time    // that some of it came
	n      int64        // bytes of it that came
	prefix [5]byte      // of the message: whether it is compressed, and its length
	have   int          // bytes of prefix
	left   int64        // of the message
	whole  []int64      // bytes of messages that have come as a whole and were not taken
	held   int64        // bytes of the server's for bodies
}

type callKey struct{}

// callOf is the call that a handler answers.
func callOf(ctx context.Context) *call { return ctx.Value(callKey{}).(*call) }

// statusWriter is what the transport's streams have beside grpc.ServerTransportStream: the end of a
// call before its handler returns, even while that waits for a message.
type statusWriter interface {
	WriteStatus(*status.Status) error
}

// enter begins the call's handler. The error is that by which the call was ended already.
func (k *call) enter(ctx context.Context) error {
	k.conn.mu.Lock()
	defer k.conn.mu.Unlock()
	k.stream, _ = grpc.ServerTransportStreamFromContext(ctx).(statusWriter)
	return k.fault
}

// leave ends the call's handler.
func (k *call) leave() {
	k.conn.mu.Lock()
	held := k.abandon()
	k.conn.mu.Unlock()
	k.conn.of.o.Server.Release(held)
}

// abandon forgets the call, and returns how many bytes it held; conn.mu is held.
func (k *call) abandon() int64 {
	delete(k.conn.calls, k.id)
	held := k.held
	k.held = 0
	return held
}

// done gives back n bytes of a message that has been answered.
func (k *call) done(n int64) {
	k.conn.mu.Lock()
	n = min(n, k.held)
	k.held -= n
	k.conn.mu.Unlock()
	k.conn.of.o.Server.Release(n)
}

// end ends the call with an error.
func (k *call) end(err error) {
	k.conn.mu.Lock()
	first := k.fault == nil
	if first {
		k.fault, k.owes = err, false
	}
	stream := k.stream
	k.conn.mu.Unlock()
	if first && stream != nil {
		_ = stream.WriteStatus(statusOf(err)) // a client that is gone reads none
	}
}

// late reports whether the call's message should have come; conn.mu is held.
func (k *call) late(now time.Time) bool {
	if !k.owes {
		return false
	}
	if k.n == 0 {
		return now.After(due(k.opened, k.opened, 0))
	}
	return now.After(due(k.began, k.last, k.n))
}

// data counts what has come of a call's messages.
func (c *conn) data(stream uint32, b []byte) {
	c.mu.Lock()
	k := c.calls[stream]
	if k == nil || k.fault != nil {
		c.mu.Unlock()
		return
	}
	err := k.came(b)
	c.mu.Unlock()
	if err != nil {
		k.end(err)
	}
}

// came counts b and returns why the call may not go on; conn.mu is held.
func (k *call) came(b []byte) error {
	n := int64(len(b))
	if err := k.conn.of.o.Server.Hold(n); err != nil {
		return err
	}
	k.held += n
	k.last = time.Now()
	for len(b) > 0 {
		if k.n == 0 {
			k.began = k.last
		}
		n := min(k.left, int64(len(b)))
		if k.left == 0 {
			n = int64(copy(k.prefix[k.have:], b))
			if k.have += int(n); k.have == len(k.prefix) {
				k.left, k.have = int64(binary.BigEndian.Uint32(k.prefix[1:])), 0
			}
		} else {
			k.left -= n
		}
		b, k.n = b[n:], k.n+n
		if k.left > k.limit {
			return oip.Faultf(oip.TooLarge, "the message has %d bytes, and at most %d are taken",
				k.left, k.limit)
		}
		if k.left == 0 && k.have == 0 {
			k.whole, k.n = append(k.whole, k.n), 0
		}
	}
	k.owes = k.left > 0 || k.have > 0
	return nil
}

// took notes that the handler has the next message, with bytes that it took beside, and returns how
// many the message holds.
func (k *call) took(more int64) int64 {
	k.conn.mu.Lock()
	defer k.conn.mu.Unlock()
	k.held += more
	if len(k.whole) == 0 {
		return more
	}
	n := k.whole[0]
	k.whole = k.whole[1:]
	return n + more
}
