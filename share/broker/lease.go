package broker

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/share"
)

// Lease is a job's right to use the device. A job has one, which Acquire returns each time; it is
// held from Acquire to Release, and means nothing outside of that.
type Lease struct {
	job   *Job
	epoch time.Time
	until atomic.Int64 // end on the broker's clock; 0: revoked or not held
	units atomic.Int64
}

// Revoked reports whether the device must be given back, because the lease is over or was revoked.
// Its holder asks between any two steps, and then calls Renew or Release. It takes no lock and may
// be called from any goroutine.
func (l *Lease) Revoked() bool {
	until := l.until.Load()
	return until != int64(share.Forever) && int64(time.Since(l.epoch)) >= until
}

// Units returns the number of compute units that the holder may use.
func (l *Lease) Units() int { return int(l.units.Load()) }

// Until returns when the lease is over, on the broker's clock: 0 if it was revoked or is not held,
// [share.Forever] if only a revocation ends it.
func (l *Lease) Until() time.Duration { return time.Duration(l.until.Load()) }

// Renew gives the device back and waits until the job is granted it again. A job that is alone, or
// still first, gets it back without blocking. On an error, which is [ErrNotHeld], [ErrEnded] or the
// context's, the lease is no longer held.
func (l *Lease) Renew(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		l.Release()
		return err
	}
	j := l.job
	j.b.mu.Lock()
	switch {
	case j.ended:
		defer j.b.mu.Unlock()
		return j.endedError()
	case j.state.Phase != share.Running:
		defer j.b.mu.Unlock()
		return fmt.Errorf("job %s: %w: acquire it", j.spec.Name, ErrNotHeld)
	}
	now := j.b.Now()
	j.b.giveBack(j, now, ReasonReleased)
	return j.await(ctx, now)
}

// Release gives the device back; the next job is granted it before Release returns. Releasing a
// lease that is not held does nothing.
func (l *Lease) Release() {
	j := l.job
	j.b.mu.Lock()
	defer j.b.mu.Unlock()
	if j.state.Phase != share.Running {
		return
	}
	now := j.b.Now()
	j.b.giveBack(j, now, ReasonReleased)
	j.enter(share.Idle, now)
	j.b.demand(j, now)
	j.b.decide(now)
}
