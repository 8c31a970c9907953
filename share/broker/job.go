package broker

import (
	"context"
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// Job is an admitted job. It must not be copied.
type Job struct {
	b     *Broker
	spec  share.Job
	lease Lease
	wake  chan struct{} // one token when a parked waiter is granted or ended

	// All below is guarded by the broker's lock.
	state    share.JobState
	parked   bool // a goroutine waits on wake
	ended    bool
	cause    error
	reason   Reason
	arrivals ring
	busy     bool
	busyFrom time.Duration
	heldFrom time.Duration // start of the part of the hold not yet booked
	began    time.Duration // when the present iteration began
	usedThen time.Duration // Used when the present iteration began
	peak     share.Bytes
	counts   Counts
}

// Counts are what happened to a job since its admission.
type Counts struct {
	Grants      int64 // leases granted
	Revocations int64 // leases revoked before their time
	Expirations int64 // leases given back because their time was over
}

// ID returns the job's number on its device.
func (j *Job) ID() share.JobID { return j.state.ID }

// Name returns the name under which the job was admitted.
func (j *Job) Name() string { return j.spec.Name }

// Spec returns the specification under which the job was admitted, with the memory cap filled in.
func (j *Job) Spec() share.Job { return j.spec }

// Acquire waits until the job is granted the device and returns its lease, which is the same object
// every time. It returns [ErrHeld] if the job holds its lease or waits for it already, [ErrEnded]
// if the job ends, or the context's error; then the job neither holds nor waits.
func (j *Job) Acquire(ctx context.Context) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.b.mu.Lock()
	switch {
	case j.ended:
		defer j.b.mu.Unlock()
		return nil, j.endedError()
	case j.state.Phase != share.Idle:
		defer j.b.mu.Unlock()
		return nil, fmt.Errorf("job %s: %w: one lease per job", j.spec.Name, ErrHeld)
	}
	now := j.b.Now()
	if j.arrivals.n == 0 && !j.state.InIteration {
		j.state.Ready = now
	}
	if err := j.await(ctx, now); err != nil {
		return nil, err
	}
	return &j.lease, nil
}

// await makes the job wait and returns once it is granted the device. It is called with the lock
// held and releases it.
func (j *Job) await(ctx context.Context, now time.Duration) error {
	b := j.b
	j.enter(share.Waiting, now)
	b.demand(j, now)
	b.decide(now)
	j.parked = j.state.Phase == share.Waiting
	parked := j.parked
	b.mu.Unlock()
	if !parked {
		return nil
	}
	select {
	case <-j.wake:
	case <-ctx.Done():
		return j.giveUp(ctx.Err())
	}
	// The job can have been granted, then ended, before this goroutine ran.
	if j.lease.until.Load() != 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if j.ended {
		return j.endedError()
	}
	return nil
}

// giveUp ends a wait whose context is done.
func (j *Job) giveUp(err error) error {
	b := j.b
	b.mu.Lock()
	defer b.mu.Unlock()
	if !j.parked {
		<-j.wake
	}
	j.parked = false
	if j.ended {
		return j.endedError()
	}
	now := b.Now()
	if j.state.Phase == share.Running {
		b.giveBack(j, now, ReasonReleased)
	}
	j.enter(share.Idle, now)
	b.demand(j, now)
	b.decide(now)
	return err
}

// unpark wakes the goroutine that waits for the job's lease, if there is one.
func (j *Job) unpark() {
	if j.parked {
		j.parked = false
		j.wake <- struct{}{}
	}
}

func (j *Job) enter(p share.Phase, now time.Duration) {
	if j.state.Phase != p {
		j.state.Phase, j.state.Since = p, now
	}
}

func (j *Job) endedError() error {
	if j.cause != nil {
		return fmt.Errorf("job %s: %w: %w", j.spec.Name, ErrEnded, j.cause)
	}
	return fmt.Errorf("job %s: %w", j.spec.Name, ErrEnded)
}

// End releases everything the job holds, at once: its lease, its memory, its promises. Waiters get
// [ErrEnded], which wraps cause if that is not nil. Ending a job again does nothing.
func (j *Job) End(cause error) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return
	}
	now := j.b.Now()
	j.b.end(j, now, cause)
	j.b.decide(now)
}

// Arrive reports that a request has arrived: the job has work until as many Complete calls have
// been made. It does not ask for the device; Acquire does.
func (j *Job) Arrive() {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return
	}
	now := j.b.Now()
	if j.arrivals.push(now); j.arrivals.n == 1 {
		j.state.Ready = now
	}
	j.b.demand(j, now)
}

// Complete reports that the oldest request is completed. Without one it does nothing.
func (j *Job) Complete() {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended || j.arrivals.n == 0 {
		return
	}
	now := j.b.Now()
	j.arrivals.pop()
	j.nextReady(now)
	j.b.demand(j, now)
}

// nextReady sets Ready for the work that follows what has just been finished.
func (j *Job) nextReady(now time.Duration) {
	j.state.Ready = now
	if j.arrivals.n > 0 {
		j.state.Ready = j.arrivals.first()
	}
}

// BeginIteration reports that an iteration begins.
func (j *Job) BeginIteration() {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return
	}
	now := j.b.Now()
	j.state.InIteration = true
	j.began, j.usedThen = now, j.used(now)
	j.b.demand(j, now)
}

// EndIteration reports that the iteration begun is completed. Its device time joins the estimate of
// the next one's. Without an iteration begun it does nothing.
func (j *Job) EndIteration() {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended || !j.state.InIteration {
		return
	}
	now := j.b.Now()
	s := &j.state
	took := j.used(now) - j.usedThen
	if s.Iterations == 0 {
		s.IterationTime = took
	}
	// Smoothing by an eighth is that of round-trip times in RFC 6298.
	s.IterationTime += (took - s.IterationTime) / 8
	s.Iterations++
	if s.Remaining > 0 {
		s.Remaining--
	}
	s.InIteration = false
	if j.arrivals.n == 0 {
		s.Ready = now
	}
	j.b.observe(j, Event{Kind: Iterated, At: now, From: j.began})
	j.b.demand(j, now)
}

// used is the device time that the job has held until now.
func (j *Job) used(now time.Duration) time.Duration {
	s := &j.state
	if s.Phase != share.Running {
		return s.Used
	}
	return s.Used + (now-j.heldFrom)*time.Duration(s.Units)/time.Duration(j.b.units)
}

// ring holds the arrival times of requests not yet completed.
type ring struct {
	at   []time.Duration
	head int
	n    int
}

func (r *ring) push(t time.Duration) {
	if r.n == len(r.at) {
		grown := make([]time.Duration, max(8, 2*r.n))
		for i := range r.n {
			grown[i] = r.at[(r.head+i)%len(r.at)]
		}
		r.at, r.head = grown, 0
	}
	r.at[(r.head+r.n)%len(r.at)] = t
	r.n++
}

func (r *ring) pop() {
	r.head = (r.head + 1) % len(r.at)
	r.n--
}

func (r *ring) first() time.Duration { return r.at[r.head] }
