package scenario

import (
	"context"
	"fmt"
	"sync"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
)

// seat is how a job gets device time: from a broker, or, in the comparisons, from nobody.
type seat interface {
	// Acquire waits for the device and returns the gate of the hold.
	Acquire(ctx context.Context) (device.Gate, error)
	// Release gives the device back.
	Release()
	// Arrive and Complete bracket a request, Begin and End an iteration.
	Arrive()
	Complete()
	Begin()
	End()
	// Fail ends the job with a cause.
	Fail(err error)
}

// leased is a seat at a broker, and the gate of its lease. The goroutine that acquires is tied to
// the processors of the units that it holds. It implements device.Confined.
type leased struct {
	job    *broker.Job
	caller *cpu.Caller
	lease  *broker.Lease
}

func (s *leased) Acquire(ctx context.Context) (device.Gate, error) {
	l, err := s.job.Acquire(ctx)
	if err != nil {
		return nil, err
	}
	s.lease = l
	s.Units()
	return s, nil
}

func (s *leased) Release() {
	if s.lease != nil {
		s.caller.Release()
		s.lease.Release()
	}
}

// Revoked implements device.Gate.
func (s *leased) Revoked() bool { return s.lease.Revoked() }

// Renew implements device.Gate.
func (s *leased) Renew(ctx context.Context) error {
	s.caller.Pause()
	err := s.lease.Renew(ctx)
	if err == nil {
		s.Units()
	}
	return err
}

// Units implements device.Confined.
func (s *leased) Units() device.Units {
	units := device.Units(s.lease.Units().Words())
	s.caller.Hold(units)
	return units
}

// Splits implements device.Confined.
func (s *leased) Splits() bool { return s.lease.Yield() < share.Kernel }

func (s *leased) Arrive()        { s.job.Arrive() }
func (s *leased) Complete()      { s.job.Complete() }
func (s *leased) Begin()         { s.job.BeginIteration() }
func (s *leased) End()           { s.job.EndIteration() }
func (s *leased) Fail(err error) { s.job.End(err) }

// quota is the memory that a broker grants a job. It implements device.Quota.
type quota struct {
	job  *broker.Job
	kind core.MemoryKind
}

func (q quota) Reserve(n int64) error { return q.job.Reserve(q.kind, share.Bytes(n)) }

// Release returns quota. What was reserved can always be released, unless the job has ended, which
// released it.
func (q quota) Release(n int64) {
	if err := q.job.Free(q.kind, share.Bytes(n)); err != nil {
		panic(err)
	}
}

// NewQuota returns a quota that grants everything up to a cap (0: everything), for a model that
// runs without a broker. Its errors are of kind core.ErrOverCap and begin with the name.
func NewQuota(name string, limit share.Bytes) device.Quota {
	return &counted{name: name, cap: limit}
}

// counted grants everything up to a cap and counts it: the quota of a job without a broker. It
// implements device.Quota.
type counted struct {
	name string      // what errors begin with
	cap  share.Bytes // 0: none

	mu   sync.Mutex
	held share.Bytes
	peak share.Bytes
}

// Reserve implements device.Quota.
func (q *counted) Reserve(n int64) error {
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
func (q *counted) Release(n int64) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.held -= share.Bytes(n)
}

func (q *counted) now() share.Bytes {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.held
}

// hosted is what a job may hold of the host's memory beside a device whose memory the host cannot
// address: up to its cap, of what the machine has. It implements device.Quota.
type hosted struct {
	job     counted
	machine device.Quota
}

// Reserve implements device.Quota.
func (q *hosted) Reserve(n int64) error {
	if err := q.job.Reserve(n); err != nil {
		return err
	}
	if err := q.machine.Reserve(n); err != nil {
		q.job.Release(n)
		return fmt.Errorf("%s: %w", q.job.name, err)
	}
	return nil
}

// Release implements device.Quota.
func (q *hosted) Release(n int64) {
	q.machine.Release(n)
	q.job.Release(n)
}

// unmanaged is the seat of a job that the operating system alone schedules.
type unmanaged struct{}

func (unmanaged) Acquire(ctx context.Context) (device.Gate, error) { return device.Open, ctx.Err() }
func (unmanaged) Release()                                         {}
func (unmanaged) Arrive()                                          {}
func (unmanaged) Complete()                                        {}
func (unmanaged) Begin()                                           {}
func (unmanaged) End()                                             {}
func (unmanaged) Fail(error)                                       {}
