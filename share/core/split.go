package core

import (
	"fmt"

	"github.com/weirgpu/weir/share"
)

// split gives a part of a job's memory to a job of its own, so that it can be used by others too,
// and outlive the job. Nothing moves: what is counted is the same before and after.
func (c *Core) split(j *job, e *Event) error {
	if e.Spec == nil {
		return fmt.Errorf("job %s: split: %w: no specification", j.spec.Name, ErrEvent)
	}
	if err := c.divides(j, e); err != nil {
		return err
	}
	s, part := c.state(j), *e.Spec
	was := *s
	rest := j.spec
	rest.Memory -= part.Memory
	rest.Elastic, rest.Keep = false, 0
	s.Share, s.Memory.Cap, s.Memory.Bends = rest.Share, rest.Memory, 0
	s.Memory.Need = max(0, s.Memory.Need-part.Memory)
	s.Memory.Persistent -= e.Bytes
	state := share.JobState{
		ID: c.last + 1, Share: part.Share, Since: c.now, Ready: c.now, Admitted: c.now,
		Remaining: -1,
		Memory:    share.Memory{Cap: part.Memory, Need: part.Memory, Persistent: e.Bytes},
	}
	state.Memory.Bends = bends(&part, &state.Memory)
	if err := c.fits(part.Name, &state, nil); err != nil {
		s.Share, s.Memory = was.Share, was.Memory // State may be another policy's, if one panicked
		return err
	}
	j.spec, j.whole = rest, s.Memory.Persistent
	j.peak = max(j.peak-part.Memory, s.Memory.Resident())
	c.notify(j, Notice{Kind: Changed})
	c.enlist(part, state)
	c.bend(j)
	if s = c.state(j); s.Memory.Kept() > was.Memory.Kept() {
		c.unsettle(j)
	}
	return nil
}

// divides refuses a part that a job cannot give.
func (c *Core) divides(j *job, e *Event) error {
	s, part := c.state(j), e.Spec
	if err := part.Validate(); err != nil {
		return err
	}
	if err := c.unnamed(part.Name); err != nil {
		return err
	}
	switch m := &s.Memory; {
	case !part.Elastic || part.Memory <= 0 || part.Ephemeral > 0 || part.Iterations > 0:
		return fmt.Errorf("job %s: split: %w: job %s is not elastic, has no cap, or ends by "+
			"itself", j.spec.Name, ErrEvent, part.Name)
	case m.Shared > 0 || m.Asked > 0 || s.InIteration:
		return fmt.Errorf("job %s: split: %w: it is in a lane, within an iteration, or waits for "+
			"memory", j.spec.Name, ErrEvent)
	case e.Bytes < 0 || e.Bytes > min(m.Persistent, part.Memory):
		return fmt.Errorf("job %s: split: %v of a cap of %v, holds %v: %w", j.spec.Name, e.Bytes,
			part.Memory, m.Persistent, ErrNotReserved)
	case m.Resident()-e.Bytes > m.Cap-part.Memory:
		return fmt.Errorf("job %s: split: it holds %v beside %v, of its cap %v: %w", j.spec.Name,
			(m.Resident() - e.Bytes).About(), part.Memory.About(), m.Cap.About(), ErrOverCap)
	}
	return nil
}
