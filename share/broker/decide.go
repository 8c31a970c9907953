package broker

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// stallDelay is how long the broker waits before it asks a policy again that left waiting jobs on
// an idle device, or that wants to be woken in the past.
const stallDelay = 10 * time.Millisecond

// decide asks the policy and does what it says, as far as that is sound.
func (b *Broker) decide(now time.Duration) {
	if b.closed {
		return
	}
	s := b.snapshot(now)
	b.decisions++
	d := b.policy.Decide(s)
	free := s.Free()
	for _, g := range d.Run {
		if err := s.CheckGrant(g, free); err != nil {
			b.blame(g.Job, err)
			continue
		}
		free -= g.Units
		s.Job(g.Job).Phase = share.Running
		b.grant(b.job(g.Job), g, now)
	}
	for _, id := range d.Revoke {
		if j := b.job(id); j == nil {
			b.blame(id, share.ErrUnknownJob)
		} else if j.state.Phase != share.Running {
			b.blame(id, ErrNotRunning)
		} else {
			b.revoke(j, now)
		}
	}
	b.plan(s, d.Wake, free)
}

// snapshot fills in the one snapshot that every decision uses.
func (b *Broker) snapshot(now time.Duration) *share.Snapshot {
	s := &b.snap
	s.Now, s.Units, s.Memory, s.Jobs = now, b.units, b.memory, s.Jobs[:0]
	for _, j := range b.jobs {
		s.Jobs = append(s.Jobs, j.state)
		s.Jobs[len(s.Jobs)-1].Used = j.used(now)
	}
	return s
}

// plan sets the timer for the policy's next call. A timer that goes off early does no harm, so a
// running one is only ever moved forward.
func (b *Broker) plan(s *share.Snapshot, wake time.Duration, free int) {
	if wake != 0 && wake <= s.Now {
		b.blame(0, ErrWake)
		wake = s.Now + stallDelay
	}
	if wake == 0 && free == s.Units && len(s.Jobs) > 0 && anyWaiting(s) {
		b.blame(0, ErrStalled)
		wake = s.Now + stallDelay
	}
	if wake == 0 || b.timerAt != 0 && b.timerAt <= wake {
		return
	}
	b.timerAt = wake
	if b.timer == nil {
		b.timer = time.AfterFunc(wake-s.Now, b.onTimer)
		return
	}
	b.timer.Reset(wake - s.Now)
}

func (b *Broker) onTimer() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.timerAt = 0
	b.decide(b.Now())
}

func anyWaiting(s *share.Snapshot) bool {
	for i := range s.Jobs {
		if s.Jobs[i].Phase == share.Waiting {
			return true
		}
	}
	return false
}

// blame counts a fault of the policy and keeps the first.
func (b *Broker) blame(id share.JobID, err error) {
	b.faults++
	if b.fault == nil {
		b.fault = fmt.Errorf("policy %s: job %d: %w", b.policy.Name(), id, err)
	}
}

func (b *Broker) job(id share.JobID) *Job {
	for _, j := range b.jobs {
		if j.state.ID == id {
			return j
		}
	}
	return nil
}

func (b *Broker) grant(j *Job, g share.Grant, now time.Duration) {
	s := &j.state
	j.enter(share.Running, now)
	s.Units, s.Granted, s.Until, s.Revoking = g.Units, now, g.Until, false
	j.heldFrom = now
	j.reason = ReasonReleased
	j.counts.Grants++
	j.lease.units.Store(int64(g.Units))
	j.lease.until.Store(int64(g.Until))
	b.observe(j, Event{Kind: Granted, At: now, From: now, Units: g.Units, Until: g.Until})
	j.unpark()
}

// revoke tells the holder to give the device back at its next check.
func (b *Broker) revoke(j *Job, now time.Duration) {
	if j.state.Revoking {
		return
	}
	j.state.Revoking = true
	j.counts.Revocations++
	j.lease.until.Store(0)
	b.observe(j, Event{Kind: Revoked, At: now, From: j.state.Granted, Units: j.state.Units})
}

// giveBack ends a hold. The caller says what the job does next.
func (b *Broker) giveBack(j *Job, now time.Duration, why Reason) {
	s := &j.state
	b.book(j, now)
	switch {
	case why == ReasonEnded:
	case s.Revoking:
		why = ReasonRevoked
	case now >= s.Until:
		why = ReasonExpired
		j.counts.Expirations++
	}
	j.lease.until.Store(0)
	b.observe(j, Event{Kind: Released, At: now, From: s.Granted, Units: s.Units, Reason: why})
	s.Units, s.Revoking = 0, false
	j.enter(share.Waiting, now)
}

// book charges the job for the part of its hold that is not yet booked.
func (b *Broker) book(j *Job, now time.Duration) {
	s := &j.state
	s.Used = j.used(now)
	b.meter.Hold(s.ID, j.heldFrom, now, float64(s.Units)/float64(b.units))
	j.heldFrom = now
}

// demand notes whether the job has work.
func (b *Broker) demand(j *Job, now time.Duration) {
	has := j.arrivals.n > 0 || j.state.InIteration || j.state.Phase != share.Idle
	j.state.HasWork = has
	switch {
	case has == j.busy:
	case has:
		j.busy, j.busyFrom = true, now
		b.observe(j, Event{Kind: Busy, At: now, From: now})
	default:
		j.busy = false
		b.meter.Busy(j.state.ID, j.busyFrom, now)
		b.observe(j, Event{Kind: Drained, At: now, From: j.busyFrom})
	}
}

// settle books what is in progress, so that the accounts are complete to now.
func (b *Broker) settle(now time.Duration) {
	for _, j := range b.jobs {
		if j.state.Phase == share.Running {
			b.book(j, now)
		}
		if j.busy {
			b.meter.Busy(j.state.ID, j.busyFrom, now)
			j.busyFrom = now
		}
	}
}

// Faults returns how many of the policy's instructions were unsound and not carried out, and the
// first of them as an error.
func (b *Broker) Faults() (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.faults, b.fault
}
