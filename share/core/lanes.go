package core

import (
	"fmt"

	"github.com/weirgpu/weir/share"
)

// occupies reports whether a job is in the way of the others of its lane: it may run at any time,
// is within an iteration or holds ephemeral memory.
func occupies(s *share.JobState) bool {
	return !s.Units.Empty() || s.InIteration || s.Memory.Ephemeral > 0
}

// occupant returns the other job that occupies the lane of a job, or nil.
func (c *Core) occupant(j *job) *job {
	lane := c.state(j).Memory.Lane
	if lane == 0 {
		return nil
	}
	for i := range c.snap.Jobs {
		if s := &c.snap.Jobs[i]; s.Memory.Lane == lane && i != j.index && occupies(s) {
			return c.jobs[i]
		}
	}
	return nil
}

// inLane returns an [ErrLane] if another job occupies the lane of a job.
func (c *Core) inLane(j *job) error {
	if o := c.occupant(j); o != nil {
		return fmt.Errorf("job %s: job %s is within its iteration in lane %d: %w: wait for a lease",
			j.spec.Name, o.spec.Name, c.state(j).Memory.Lane, ErrLane)
	}
	return nil
}

// inWay returns the job that a job has to wait for, or nil: the one that occupies its lane, else
// the one that the policy wanted to run before and that has waited for the lane since.
func (c *Core) inWay(j *job) *job {
	s := c.state(j)
	lane := s.Memory.Lane
	if lane == 0 || occupies(s) {
		return nil
	}
	first := c.occupant(j)
	if first != nil {
		return first
	}
	for i, o := range c.jobs {
		s := &c.snap.Jobs[i]
		if s.Memory.Lane != lane || o == j || s.Phase != share.Waiting || o.queued == 0 {
			continue
		}
		if (j.queued == 0 || o.queued < j.queued) && (first == nil || o.queued < first.queued) {
			first = o
		}
	}
	return first
}

// queue leaves a job waiting for one of its lane. If that one waits too, it goes on with what this
// one was to have: a policy need not know of lanes to let it out of the way. It pays, and can so
// get ahead of its part and its limit by the rest of an iteration.
func (c *Core) queue(j, first *job, t *share.Terms) {
	c.blocked = true
	if j.queued == 0 {
		j.queued = c.decisions
	}
	switch s := c.state(first); {
	case s.Phase == share.Waiting:
		first.stands = c.decisions
		c.grant(first, t)
	case s.Phase == share.Idle:
		c.revoke(first)
	}
}

// hide lets the policy take jobs for idle for whom nothing that it could do would let them run, and
// others might: whose lane is occupied by one that is idle itself, amid an iteration, or whose
// memory others are in the way of that stay for now. The latter are owed as if they waited.
func (c *Core) hide() {
	c.blocked, c.unhides, c.hidden = false, 0, c.hidden[:0]
	for i, j := range c.jobs {
		s := &c.snap.Jobs[i]
		if s.Phase != share.Waiting {
			continue
		}
		if until := c.awaits(j); until > 0 {
			s.Deferred, s.Owed = true, true
			if c.unhides == 0 || until < c.unhides {
				c.unhides = until
			}
		} else if o := c.occupant(j); o == nil || c.state(o).Phase != share.Idle || c.Holds(o.id) {
			continue
		}
		c.hidden = append(c.hidden, j)
	}
	for _, j := range c.hidden {
		c.state(j).Phase, c.blocked = share.Idle, true
	}
}

// unhide is the end of hide.
func (c *Core) unhide() {
	for _, j := range c.hidden {
		s := c.state(j)
		s.Phase, s.Deferred, s.Owed = share.Waiting, false, false
	}
}

// room returns how much more memory of a kind a job can reserve now, and the most that it ever can.
func (c *Core) room(j *job, kind MemoryKind) (now, most share.Bytes) {
	m := &c.state(j).Memory
	switch {
	case m.Lane == 0:
		return m.Cap - m.Resident(), m.Cap
	case kind == Persistent:
		return m.Cap - m.Shared - m.Persistent, m.Cap - m.Shared
	case c.occupant(j) != nil:
		return 0, m.Shared
	}
	return m.Shared - m.Ephemeral, m.Shared
}

// capFor returns the least cap under which what a job waits for could ever be reserved; 0 where it
// waits for nothing that its cap bounds.
func (c *Core) capFor(j *job) share.Bytes {
	m := &c.state(j).Memory
	switch {
	case m.Asked == 0, m.Lane > 0 && j.waits != Persistent:
		return 0
	case m.Lane > 0:
		return m.Shared + m.Asked
	}
	return m.Asked
}
