package scenario

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/engine"
)

// driver sends one job's requests and runs its iterations, one after another, on one goroutine.
type driver struct {
	spec    *Job
	seat    seat
	iterate iterate
	clock   func() time.Duration // since the phase began
	rng     *rand.Rand

	pending []time.Duration // arrivals not yet served, oldest first
	next    time.Duration   // next open arrival

	mu        sync.Mutex // guards what follows, which the live view reads
	latencies []time.Duration
	finished  time.Duration // when the last iteration was completed
}

func newDriver(spec *Job, s seat, it iterate, clock func() time.Duration, seed uint64) *driver {
	d := &driver{spec: spec, seat: s, iterate: it, clock: clock, rng: rand.New(rand.NewPCG(seed, 0x61727276))}
	d.latencies = make([]time.Duration, 0, 4096)
	return d
}

// run serves requests until the iteration count is reached or ctx is done, which is no error. Any other error ends the job.
func (d *driver) run(ctx context.Context) error {
	err := d.guarded(ctx)
	d.seat.Release()
	if err != nil && ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil
	}
	if err != nil {
		d.seat.Fail(err)
	}
	return err
}

// guarded serves requests and turns a panic into an error: a fault never crosses a job's boundary.
func (d *driver) guarded(ctx context.Context) (err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("job %s: %w: %v\n%s", d.spec.Name, engine.ErrFault, r, debug.Stack())
		}
	}()
	return d.serve(ctx)
}

func (d *driver) serve(ctx context.Context) error {
	for range d.spec.Arrival.Clients() {
		d.arrive(0)
	}
	d.next = d.gap()
	var gate device.Gate
	for n := int64(0); d.spec.Iterations == 0 || n < d.spec.Iterations; {
		d.catchUp()
		if len(d.pending) == 0 {
			d.seat.Release()
			gate = nil
			if err := d.sleepUntil(ctx, d.next); err != nil {
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

// turn makes sure that the job holds the device: by asking for it, or, between two iterations, by offering it.
func (d *driver) turn(ctx context.Context, gate *device.Gate) (err error) {
	if *gate != nil {
		return (*gate).Renew(ctx)
	}
	*gate, err = d.seat.Acquire(ctx)
	return err
}

// one serves the oldest request.
func (d *driver) one(ctx context.Context, gate device.Gate) error {
	d.seat.Begin()
	if err := d.iterate(ctx, gate); err != nil {
		return err
	}
	d.seat.End()
	now := d.clock()
	arrived := d.pending[0]
	d.pending = d.pending[:copy(d.pending, d.pending[1:])]
	d.seat.Complete()
	d.mu.Lock()
	d.latencies = append(d.latencies, now-arrived)
	d.finished = now
	d.mu.Unlock()
	if d.spec.Arrival.Clients() > 0 {
		d.arrive(now)
	}
	return nil
}

func (d *driver) arrive(at time.Duration) {
	d.pending = append(d.pending, at)
	d.seat.Arrive()
}

// catchUp takes in the open arrivals that are due. A request counts from when it was due, not from when this goroutine
// came to see it.
func (d *driver) catchUp() {
	if d.spec.Arrival.Poisson <= 0 {
		return
	}
	for now := d.clock(); d.next <= now; d.next += d.gap() {
		d.arrive(d.next)
	}
}

// gap draws the time to the next arrival.
func (d *driver) gap() time.Duration {
	if d.spec.Arrival.Poisson <= 0 {
		return 0
	}
	return time.Duration(d.rng.ExpFloat64() / d.spec.Arrival.Poisson * float64(time.Second))
}

func (d *driver) sleepUntil(ctx context.Context, at time.Duration) error {
	t := time.NewTimer(at - d.clock())
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// snapshot returns a copy of the latencies so far, unsorted, and when the last iteration was completed.
func (d *driver) snapshot() ([]time.Duration, time.Duration) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return append([]time.Duration(nil), d.latencies...), d.finished
}
