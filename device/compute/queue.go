package compute

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/device"
)

// Block is a stretch of the memory of a device.
type Block struct {
	At   uint64 // address on the device
	N    int64  // bytes
	Host []byte // the same bytes as the host sees them, nil where it cannot address them
}

// BlockOf is all of a buffer.
func BlockOf(b device.Buffer) Block {
	return Block{At: b.Address(), N: b.Len(), Host: device.HostView(b)}
}

// Part is the n bytes of b from off on, which must lie within it.
func (b Block) Part(off, n int64) Block {
	p := Block{At: b.At + uint64(off), N: n}
	if b.Host != nil {
		p.Host = b.Host[off : off+n : off+n]
	}
	return p
}

// MaxInFlight is the most pieces of work, tasks and copies together, that a [Queue] holds. Giving
// it one more blocks until one has ended. It bounds how much work must end before a lease that was
// asked back can be given back.
const MaxInFlight = 8

// CopyError tells which copy of a queue failed, since it may be told of long after the copy was
// given.
type CopyError struct {
	Device string // the device's ID, "" for a [Direct]
	At     Block  // where on the device
	Host   []byte // the host's bytes, as they were given
	Err    error
}

// Error names the device, the bytes and the address.
func (e *CopyError) Error() string {
	on := "queue"
	if e.Device != "" {
		on = "device " + e.Device
	}
	return fmt.Sprintf("%s: copy of %d bytes at %#x, %d on the host: %v", on, e.At.N, e.At.At,
		len(e.Host), e.Err)
}

// Unwrap returns why it failed.
func (e *CopyError) Unwrap() error { return e.Err }

// Queue runs tasks and copies on a device, each after those that were given before it. One
// goroutine at a time uses a queue; different queues run at the same time, in no order.
//
// The methods that give work may return before the work is done, or even before it has begun. A
// queue holds at most [MaxInFlight] pieces of work, and blocks whoever gives it more. Work that
// fails, panics or faults ends with an error. The call that gave the work returns it if it can,
// else the next Wait does; work given after the failed one is left out until that Wait. Work that
// has not begun when its context is done fails with the context's error.
type Queue interface {
	// Run gives a task to run with x. A nil x.Ctx means that no context bounds the task. The task's
	// memory, and x, must not be changed until Wait.
	Run(x *Exec, t Task) error
	// CopyIn gives a copy of src to the device, and CopyOut a copy from the device to dst. The
	// slice has at.N bytes. Until Wait, src must not be written, and dst must not be read. A copy
	// that fails has an error of type *[CopyError], of kind [device.ErrBounds] where the slice has
	// another length or the block is not the device's.
	CopyIn(at Block, src []byte) error
	CopyOut(dst []byte, at Block) error
	// Wait returns when no work of this queue is on the device any more, with the first error since
	// the last Wait. It takes no context: to abandon work, end the context that the work was given
	// with.
	Wait() error
	// Close drops the work that has not begun, waits for the rest and ends the queue. Giving work
	// to a closed queue fails with [device.ErrClosed]. Closing twice is allowed.
	Close()
}

// Queued is implemented by devices that compute while the host does something else. Whoever calls
// NewQueue closes the queue, before the memory that its work uses is freed. NewQueue fails when the
// device has no room for one more queue, or is closed ([device.ErrClosed]).
type Queued interface {
	NewQueue() (Queue, error)
}

// NewQueue returns a queue of the device: a [Direct] for one that is not [Queued]. The error is the
// device's.
func NewQueue(d device.Device) (Queue, error) {
	if q, ok := d.(Queued); ok {
		return q.NewQueue()
	}
	return &Direct{}, nil
}

// Direct is the queue of a device that computes on the calling goroutine and whose memory the host
// can address: a call that gives work returns when the work is done. A task that panics does so on
// that goroutine.
type Direct struct{ closed bool }

// Run implements [Queue].
func (q *Direct) Run(x *Exec, t Task) error {
	if err := q.open(); err != nil {
		return err
	}
	if x.Ctx == nil {
		x.Ctx = context.Background()
		defer func() { x.Ctx = nil }()
	}
	if err := x.Ctx.Err(); err != nil {
		return err
	}
	return t.Run(x)
}

// CopyIn implements [Queue].
func (q *Direct) CopyIn(at Block, src []byte) error { return q.copied(at.Host, src, src, at) }

// CopyOut implements [Queue].
func (q *Direct) CopyOut(dst []byte, at Block) error { return q.copied(dst, at.Host, dst, at) }

// open refuses work once the queue is closed.
func (q *Direct) open() error {
	if q.closed {
		return fmt.Errorf("queue: %w", device.ErrClosed)
	}
	return nil
}

func (q *Direct) copied(dst, src, host []byte, at Block) error {
	if err := q.open(); err != nil {
		return err
	}
	if int64(len(dst)) != at.N || int64(len(src)) != at.N {
		return &CopyError{At: at, Host: host, Err: device.ErrBounds}
	}
	copy(dst, src)
	return nil
}

// Wait implements [Queue].
func (q *Direct) Wait() error { return nil }

// Close implements [Queue].
func (q *Direct) Close() { q.closed = true }
