package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// Job is an admitted job. It must not be copied.
type Job struct {
	b     *Broker
	id    share.JobID
	name  string
	lease Lease
	wake  chan struct{} // one token when a parked waiter is granted or ended
	// opportunistic is that of its class, for who may not wait for the broker's lock.
	opportunistic atomic.Bool

	// All below is guarded by the broker's lock.
	traffic traffic
	gang    *Gang         // that the job is in; nil for none
	give    func()        // see OnEvicted
	parked  bool          // a goroutine waits on wake
	room    chan struct{} // closed when the reservation that waits is counted, or the job ended
	ended   bool
	cause   error
	last    core.JobStatus // after the end
	account core.Account   // after the end
	spec    share.Job      // after the end
}

// ID returns the job's number on its device.
func (j *Job) ID() share.JobID { return j.id }

// Name returns the name under which the job was admitted.
func (j *Job) Name() string { return j.name }

// Lease returns the job's one lease, whether it is held or not.
func (j *Job) Lease() *Lease { return &j.lease }

// Spec returns the specification that the job has now, with the memory cap filled in.
func (j *Job) Spec() share.Job {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return j.spec
	}
	spec, _ := j.b.core.Spec(j.id)
	return spec
}

// UnitLimit returns the most units that the policy grants the job at once for as long as its share
// and the policy stay the same; see [share.Limiter]. All once it has ended.
func (j *Job) UnitLimit() int {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if n, ok := j.b.core.UnitLimit(j.id); ok && !j.ended {
		return n
	}
	return j.b.core.Units()
}

// heed does what a notice about the job says, with the lock held, and reports whether the wait for
// its lease is over.
func (j *Job) heed(n *core.Notice) (over bool) {
	switch n.Kind {
	case core.Granted, core.Resized:
		if j.b.closed {
			return false // what jobs that are closed first give back; this one's own end follows
		}
		j.lease.set(n)
		return true
	case core.Revoked, core.Released:
		j.lease.until.Store(0)
		if g := j.gang; g != nil && n.Kind == core.Revoked {
			g.kick()
		}
	case core.Reserved:
		j.admitRoom()
	case core.Bounded:
		j.traffic.bound(n.Terms.Copy)
	case core.Evicted:
		if j.give != nil {
			go j.give()
		}
	case core.Ended:
		j.ended, j.cause, j.account = true, n.Err, *n.Account
		j.traffic.bound(0)
		j.lease.until.Store(0)
		j.admitRoom()
		return true
	}
	return false
}

// step tells the core of an event of the job, with the lock held.
func (j *Job) step(e core.Event) error {
	if j.ended {
		return j.endedError()
	}
	e.Job = j.id
	return j.b.step(e)
}

// tell is step for events that mean nothing after the job's end.
func (j *Job) tell(kind core.EventKind) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: kind}) // refused only after the end
}

// Acquire waits until the job is granted the device and returns its lease, which is the same object
// every time. It returns [core.ErrHeld] if the job holds its lease or waits for it already,
// [core.ErrEnded] if the job ends, or the context's error; then the job neither holds nor waits. A
// lease that rests goes on at once.
func (j *Job) Acquire(ctx context.Context) (*Lease, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	j.b.mu.Lock()
	if err := j.step(core.Event{Kind: core.Want}); err != nil {
		j.b.mu.Unlock()
		return nil, err
	}
	if err := j.await(ctx); err != nil {
		return nil, err
	}
	return &j.lease, nil
}

// acquireOrAwait is Acquire, of a job that waits already or not.
func (j *Job) acquireOrAwait(ctx context.Context, waits bool) error {
	if !waits {
		_, err := j.Acquire(ctx)
		return err
	}
	j.b.mu.Lock()
	return j.await(ctx)
}

// await returns once the job, which wants the device, is granted it. It is called with the lock
// held and releases it.
func (j *Job) await(ctx context.Context) error {
	b := j.b
	j.parked = j.waits()
	parked, ended := j.parked, j.ended
	b.mu.Unlock()
	if ended {
		return j.endedError()
	}
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

func (j *Job) waits() bool {
	s, ok := j.b.core.Phase(j.id)
	return ok && s == share.Waiting
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
	kind := core.Cancel
	if !j.waits() {
		kind = core.Release
	}
	_ = j.step(core.Event{Kind: kind}) // it waits or holds
	return err
}

// unpark wakes the goroutine that waits for the job's lease, if there is one.
func (j *Job) unpark() {
	if j.parked {
		j.parked = false
		j.wake <- struct{}{}
	}
}

func (j *Job) endedError() error {
	if j.cause != nil {
		return fmt.Errorf("job %s: %w: %w", j.name, core.ErrEnded, j.cause)
	}
	return fmt.Errorf("job %s: %w", j.name, core.ErrEnded)
}

// End releases everything the job holds, at once: its lease, its memory, its promises. Waiters get
// [core.ErrEnded], which wraps cause if that is not nil. Ending a job again does nothing.
func (j *Job) End(cause error) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if !j.ended {
		j.end(cause)
	}
}

// end is End, with the lock held, of a job that has not ended.
func (j *Job) end(cause error) {
	j.b.look()
	j.last, _ = j.b.core.Job(j.id)
	j.last.Phase, j.last.Units, j.last.HasWork = share.Idle, share.UnitSet{}, false
	j.last.Memory.Persistent, j.last.Memory.Ephemeral, j.last.Requests = 0, 0, 0
	j.spec, _ = j.b.core.Spec(j.id)
	_ = j.step(core.Event{Kind: core.End, Cause: cause}) // it is there
}

// Arrive reports that a request has arrived: the job has work until as many Complete calls have
// been made. It does not ask for the device; Acquire does.
func (j *Job) Arrive() { j.tell(core.Arrive) }

// Complete reports that the oldest request is completed. Without one it does nothing.
func (j *Job) Complete() { j.tell(core.Complete) }

// BeginIteration reports that an iteration begins. Several may be in progress at once.
func (j *Job) BeginIteration() { j.tell(core.Begin) }

// EndIteration reports that the iteration begun first is completed. Its device time joins the
// estimate of the next one's. Without an iteration begun it does nothing.
func (j *Job) EndIteration() { j.tell(core.Finish) }

// Expect says what the job's iterations are expected to take. What it says of time is corrected by
// what they do take.
func (j *Job) Expect(next share.Forecast) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: core.Expect, Next: &next}) // refused only after the end
}

// Measure says what the device was found to have done for the job since the last call: for how long
// it worked for it, for how long beside that for launches that passed without a lease, and in how
// many launches. It changes nothing of what the job is charged; see [core.Measure].
func (j *Job) Measure(used, passed time.Duration, launches int64) {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: core.Measure, Used: used, Passed: passed, Launches: launches})
}

// SetShare gives the job another share while it runs; a memory cap of zero leaves the one it has.
// It refuses what is invalid, what the device cannot promise beside the others, and a cap below
// what the job holds, waits for, or needs by its plan.
func (j *Job) SetShare(s share.Share) error { return j.SetShareForPlan(s, 0) }

// SetShareForPlan is SetShare for a job whose plan is another from here on, which needs so much
// memory; 0 for the plan that it has.
func (j *Job) SetShareForPlan(s share.Share, need share.Bytes) error {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	err := j.step(core.Event{Kind: core.Change, Need: need,
		Spec: &share.Job{Name: j.name, Share: s}})
	if err == nil {
		j.opportunistic.Store(s.Class == share.Opportunistic)
	}
	return err
}

// Opportunistic reports whether the job is of that class. It takes no lock and may be called from
// any goroutine.
func (j *Job) Opportunistic() bool { return j.opportunistic.Load() }

// Status returns the state of the job now; after its end, its last one.
func (j *Job) Status() core.JobStatus {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return j.last
	}
	j.b.look()
	s, _ := j.b.core.Job(j.id)
	return s
}

// Account returns what the job got of the device up to now, or to its end, against its entitlement.
func (j *Job) Account() core.Account {
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.ended {
		return j.account
	}
	j.b.look()
	a, _ := j.b.core.Account(j.id)
	return a
}
