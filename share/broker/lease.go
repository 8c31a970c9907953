package broker

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// Lease is a job's right to use the device. A job has one, which Acquire returns each time; it is
// held from Acquire to Release, and means nothing outside of that.
type Lease struct {
	job   *Job
	epoch time.Time
	until atomic.Int64 // end on the broker's clock; 0: revoked or not held
	units atomic.Pointer[share.UnitSet]
	yield atomic.Uint32 // share.Boundary
}

// set takes what a notice grants.
func (l *Lease) set(n *core.Notice) {
	if u := l.units.Load(); u == nil || *u != n.Units {
		units := n.Units
		l.units.Store(&units)
	}
	l.yield.Store(uint32(n.Yield))
	l.until.Store(int64(n.Until))
}

// Revoked reports whether the device must be given back, because the lease is over or was revoked.
// Its holder asks between any two steps, and then calls Renew or Release. It takes no lock and may
// be called from any goroutine.
func (l *Lease) Revoked() bool {
	until := l.until.Load()
	return until != int64(share.Forever) && int64(time.Since(l.epoch)) >= until
}

// Units returns the compute units that the holder may use. They can become more while the lease is
// held. It takes no lock and may be called from any goroutine.
func (l *Lease) Units() share.UnitSet {
	if u := l.units.Load(); u != nil {
		return *u
	}
	return share.UnitSet{}
}

// Yield returns where the holder is to give way. At [share.Iteration] Revoked says nothing before
// the iteration has ended. It takes no lock and may be called from any goroutine.
func (l *Lease) Yield() share.Boundary { return share.Boundary(l.yield.Load()) }

// Until returns when the lease is over, on the broker's clock: 0 if it was revoked or is not held,
// [share.Forever] if only a revocation ends it.
func (l *Lease) Until() time.Duration { return time.Duration(l.until.Load()) }

// Renew gives the device back and waits until the job is granted it again. A job that is alone, or
// still first, gets it back without blocking. On an error, which is [core.ErrNotHeld],
// [core.ErrEnded] or the context's, the lease is no longer held.
func (l *Lease) Renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		l.Release()
		return err
	}
	j := l.job
	j.b.mu.Lock()
	if err := j.step(core.Event{Kind: core.Return}); err != nil {
		j.b.mu.Unlock()
		return err
	}
	return j.await(ctx)
}

// TryRenew lets the holder of a lease that is over go on without a break, if nobody else waits: it
// gives the device back and is granted it again in the same moment. It reports whether it was. If
// others wait it changes nothing: the holder gives way and then calls Renew or Release. If the
// policy keeps the device from the job for another reason, the lease is no longer held.
func (l *Lease) TryRenew() bool {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.b.core.Waiting() || j.step(core.Event{Kind: core.Return}) != nil {
		return false
	}
	if j.waits() {
		_ = j.step(core.Event{Kind: core.Cancel}) // it waits
		return false
	}
	return !j.ended
}

// Rest says that the holder has nothing to do, but may have soon. It keeps the units for nothing as
// long as nobody else is to have them; from then on it is Revoked, pays, and is to Release. Resume
// or Acquire goes on. The error is [core.ErrNotHeld] or [core.ErrEnded].
func (l *Lease) Rest() error {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	return j.step(core.Event{Kind: core.Rest})
}

// Resume lets a resting holder go on, and reports whether it may: not if others are to have what it
// kept, and it is to Release.
func (l *Lease) Resume() bool {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if p, ok := j.b.core.Phase(j.id); !ok || p != share.Idle || !j.b.core.Holds(j.id) {
		return false
	}
	if j.step(core.Event{Kind: core.Want}) != nil {
		return false
	}
	if j.waits() {
		_ = j.step(core.Event{Kind: core.Cancel}) // it waits
		return false
	}
	return true
}

// Charge makes the holder pay for what it was found to use while it rested: so much device time, at
// most what it kept for nothing since it last did so. One that holds nothing any more pays for what
// it has going on all the same, at most the time since it gave back or was last charged.
func (l *Lease) Charge(used time.Duration) {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	_ = j.step(core.Event{Kind: core.Pay, Used: used}) // refused only after the end
}

// again gives the device back and reports whether it was granted again in the same moment. If not,
// the job waits.
func (l *Lease) again() bool {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	return j.step(core.Event{Kind: core.Return}) == nil && !j.waits() && !j.ended
}

// held reports whether the job holds units.
func (l *Lease) held() bool {
	l.job.b.mu.Lock()
	defer l.job.b.mu.Unlock()
	return !l.job.ended && l.job.b.core.Holds(l.job.id)
}

// Release gives the device back; the next job is granted it before Release returns. Releasing a
// lease that is not held does nothing.
func (l *Lease) Release() {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if !j.ended && j.b.core.Holds(j.id) {
		_ = j.step(core.Event{Kind: core.Release}) // it holds
	}
}
