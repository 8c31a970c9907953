package core

import (
	"fmt"

	"github.com/weirgpu/weir/share"
)

// reserve counts a job's memory, and reports whether the policy is to be asked: when a reservation
// begins to wait, or memory is given back.
func (c *Core) reserve(j *job, e *Event) (decides bool, err error) {
	m := &c.state(j).Memory
	switch e.Kind {
	case Withdraw:
		if c.unask(j); !c.state(j).InIteration {
			j.turn = 0
		}
		return true, nil
	case Unreserve:
		held := holding(m, e.Memory)
		if e.Bytes < 0 || e.Bytes > *held {
			return false, fmt.Errorf("job %s: frees %v of %v memory, holds %v: %w", j.spec.Name,
				e.Bytes, e.Memory, *held, ErrNotReserved)
		}
		*held -= e.Bytes
		j.stays = false
		return true, nil
	}
	left, most := c.room(j, e.Memory)
	switch {
	case e.Bytes >= 0 && e.Bytes <= left && (m.Asked == 0 || !e.Wait) && c.mayGrow(j, e):
		c.count(j, e.Memory, e.Bytes)
		return false, nil
	case e.Wait && m.Asked != 0:
		return false, fmt.Errorf("job %s: wants %v more %v memory: %w for %v", j.spec.Name,
			e.Bytes.About(), e.Memory, ErrWaits, m.Asked.About())
	case e.Wait && e.Bytes > 0 && e.Bytes <= most:
		if err := c.mayWait(j, e); err != nil {
			return false, err
		}
		c.ask(j, e.Memory, e.Bytes)
		return true, nil
	}
	return false, c.refusal(j, e, left, most)
}

// refusal says why a job cannot have more memory now.
func (c *Core) refusal(j *job, e *Event, left, most share.Bytes) error {
	m := &c.state(j).Memory
	if m.Lane > 0 && e.Memory != Persistent && e.Bytes >= 0 && e.Bytes <= most {
		if err := c.inLane(j); err != nil {
			return err
		}
	}
	if e.Bytes >= 0 && e.Bytes <= left {
		return fmt.Errorf("job %s: wants %v more %v memory, holds %v, keeps %v of its cap %v, and "+
			"others hold all but %v of %v: %w: wait for it, or raise what it keeps", j.spec.Name,
			e.Bytes.About(), e.Memory, m.Resident().About(), m.Kept().About(), m.Cap.About(),
			max(0, -c.snap.Lacks()).About(), c.memory.About(), ErrNoMemory)
	}
	return fmt.Errorf("job %s: wants %v more %v memory, holds %v of its cap %v: %w: raise "+
		"memory or lower the batch",
		j.spec.Name, e.Bytes.About(), e.Memory, m.Resident().About(), m.Cap.About(), ErrOverCap)
}

func (c *Core) count(j *job, kind MemoryKind, n share.Bytes) {
	m := &c.state(j).Memory
	*holding(m, kind) += n
	j.peak, j.told, j.stays = max(j.peak, m.Resident()), false, false
}

func holding(m *share.Memory, kind MemoryKind) *share.Bytes {
	if kind == Persistent {
		return &m.Persistent
	}
	return &m.Ephemeral
}
