package seat

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// Weights is the memory that a broker grants a job for longer than an iteration. Quotas of one job
// and kind are equal.
func Weights(j *broker.Job) device.Quota { return granted{j, core.Persistent} }

// Arenas is the memory that a broker grants a job for iterations.
func Arenas(j *broker.Job) device.Quota { return granted{j, core.Ephemeral} }

// granted is the memory that a broker grants a job. It implements device.Quota.
type granted struct {
	job  *broker.Job
	kind core.MemoryKind
}

func (q granted) Reserve(n int64) error { return q.job.Reserve(q.kind, share.Bytes(n)) }

// Release returns memory. What was reserved can always be released, unless the job has ended, which
// released it.
func (q granted) Release(n int64) {
	if err := q.job.Free(q.kind, share.Bytes(n)); err != nil {
		panic(err)
	}
}

// Transfer implements [device.Meter].
func (q granted) Transfer(ctx context.Context, n int64) error {
	return q.job.Transfer(ctx, share.Bytes(n))
}

// Counted grants everything up to a cap and counts it: the quota of a job without a broker. It
// implements device.Quota.
type Counted struct {
	name string      // what errors begin with
	cap  share.Bytes // 0: none

	mu   sync.Mutex
	held share.Bytes
	peak share.Bytes
}

// NewCounted returns a quota that grants everything up to a cap (0: everything). Its errors are of
// kind core.ErrOverCap and begin with the name.
func NewCounted(name string, limit share.Bytes) *Counted {
	return &Counted{name: name, cap: limit}
}

// Reserve implements device.Quota.
func (q *Counted) Reserve(n int64) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	held := q.held + share.Bytes(n)
	if q.cap > 0 && held > q.cap {
		return fmt.Errorf("%s: wants %v, cap %v: %w: raise memory or lower the batch", q.name,
			held.About(), q.cap.About(), core.ErrOverCap)
	}
	q.held, q.peak = held, max(q.peak, held)
	return nil
}

// Release implements device.Quota.
func (q *Counted) Release(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= share.Bytes(n)
}

// SetCap changes the cap, 0 for none. A cap below what is held is an error of kind core.ErrOverCap
// and changes nothing.
func (q *Counted) SetCap(limit share.Bytes) error {
	q.mu.Lock()
	defer q.mu.Unlock()
	if limit > 0 && q.held > limit {
		return fmt.Errorf("%s: cap %v, but it holds %v: %w: close results, or leave a "+
			"higher cap", q.name, limit.About(), q.held.About(), core.ErrOverCap)
	}
	q.cap = limit
	return nil
}

// Held returns what is held.
func (q *Counted) Held() share.Bytes {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// Peak returns the most that was held at one time.
func (q *Counted) Peak() share.Bytes {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.peak
}

// Hosted is what a job may hold of the host's memory beside a device whose memory the host cannot
// address: up to its cap, of what the machine has. It implements device.Quota.
type Hosted struct {
	Counted
	machine device.Quota
}

// NewHosted returns the quota of a job with a cap (0: none) on a machine with such a device.
func NewHosted(job string, limit share.Bytes, machine device.Quota) *Hosted {
	return &Hosted{Counted: Counted{name: "job " + job + ": memory of the host", cap: limit},
		machine: machine}
}

// Reserve implements device.Quota.
func (q *Hosted) Reserve(n int64) error {
	if err := q.Counted.Reserve(n); err != nil {
		return err
	}
	if err := q.machine.Reserve(n); err != nil {
		q.Counted.Release(n)
		return fmt.Errorf("%s: %w", q.name, err)
	}
	return nil
}

// Release implements device.Quota.
func (q *Hosted) Release(n int64) {
	q.machine.Release(n)
	q.Counted.Release(n)
}
