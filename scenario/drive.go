package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/internal/fault"
)

// driver sends one job's requests and runs its iterations, one after another, on one goroutine.
type driver struct {
	spec    *Job
	seat    seater
	iterate iterate
	memory  bending  // nil: all of it stays
	weights *resided // of memory; nil without
	// called after an iteration that had weights brought; with memory
	reloaded func()
	clock    func() time.Duration // since the phase began
	rng      *rand.Rand

	pending queue
	waiting atomic.Int64 // length of pending, for the live view
	due     queue        // arrivals to come, as far as they are known
	misses  bool         // the iteration had to have weights brought

	orders chan order    // what is to be done between two requests
	over   chan struct{} // closed when no order is taken any more

	mu        sync.Mutex // guards what follows, which the live view reads
	latencies []time.Duration
	missed    []time.Duration // those of latencies that found weights away
	finished  time.Duration   // when the last iteration was completed
	busy      time.Duration   // spent in iterations, completed or not
	partial   time.Duration   // of which in one that was not completed
}

// bending is memory that leaves the device between iterations: of a job's own (seat.Elastic), or
// that it shares (seat.Use).
type bending interface {
	// Resident waits until all of it is on the device, or on its way.
	Resident(ctx context.Context) error
	// Begin keeps it there until End, and reports whether all of it is there.
	Begin() bool
	End()
}

// queue holds the arrivals not yet served, oldest first.
type queue struct {
	at   []time.Duration
	head int
}

func (q *queue) len() int { return len(q.at) - q.head }

// push appends, and moves what is left to the front once as much has been taken: a long backlog
// costs no more per request than a short one.
func (q *queue) push(at time.Duration) {
	if q.head > 0 && q.head >= len(q.at)-q.head {
		q.at = q.at[:copy(q.at, q.at[q.head:])]
		q.head = 0
	}
	q.at = append(q.at, at)
}

func (q *queue) first() time.Duration { return q.at[q.head] }

func (q *queue) pop() time.Duration {
	q.head++
	return q.at[q.head-1]
}

func newDriver(spec *Job, s seater, it iterate, clock func() time.Duration, seed uint64) *driver {
	d := &driver{spec: spec, seat: s, iterate: it, clock: clock, orders: make(chan order),
		over: make(chan struct{}),
		rng:  rand.New(rand.NewPCG(seed, 0x61727276))}
	d.latencies = make([]time.Duration, 0, 4096)
	return d
}

// run serves requests until the iteration count is reached, the job's time is over or ctx is done,
// which is no error, and gives the device back.
func (d *driver) run(ctx context.Context) error {
	if stop := d.spec.Stop; stop > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, stop-d.clock())
		defer cancel()
	}
	err := d.guarded(ctx)
	close(d.over)
	d.seat.Release()
	if d.memory != nil {
		d.memory.End() // of an iteration that was not to be
	}
	if errors.Is(err, errTrained) || err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// guarded serves requests and turns a panic into an error: a fault never crosses a job's boundary.
func (d *driver) guarded(ctx context.Context) (err error) {
	defer recovered(d.spec.Name, &err)
	return d.serve(ctx)
}

// recovered turns a panic of the job into its error. It must be deferred itself.
func recovered(job string, err *error) {
	if r := recover(); r != nil {
		*err = fmt.Errorf("job %s: %w: %w", job, engine.ErrFault, fault.Error(r))
	}
}

func (d *driver) serve(ctx context.Context) error {
	d.schedule()
	var gate device.Gate
	for n := int64(0); d.spec.Iterations == 0 || n < d.spec.Iterations; {
		d.catchUp()
		var o order
		select {
		case o = <-d.orders:
		default:
		}
		if o.do == nil && d.pending.len() == 0 {
			d.seat.Release()
			gate = nil
			var err error
			if o, err = d.sleep(ctx); err != nil {
				return err
			}
			if o.do == nil {
				continue
			}
		}
		if o.do != nil {
			gate = nil
			if err := d.obey(ctx, o); err != nil {
				return err
			}
			continue
		}
		if err := d.turn(ctx, &gate); err != nil {
			return err
		}
		if err := d.one(ctx, gate); err != nil {
			return err
		}
		n++
	}
	return nil
}

// turn makes sure that the job holds the device: by asking for it, or, between two iterations, by
// offering it.
func (d *driver) turn(ctx context.Context, gate *device.Gate) (err error) {
	if d.weights != nil {
		before := d.weights.returns()
		defer func() { d.misses = d.weights.returns() > before }()
	}
	for {
		if *gate != nil {
			err = (*gate).Renew(ctx)
		} else if d.memory == nil {
			*gate, err = d.seat.Acquire(ctx)
		} else if err = d.memory.Resident(ctx); err == nil {
			*gate, err = d.seat.Acquire(ctx)
		}
		if err != nil || d.memory == nil || d.memory.Begin() {
			return err
		}
		// Others had its memory meanwhile: it does not hold the device while it waits for that.
		d.seat.Release()
		*gate = nil
	}
}

// one serves the oldest request.
func (d *driver) one(ctx context.Context, gate device.Gate) error {
	began := d.clock()
	d.seat.Begin()
	err := d.iterate(ctx, gate)
	now := d.clock()
	d.mu.Lock()
	d.busy += now - began
	if err != nil {
		d.partial = now - began
	}
	d.mu.Unlock()
	if err != nil {
		return err
	}
	d.seat.End()
	if d.memory != nil {
		d.memory.End()
	}
	if d.misses {
		d.reloaded()
	}
	arrived := d.pending.pop()
	d.waiting.Add(-1)
	switch a := &d.spec.Arrival; {
	case a.Clients() == 0:
	case a.Think > 0:
		d.due.push(now + a.Think)
	default:
		// Before Complete, so that a job whose client answers at once never looks as if it had run
		// out of work.
		d.arrive(now)
	}
	d.seat.Complete()
	d.mu.Lock()
	d.latencies = append(d.latencies, now-arrived)
	if d.misses {
		d.missed = append(d.missed, now-arrived)
	}
	d.finished = now
	d.mu.Unlock()
	return nil
}

func (d *driver) arrive(at time.Duration) {
	d.pending.push(at)
	d.waiting.Add(1)
	d.seat.Arrive()
}

// schedule enters the arrivals that are known from the outset.
func (d *driver) schedule() {
	a := &d.spec.Arrival
	for range a.Clients() {
		d.due.push(d.spec.Start)
	}
	for _, at := range a.Trace {
		d.due.push(d.spec.Start + at)
	}
	if a.Poisson > 0 {
		d.due.push(d.spec.Start + d.gap())
	}
}

// catchUp takes in the arrivals that are due. A request counts from when it was due, not from when
// this goroutine came to see it.
func (d *driver) catchUp() {
	if d.due.len() == 0 {
		return
	}
	for now := d.clock(); d.due.len() > 0 && d.due.first() <= now; {
		at := d.due.pop()
		d.arrive(at)
		if d.spec.Arrival.Poisson > 0 {
			d.due.push(at + d.gap())
		}
	}
}

// unanswered returns how long those requests have waited that had arrived at the end, whether this
// goroutine came to see them or not. Nothing may be driven any more.
func (d *driver) unanswered(end time.Duration) []time.Duration {
	var waited []time.Duration
	for d.pending.len() > 0 {
		waited = append(waited, end-d.pending.pop())
	}
	for d.due.len() > 0 && d.due.first() <= end {
		at := d.due.pop()
		waited = append(waited, end-at)
		if d.spec.Arrival.Poisson > 0 {
			d.due.push(at + d.gap())
		}
	}
	return waited
}

// gap draws the time to the next arrival of the Poisson process.
func (d *driver) gap() time.Duration {
	ns := d.rng.ExpFloat64() / d.spec.Arrival.Poisson * float64(time.Second)
	return time.Duration(min(ns, float64(longest))) // what is beyond an int64 has no value
}

// sleep waits for the next arrival, for an order, or for the end where neither is to come.
func (d *driver) sleep(ctx context.Context) (o order, err error) {
	var next <-chan time.Time
	if d.due.len() > 0 {
		t := time.NewTimer(d.due.first() - d.clock())
		defer t.Stop()
		next = t.C
	}
	select {
	case <-next:
	case o = <-d.orders:
	case <-ctx.Done():
		err = ctx.Err()
	}
	return o, err
}

// recentRequests is how many requests the live view's percentiles are over: enough for a p99, few
// enough to sort five times a second beside the jobs.
const recentRequests = 1000

// recent returns the number of iterations so far, the latencies of the last of them, and the time
// spent in iterations.
func (d *driver) recent() (n int64, last []time.Duration, busy time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = int64(len(d.latencies))
	return n, slices.Clone(d.latencies[max(0, n-recentRequests):]), d.busy
}
