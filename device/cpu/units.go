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

// Caller is a goroutine that runs iterations under leases, as the pool sees it. While it holds
// units it is tied to their processors, and where several hold all units of the pool at once, as
// many workers fewer help: each caller keeps a processor busy by itself. Only that goroutine uses
// it.
type Caller struct {
	pool    *Pool
	counted bool // in Pool.callers
	tied    bool
	units   device.Units // tied to
	before  affinity
}

// NewCaller returns a Caller that holds nothing.
func (p *Pool) NewCaller() *Caller { return &Caller{pool: p} }

// Hold says that the calling goroutine holds these units, until the next call. It is tied to its
// thread, and the thread to the units' processors; all units of the pool tie to nothing, nor do any
// where the pool does not partition ([Pool.Partitions]).
func (c *Caller) Hold(units device.Units) {
	whole := units.Covers(c.pool.threads)
	c.count(whole)
	if whole {
		c.untie()
	} else {
		c.tie(units)
	}
}

// Pause says that the goroutine holds nothing for the moment. It stays tied.
func (c *Caller) Pause() { c.count(false) }

// Release says that the goroutine holds nothing, and lets it and its thread go where they could go
// before the first Hold.
func (c *Caller) Release() {
	c.count(false)
	c.untie()
}

func (c *Caller) count(whole bool) {
	if whole == c.counted {
		return
	}
	if c.counted = whole; whole {
		c.pool.callers.Add(1)
	} else {
		c.pool.callers.Add(-1)
	}
}

func (c *Caller) tie(units device.Units) {
	if c.tied && units == c.units {
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

func (c *Caller) untie() {
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
	d, ok := s.gate.(device.Deferent)
	s.defers = ok && d.Defers()
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

// invites reports whether worker w is to help.
func (s *slot) invites(w int) bool {
	if s.narrow.Load() {
		return s.helpers[w/64].Load()>>(w%64)&1 != 0
	}
	return !s.pool.crowded(w)
}

// invited returns the workers that are to help among those of a word of Pool.parked.
func (s *slot) invited(word int) uint64 {
	if s.narrow.Load() {
		return s.helpers[word].Load()
	}
	// the lowest, up to as many as callers leave processors to
	n := s.pool.threads - int(s.pool.callers.Load()) + 1 - 64*word
	return ^uint64(0) >> min(64, max(0, 64-n))
}

// crowded reports whether callers of regions on all units take the processor of worker w.
func (p *Pool) crowded(w int) bool { return w+int(p.callers.Load()) > p.threads }
