package cpu

import (
	"runtime"

	"github.com/weirgpu/weir/device"
)

// Partitions reports whether jobs on disjoint units of the pool keep out of each other's: whether
// threads can be tied to processors, of which each unit has one.
func (p *Pool) Partitions() bool { return len(p.homes()) > 0 }

// processors returns the processor of each unit, or nil. Where a control group grants less than the
// processors of the affinity mask, no unit is any of them.
func (p *Pool) processors() []int {
	cpus := p.cpus
	if len(cpus) == 0 {
		if cpus = allowedCPUs(); len(cpus) != Cores() {
			return nil
		}
	}
	if len(cpus) < p.threads {
		return nil
	}
	return cpus[:p.threads]
}

// unit returns the set of unit u alone, or the empty set where no set can name it.
func unit(u int) (set device.Units) {
	if u < device.MaxUnits {
		set[u/64] = 1 << (u % 64)
	}
	return set
}

// Caller ties a goroutine that runs iterations to the processors of the units that its job holds.
// Only that goroutine uses it. Workers of the pool tie themselves.
type Caller struct {
	pool   *Pool
	tied   bool
	units  device.Units // tied to
	before affinity
}

// NewCaller returns a Caller that ties to nothing yet.
func (p *Pool) NewCaller() *Caller { return &Caller{pool: p} }

// Confine ties the calling goroutine to its thread, and the thread to the processors of these
// units, until the next call or Release. All units of the pool tie to nothing. It does nothing
// where the pool does not partition ([Pool.Partitions]).
func (c *Caller) Confine(units device.Units) {
	switch {
	case c.tied && units == c.units:
		return
	case units.Covers(c.pool.threads):
		c.Release()
		return
	}
	var cpus []int
	for u, cpu := range c.pool.homes() {
		if units.Has(u) {
			cpus = append(cpus, cpu)
		}
	}
	if len(cpus) == 0 {
		return
	}
	if !c.tied {
		runtime.LockOSThread()
		c.before = threadMask()
	}
	c.tied, c.units = true, units
	// The system moves a thread only off a processor that it may not be on: to the first of its
	// own, where no worker of the same region is tied, and from there at its own discretion.
	pinThread(cpus[:1])
	if len(cpus) > 1 {
		pinThread(cpus)
	}
}

// Release lets the goroutine and its thread go where they could go before the first Confine.
func (c *Caller) Release() {
	if c.tied {
		c.tied = false
		c.before.restore()
		runtime.UnlockOSThread()
	}
}

// confine takes over what the region's lease is confined to. No worker is inside.
func (s *slot) confine() {
	narrow := false
	s.entire = false
	if c, ok := s.gate.(device.Confined); ok {
		s.entire = !c.Splits()
		if s.pool != nil {
			units := c.Units()
			if narrow = !units.Covers(s.pool.threads); narrow {
				s.invite(&units)
			}
		}
	}
	if s.pool != nil && s.narrow.Load() != narrow {
		s.narrow.Store(narrow)
	}
}

// invite makes the workers of these units the helpers. The caller stands for the first.
func (s *slot) invite(units *device.Units) {
	helpers := *units
	if first := units.First(); first >= 0 {
		helpers[first/64] &^= 1 << (first % 64)
	}
	for i := range s.helpers {
		word := uint64(0)
		if i < len(helpers) {
			word = helpers[i]
		}
		s.helpers[i].Store(word)
	}
}

// invites reports whether worker w may claim chunks.
func (s *slot) invites(w int) bool {
	return !s.narrow.Load() || s.helpers[w/64].Load()>>(w%64)&1 != 0
}
