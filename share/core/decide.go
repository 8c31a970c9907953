package core

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/share"
)

// stallDelay is when a policy is asked again that left waiting jobs on an idle device, or that
// wants to be woken in the past.
const stallDelay = 10 * time.Millisecond

// decide asks the policy and carries out what is sound of what it wants.
func (c *Core) decide() {
	s := c.look()
	var d share.Decision
	c.hide()
	c.decisions++
	for !c.guard(func() { d = c.policy.Decide(s) }) {
		c.decisions++
	}
	c.unhide()
	// What is given back is free for what is granted by the same decision only if it was idle.
	for i := range d.Set {
		if d.Set[i].Units.Empty() {
			c.set(&d.Set[i])
		}
	}
	for i := range d.Set {
		if !d.Set[i].Units.Empty() {
			c.set(&d.Set[i])
		}
	}
	c.plan(d.Wake)
}

// look brings what the policy sees up to now.
func (c *Core) look() *share.Snapshot {
	c.snap.Now = c.now
	return &c.snap
}

// set compares the terms of one job with what is, and makes it so.
func (c *Core) set(t *share.Terms) {
	j := c.job(t.Job)
	if j == nil {
		c.blame(t.Job, ErrUnknownJob)
		return
	}
	c.bound(j, t)
	s := c.state(j)
	switch {
	case t.Units.Empty():
		c.revoke(j)
	case !c.all.Contains(t.Units):
		c.blame(t.Job, ErrUnits)
	case t.Until <= c.now:
		c.blame(t.Job, ErrUntil)
	case s.Phase == share.Waiting:
		if first := c.inWay(j); first != nil {
			c.queue(j, first, t)
			return
		}
		c.grant(j, t)
	case s.Phase == share.Running && j.stands == c.decisions:
	case s.Phase == share.Running:
		c.resize(j, t)
	default:
		c.blame(t.Job, ErrNotWaiting)
	}
}

// bound tells of terms beside units that differ from those before.
func (c *Core) bound(j *job, t *share.Terms) {
	was := &j.terms
	if t.Resident != was.Resident && t.Resident != share.Keep {
		m := &c.state(j).Memory
		most := max(0, t.Resident, j.spec.Keep)
		if c.can.Spill && m.Resident() > most {
			c.tellMost(j, max(0, most-m.Resident()+m.Own()))
		}
	}
	changed := t.InFlight != was.InFlight || t.Free != was.Free || t.Copy != was.Copy ||
		t.Bandwidth != was.Bandwidth
	j.terms = *t
	if changed {
		terms := *t
		c.notify(j, Notice{Kind: Bounded, Terms: &terms})
	}
}

// grant gives a waiting job units that are free, or that others hold with whom it may overlap. Of
// those who rest on the units that it is to have, it asks them back.
func (c *Core) grant(j *job, t *share.Terms) {
	if !c.clear(j, t.Units) {
		return
	}
	s := c.state(j)
	c.enter(s, share.Running)
	s.Units, s.Granted, s.Until, s.Revoking = t.Units, c.now, t.Until, false
	j.yield, j.untold, j.queued = t.Yield, 0, 0
	j.counts.Grants++
	if j.took > 0 {
		c.used(j)
	}
	c.took(j)
	c.notify(j, Notice{Kind: Granted, Units: t.Units, Until: published(t), Yield: t.Yield})
}

// clear reports whether a job may take units beside those who hold some of them. If not, what
// rests on them is asked back, or the policy blamed where somebody runs on them and keeps them.
func (c *Core) clear(j *job, units share.UnitSet) bool {
	if c.needs.Overlap {
		return true
	}
	blocked := false
	for _, h := range c.holders {
		s := c.state(h)
		switch {
		case h == j || !s.Units.Overlaps(units):
		case s.Phase == share.Idle, s.Revoking:
			blocked = true
		default:
			c.blame(j.id, ErrUnits)
			return false
		}
	}
	if !blocked {
		return true
	}
	for _, h := range c.holders {
		if s := c.state(h); h != j && s.Phase == share.Idle && s.Units.Overlaps(units) {
			c.revoke(h)
		}
	}
	return false
}

// published is the end of a hold that its holder is told of. One that gives way at the end of an
// iteration asks there by itself.
func published(t *share.Terms) time.Duration {
	if t.Yield >= share.Iteration {
		return share.Forever
	}
	return t.Until
}

// resize lets a running job go on with other terms, or asks back what it holds if it cannot go on
// with them.
func (c *Core) resize(j *job, t *share.Terms) {
	s := c.state(j)
	if s.Revoking || t.Units == s.Units && t.Until == s.Until && t.Yield == j.yield {
		return
	}
	if !t.Units.Contains(s.Units) || t.Units != s.Units && !c.can.Resize {
		c.revoke(j)
		return
	}
	if !c.clear(j, t.Units.Minus(s.Units)) {
		return
	}
	c.unlink(j)
	s.Units, s.Until, j.yield = t.Units, t.Until, t.Yield
	c.took(j)
	c.notify(j, Notice{Kind: Resized, Units: t.Units, Until: published(t), Yield: t.Yield})
}

// revoke tells a holder to give back what it holds. Telling it again, or a job that holds nothing,
// changes nothing.
func (c *Core) revoke(j *job) {
	s := c.state(j)
	if s.Revoking || s.Units.Empty() {
		return
	}
	s.Revoking = true
	j.counts.Revocations++
	c.reckon() // a job that rested pays from here on
	if s.Phase == share.Running && j.yield >= share.Iteration && s.InIteration {
		j.untold = j.begun.n
		return
	}
	c.tell(j)
}

// tell tells a holder that it is to give back what it holds.
func (c *Core) tell(j *job) {
	s := c.state(j)
	j.untold = 0
	c.notify(j, Notice{Kind: Revoked, From: s.Granted, Units: s.Units})
}

// plan notes when the policy wants to be asked again.
func (c *Core) plan(wake time.Duration) {
	if wake != 0 && wake <= c.now {
		c.blame(0, ErrWake)
		wake = c.now + stallDelay
	}
	if wake == 0 && !c.blocked && c.stuck() && c.waiting() {
		c.blame(0, ErrStalled)
		wake = c.now + stallDelay
	}
	if c.unhides > 0 && (wake == 0 || c.unhides < wake) {
		wake = c.unhides
	}
	c.wake = wake
}

// stuck reports whether no event is to come from any holder: none runs or gives back.
func (c *Core) stuck() bool {
	for _, h := range c.holders {
		if s := c.state(h); s.Phase == share.Running || s.Revoking {
			return false
		}
	}
	return true
}

func (c *Core) waiting() bool {
	for i := range c.snap.Jobs {
		if c.snap.Jobs[i].Phase == share.Waiting {
			return true
		}
	}
	return false
}

// blame counts a fault of the policy and keeps the first.
func (c *Core) blame(id share.JobID, err error) {
	c.faults++
	if c.fault == nil {
		c.fault = fmt.Errorf("policy %s: job %d: %w", c.policy.Name(), id, err)
	}
}
