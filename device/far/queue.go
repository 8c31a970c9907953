package far

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"sync/atomic"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
)

// depth bounds the work that waits in a queue, besides what is under way: enough that the device
// does not wait for the host.
const depth = min(4, compute.MaxInFlight-1)

// NewQueue implements [compute.Queued].
func (d *Device) NewQueue() (compute.Queue, error) {
	if err := d.ledger.Reserve(0); err != nil {
		return nil, fmt.Errorf("a queue: %w", err)
	}
	q := &queue{device: d, todo: make(chan func() error, depth)}
	go q.serve()
	return q, nil
}

// queue implements [compute.Queue] by a goroutine.
type queue struct {
	device  *Device
	todo    chan func() error
	pending sync.WaitGroup // what is in todo or under way
	closed  bool           // belongs to who gives work
	ending  atomic.Bool    // what has not begun is left out

	mu  sync.Mutex
	err error // the first since the last Wait
}

// give queues work.
func (q *queue) give(work func() error) error {
	if q.closed {
		return fmt.Errorf("device %s: queue: %w", q.device.info.ID, device.ErrClosed)
	}
	q.pending.Add(1)
	q.todo <- work
	return nil
}

// serve does the work of the queue until the queue is closed. When a kernel ends the goroutine that
// it runs on, serve goes on in a new one.
func (q *queue) serve() {
	done := false
	defer func() {
		if !done {
			go q.serve()
		}
	}()
	for work := range q.todo {
		q.do(work)
	}
	done = true
}

// do does one piece of work, whatever becomes of it.
func (q *queue) do(work func() error) {
	defer q.pending.Done()
	if q.ending.Load() || q.failed() {
		return
	}
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	var err error
	returned := false
	defer func() {
		if r := recover(); r != nil || !returned {
			err = compute.TaskPanic(r)
		}
		if err != nil {
			q.mu.Lock()
			q.err = err
			q.mu.Unlock()
		}
	}()
	err = work()
	returned = true
}

func (q *queue) failed() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.err != nil
}

// Run implements [compute.Queue]. The task is lent a context and nothing else.
func (q *queue) Run(x *compute.Exec, t compute.Task) error {
	ctx := x.Ctx
	if ctx == nil {
		ctx = context.Background()
	}
	return q.give(func() error {
		if err := ctx.Err(); err != nil {
			return err
		}
		return t.Run(&compute.Exec{Ctx: ctx, Gate: device.Open})
	})
}

// CopyIn implements [compute.Queue].
func (q *queue) CopyIn(at compute.Block, src []byte) error {
	return q.give(func() error {
		return q.copied(at, src, func(mem []byte) { q.device.bus.copy(mem, src) })
	})
}

// CopyOut implements [compute.Queue].
func (q *queue) CopyOut(dst []byte, at compute.Block) error {
	return q.give(func() error { return q.copied(at, dst, func(mem []byte) { copy(dst, mem) }) })
}

// copied moves the bytes of a block from or to as many of the host's.
func (q *queue) copied(at compute.Block, host []byte, move func(mem []byte)) error {
	mem, err := q.device.memory(at.At, at.N)
	if err != nil || int64(len(host)) != at.N {
		return &compute.CopyError{Device: q.device.info.ID, At: at, Host: host,
			Err: device.ErrBounds}
	}
	move(mem)
	return nil
}

// Wait implements [compute.Queue].
func (q *queue) Wait() error {
	q.pending.Wait()
	q.mu.Lock()
	defer q.mu.Unlock()
	err := q.err
	q.err = nil
	return err
}

// Close implements [compute.Queue].
func (q *queue) Close() {
	if q.closed {
		return
	}
	q.closed = true
	q.ending.Store(true)
	q.pending.Wait()
	close(q.todo)
}
