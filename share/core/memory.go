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
		m.Asked = 0
		return true, nil
	case Unreserve:
		held := holding(m, e.Memory)
		if e.Bytes < 0 || e.Bytes > *held {
			return false, fmt.Errorf("job %s: frees %v of %v memory, holds %v: %w", j.spec.Name,
				e.Bytes, e.Memory, *held, ErrNotReserved)
		}
		*held -= e.Bytes
		c.serve(j)
		return true, nil
	}
	left, most := c.room(j, e.Memory)
	switch {
	case e.Bytes >= 0 && e.Bytes <= left && (m.Asked == 0 || !e.Wait):
		c.count(j, e.Memory, e.Bytes)
		return false, nil
	case e.Wait && m.Asked != 0:
		return false, fmt.Errorf("job %s: wants %v more %v memory: %w for %v", j.spec.Name,
			e.Bytes.About(), e.Memory, ErrWaits, m.Asked.About())
	case e.Wait && e.Bytes > 0 && e.Bytes <= most:
		m.Asked, j.waits = e.Bytes, e.Memory
		return true, nil
	}
	if m.Lane > 0 && e.Memory != Persistent && e.Bytes >= 0 && e.Bytes <= most {
		if err := c.inLane(j); err != nil {
			return false, err
		}
	}
	return false, fmt.Errorf("job %s: wants %v more %v memory, holds %v of its cap %v: %w: raise "+
		"memory or lower the batch",
		j.spec.Name, e.Bytes.About(), e.Memory, m.Resident().About(), m.Cap.About(), ErrOverCap)
}

// serve reserves what waits, once it fits.
func (c *Core) serve(j *job) {
	m := &c.state(j).Memory
	if m.Asked == 0 {
		return
	}
	if left, _ := c.room(j, j.waits); m.Asked > left {
		return
	}
	n := m.Asked
	m.Asked = 0
	c.count(j, j.waits, n)
	c.notify(j, Notice{Kind: Reserved, Bytes: n})
}

func (c *Core) count(j *job, kind MemoryKind, n share.Bytes) {
	m := &c.state(j).Memory
	*holding(m, kind) += n
	j.peak = max(j.peak, m.Resident())
}

func holding(m *share.Memory, kind MemoryKind) *share.Bytes {
	if kind == Persistent {
		return &m.Persistent
	}
	return &m.Ephemeral
}
