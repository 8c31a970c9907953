package place

import (
	"encoding/binary"
	"math/bits"
	"slices"
)

// memo keeps what a fragmentation comes to. It rests on two facts. What a workload finds on a node
// depends on what is free of the devices as a multiset, of which few differ in a cluster: a
// [class]. And it changes with the node's CPU only where that passes what a typical shape needs:
// for each class it is a step function with few steps.
type memo struct {
	cores   []int64  // rising: what typical shapes with devices need of CPU
	demands []demand // what they need of devices
	weight  int64    // of all typical shapes

	classes map[string]*class
	key     []byte
	slots   []slot
	steps   map[step]int32
	count   int // of classes since the last time that all were dropped
}

// maxClasses is how many classes are kept before all are dropped, about a kilobyte each.
const maxClasses = 1 << 16

// demand is what some typical shapes need of devices, and what those weigh that are content with
// the first so many of memo.cores.
type demand struct {
	Typical
	takes  []bool // by model
	within []int64
}

// step is how a placement changes devices that have the same free: count of them each give so much.
type step struct {
	units int32
	mem   int64
	count int32
}

// class is what is free of some node's devices.
type class struct {
	model  int32
	slots  []slot   // sorted
	values []slot   // those that differ
	next   [][]next // by value: the classes reached from it, by step
	units  int64    // of all slots
	useful []int64  // by demand: how much of units it could use, if there were CPU enough
	frag   []int64  // by step of cores: the fragmentation, or -1 where not computed yet
}

type next struct{ *class }

func newMemo(f *fragments) *memo {
	m := &memo{weight: f.weight, classes: map[string]*class{}, steps: map[step]int32{}}
	for i := range f.workload {
		if t := &f.workload[i]; t.Count > 0 {
			m.cores = append(m.cores, t.CPU)
		}
	}
	slices.Sort(m.cores)
	m.cores = slices.Compact(m.cores)
	for i := range f.workload {
		if f.workload[i].Count > 0 {
			m.add(&f.workload[i], f.takes[i])
		}
	}
	return m
}

// add counts a typical shape under its demand.
func (m *memo) add(t *Typical, takes []bool) {
	same := func(d demand) bool {
		return d.Count == t.Count && d.Units == t.Units && d.DeviceMemory == t.DeviceMemory &&
			d.Models == t.Models
	}
	i := slices.IndexFunc(m.demands, same)
	if i < 0 {
		i = len(m.demands)
		m.demands = append(m.demands,
			demand{Typical: *t, takes: takes, within: make([]int64, len(m.cores)+1)})
	}
	d := &m.demands[i]
	for k := range d.within {
		if k > 0 && m.cores[k-1] >= t.CPU {
			d.within[k] += t.Weight
		}
	}
}

// of returns the fragmentation of a node if it had so much CPU free.
func (m *memo) of(n *node, cpu int64) int64 { return m.fragmentation(m.classOf(n), cpu) }

func (m *memo) fragmentation(c *class, cpu int64) int64 {
	if c.units == 0 {
		return 0
	}
	lo, hi := 0, len(m.cores)
	for lo < hi {
		if mid := (lo + hi) / 2; m.cores[mid] <= cpu {
			lo = mid + 1
		} else {
			hi = mid
		}
	}
	if c.frag[lo] < 0 {
		sum := c.units * m.weight
		for i := range m.demands {
			sum -= m.demands[i].within[lo] * c.useful[i]
		}
		c.frag[lo] = sum
	}
	return c.frag[lo]
}

// after returns it for a node after a placement.
func (m *memo) after(n *node, s *shape, set Set) int64 {
	return m.fragmentation(m.follow(n, s, set), n.cpu-s.CPU)
}

// follow returns the class of a node after a placement.
func (m *memo) follow(n *node, s *shape, set Set) *class {
	c := m.classOf(n)
	if set == 0 {
		return c
	}
	v := n.free[bits.TrailingZeros64(uint64(set))]
	for rest := set & (set - 1); rest != 0; rest &= rest - 1 {
		if n.free[bits.TrailingZeros64(uint64(rest))] != v {
			return m.without(n, s, set)
		}
	}
	at := c.value(v)
	if s.demand < 0 {
		s.demand = m.step(&s.Request)
	}
	if int(s.demand) >= len(c.next[at]) {
		more := make([]next, max(len(m.steps), int(s.demand)+1))
		copy(more, c.next[at])
		c.next[at] = more
	}
	e := &c.next[at][s.demand]
	if e.class == nil {
		e.class = m.without(n, s, set)
	}
	return e.class
}

// value returns the place of a value, which is there.
func (c *class) value(v slot) int {
	for i, w := range c.values {
		if w == v {
			return i
		}
	}
	panic("place: a class lacks what a node of it has free")
}

// step numbers what a request does to devices.
func (m *memo) step(r *Request) int32 {
	s := step{int32(r.Units), r.DeviceMemory, int32(r.Count)}
	i, ok := m.steps[s]
	if !ok {
		i = int32(len(m.steps))
		m.steps[s] = i
	}
	return i
}

// without looks up a node's class after a placement by what is left.
func (m *memo) without(n *node, s *shape, set Set) *class {
	m.slots = append(m.slots[:0], n.free...)
	for ; set != 0; set &= set - 1 {
		f := &m.slots[bits.TrailingZeros64(uint64(set))]
		*f = f.without(&s.Request)
	}
	return m.find(n.model)
}

// classOf returns the class of a node as it is.
func (m *memo) classOf(n *node) *class {
	if n.class == nil {
		m.slots = append(m.slots[:0], n.free...)
		n.class = m.find(n.model)
	}
	return n.class
}

// find returns the class of m.slots, which it sorts.
func (m *memo) find(model int32) *class {
	for i := range m.slots { // there are few, and most are in order
		for j := i; j > 0 && m.slots[j].less(m.slots[j-1]); j-- {
			m.slots[j], m.slots[j-1] = m.slots[j-1], m.slots[j]
		}
	}
	m.key = binary.LittleEndian.AppendUint32(m.key[:0], uint32(model))
	for _, s := range m.slots {
		m.key = binary.LittleEndian.AppendUint16(m.key, uint16(s.units))
		m.key = binary.AppendUvarint(m.key, uint64(s.mem))
	}
	c := m.classes[string(m.key)]
	if c == nil {
		c = m.newClass(model)
		m.classes[string(m.key)] = c
		m.count++
	}
	return c
}

// newClass makes the class of m.slots.
func (m *memo) newClass(model int32) *class {
	c := &class{model: model, slots: slices.Clone(m.slots), frag: make([]int64, len(m.cores)+1),
		useful: make([]int64, len(m.demands))}
	c.values = slices.Compact(slices.Clone(m.slots))
	c.next = make([][]next, len(c.values))
	for i := range c.frag {
		c.frag[i] = -1
	}
	for _, s := range c.slots {
		c.units += int64(s.units)
	}
	for i := range m.demands {
		d := &m.demands[i]
		if !d.takes[model] {
			continue
		}
		used, hosts := int64(0), 0
		for _, s := range c.slots {
			if s.holds(&d.Request) {
				hosts++
				used += int64(s.units)
			}
		}
		if hosts >= d.Count {
			c.useful[i] = used
		}
	}
	return c
}

// full reports whether so many classes are kept that they should be dropped.
func (m *memo) full() bool { return m.count > maxClasses }

// drop forgets all classes: nodes must forget theirs too.
func (m *memo) drop() { clear(m.classes); m.count = 0 }
