package core

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
)

// hold carries out what a job wants of the device.
func (c *Core) hold(j *job, kind EventKind) error {
	s := c.state(j)
	switch kind {
	case Want:
		return c.want(j, s)
	case Cancel:
		if s.Phase == share.Waiting {
			c.enter(s, share.Idle)
			j.queued = 0
			c.demand(j)
		}
		return nil
	}
	if s.Units.Empty() || s.Phase == share.Idle && kind == Rest {
		return fmt.Errorf("job %s: %v: %w: acquire it", j.spec.Name, kind, ErrNotHeld)
	}
	switch kind {
	case Return:
		c.giveBack(j, ReasonReleased)
		c.enter(s, share.Waiting)
	case Release:
		c.giveBack(j, ReasonReleased)
		c.enter(s, share.Idle)
	case Rest:
		c.rest(j, s)
	}
	c.demand(j)
	return nil
}

func (c *Core) want(j *job, s *share.JobState) error {
	switch {
	case s.Phase != share.Idle:
		return fmt.Errorf("job %s: %w: one lease per job", j.spec.Name, ErrHeld)
	case s.Revoking:
		return fmt.Errorf("job %s: %w: others wait for what it rests on: give it back first",
			j.spec.Name, ErrHeld)
	}
	if c.waitsForDevice(j) {
		return c.waitsError(j, Want)
	}
	if j.arrivals.n == 0 && !s.InIteration {
		s.Ready = c.now
	}
	s.Deferred = false
	switch {
	case s.Units.Empty():
		c.enter(s, share.Waiting)
	case c.beside(j):
		// Others were let on what it kept: whether it may run beside them is for the policy to say.
		c.giveBack(j, ReasonReleased)
		c.enter(s, share.Waiting)
	default:
		// It rested: it goes on with what it kept.
		since := s.Since
		c.enter(s, share.Running)
		c.reckon()
		c.notify(j, Notice{Kind: Resumed, From: since, Units: s.Units})
	}
	c.demand(j)
	return nil
}

// beside reports whether another runs on units that the job holds.
func (c *Core) beside(j *job) bool {
	units := c.state(j).Units
	return slices.ContainsFunc(c.holders, func(h *job) bool {
		s := c.state(h)
		return h != j && s.Phase == share.Running && s.Units.Overlaps(units)
	})
}

// rest lets a job keep its units without paying, until the policy wants others to have them.
func (c *Core) rest(j *job, s *share.JobState) {
	c.enter(s, share.Idle)
	c.reckon()
	c.notify(j, Notice{Kind: Rested, Units: s.Units})
	if j.untold > 0 {
		c.tell(j) // it does not hold on to them until the end of an iteration in which it rests
	}
}

func (c *Core) enter(s *share.JobState, p share.Phase) {
	if s.Phase != p {
		s.Phase, s.Since = p, c.now
	}
}

// giveBack ends a hold. The caller says what the job does next.
func (c *Core) giveBack(j *job, why Reason) {
	s := c.state(j)
	switch {
	case why == ReasonEnded:
	case s.Revoking:
		why = ReasonRevoked
	case c.now >= s.Until:
		why = ReasonExpired
		j.counts.Expirations++
	}
	c.notify(j, Notice{Kind: Released, From: s.Granted, Units: s.Units, Reason: why})
	c.unlink(j)
	s.Units, s.Revoking, j.untold = share.UnitSet{}, false, 0
}

// charge is what a job pays for what it holds.
type charge struct {
	from time.Duration // settled until
	rate float64       // in devices
	rest float64       // of a nanosecond, left over
	kept float64       // device time held at rest and not paid for, in nanoseconds
	left time.Duration // when it last gave back, or was last charged for what went on after that

	crowded bool          // somebody else uses a unit that it holds
	until   time.Duration // when it last was
}

// took notes that a job holds units now.
func (c *Core) took(j *job) {
	i, _ := slices.BinarySearchFunc(c.holders, j.id, func(h *job, id share.JobID) int {
		return int(h.id - id)
	})
	c.holders = slices.Insert(c.holders, i, j)
	j.charge.from = c.now
	c.reckon()
}

// unlink notes that a job, settled, holds nothing any more.
func (c *Core) unlink(j *job) {
	i := slices.Index(c.holders, j)
	c.holders = slices.Delete(c.holders, i, i+1)
	j.charge.set(0, false, c.now)
	j.charge.left = c.now
	c.reckon()
}

// pays reports whether a holder is charged: unless it rests and nobody waits for what it holds.
func pays(s *share.JobState) bool { return s.Phase == share.Running || s.Revoking }

// reckon finds the rates of all holders, after any of them has changed. A unit held by k jobs that
// pay costs each 1/k of it.
func (c *Core) reckon() {
	total := float64(c.snap.Units)
	if !c.shared() {
		for _, h := range c.holders {
			rate := 0.0
			if s := c.state(h); pays(s) {
				rate = float64(s.Units.Len()) / total
			}
			h.charge.set(rate, false, c.now)
		}
		return
	}
	if units, k := c.together(); k > 0 {
		rate := float64(units.Len()) / total / float64(k)
		for _, h := range c.holders {
			if pays(c.state(h)) {
				h.charge.set(rate, k > 1, c.now)
			} else {
				h.charge.set(0, false, c.now)
			}
		}
		return
	}
	var counts [share.MaxUnits]uint16
	for _, h := range c.holders {
		if s := c.state(h); pays(s) {
			for u := range s.Units.All() {
				counts[u]++
			}
		}
	}
	for _, h := range c.holders {
		rate, crowded := 0.0, false
		if s := c.state(h); pays(s) {
			for u := range s.Units.All() {
				rate += 1 / float64(counts[u])
				crowded = crowded || counts[u] > 1
			}
		}
		h.charge.set(rate/total, crowded, c.now)
	}
}

// together returns the units that all holders that pay hold, and their number; 0 if one holds
// others.
func (c *Core) together() (units share.UnitSet, k int) {
	for _, h := range c.holders {
		s := c.state(h)
		switch {
		case !pays(s):
			continue
		case k == 0:
			units = s.Units
		case s.Units != units:
			return units, 0
		}
		k++
	}
	return units, k
}

// shared reports whether a unit is held by two jobs.
func (c *Core) shared() bool {
	if len(c.holders) < 2 || !c.needs.Overlap && !c.overlap {
		return false
	}
	c.overlap = false // left by a policy before this one, perhaps
	var seen share.UnitSet
	for _, h := range c.holders {
		units := c.state(h).Units
		if seen.Overlaps(units) {
			c.overlap = true
			return true
		}
		seen = seen.Union(units)
	}
	return false
}

// set changes the rate from now on, and whether somebody else uses a unit that the job holds.
func (h *charge) set(rate float64, crowded bool, now time.Duration) {
	if h.crowded {
		h.until = now
	}
	h.rate, h.crowded = rate, crowded
}

// settle charges a holder for the time since it was charged last. All are settled up to now
// whenever anything changes.
func (c *Core) settle(j *job) {
	from := j.charge.from
	if j.charge.from = c.now; from == c.now {
		return
	}
	if j.charge.rate == 0 {
		units := c.state(j).Units.Len()
		j.charge.kept += float64(c.now-from) * float64(units) / float64(c.snap.Units)
		return
	}
	cost := float64(c.now-from)*j.charge.rate + j.charge.rest
	whole := time.Duration(cost)
	j.charge.rest = cost - float64(whole)
	c.state(j).Used += whole
	j.account.hold(float64(c.now-from) * j.charge.rate)
	j.solo += float64(c.now-from) * c.speed(j)
}

// speed is how fast a job is on the units that it holds with nobody beside, over all units: in
// proportion to their number, up to as many as it can use.
func (c *Core) speed(j *job) float64 {
	s := c.state(j)
	width := c.snap.Units
	if s.Next.Units > 0 {
		width = min(width, s.Next.Units)
	}
	return float64(min(width, s.Units.Len())) / float64(width)
}

// pay charges a job for what it used at rest, or after it gave back: others who held the device
// then pay too, since it was theirs.
func (c *Core) pay(j *job, used time.Duration) {
	c.settle(j)
	most := time.Duration(j.charge.kept)
	if c.state(j).Units.Empty() && j.counts.Grants > 0 {
		most += c.now - j.charge.left
		j.charge.left = c.now
	}
	paid := min(max(0, used), most)
	j.charge.kept = 0
	c.state(j).Used += paid
	j.account.hold(float64(paid))
}

// copied takes note of traffic.
func (c *Core) copied(j *job, n share.Bytes) error {
	s := c.state(j)
	if n < 0 || s.Copied > math.MaxInt64-n {
		return fmt.Errorf("job %s: copy: %w: %d bytes beside %d before: want nothing below 0, and "+
			"no more than can be counted", j.spec.Name, ErrEvent, n, s.Copied)
	}
	s.Copied += n
	return nil
}

// measure takes note of what the device was found to have done for a job. It changes nothing of
// what the job is charged.
func (c *Core) measure(j *job, e *Event) error {
	if e.Used < 0 || e.Passed < 0 || e.Launches < 0 {
		return fmt.Errorf("job %s: measure: %w: %v used, %v passed in %d launches: want nothing "+
			"below 0", j.spec.Name, ErrEvent, e.Used, e.Passed, e.Launches)
	}
	s := c.state(j)
	s.Measured += min(e.Used, max(0, s.Used-s.Measured))
	s.Passed += min(e.Passed, max(0, c.now-s.Admitted-s.Used-s.Passed))
	s.Launches += min(e.Launches, math.MaxInt64-s.Launches)
	s.MeasuredAt = c.now
	return nil
}
