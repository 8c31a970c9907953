package core

import (
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/evict"
)

// This file is memory that jobs hold in turn (share.Share.Elastic): what is set apart for no job is
// lent to those who reserve it, and asked back from such as are between iterations (Evicted) while
// others wait. Why each is served in the end:
//
//   - Whoever waits is outside of an iteration and holds no units, so those within one end it.
//   - A job gets a turn when it first waits, which it keeps until it has ended an iteration or has
//     no more work. Who waits with the first turn of all is not asked for anything, and everybody
//     else is that is not within an iteration, but for those served before in their turn, who
//     begin one.
//   - Who waits for what only itself, or one of its lane, gives back has no claim on others, who
//     pass it: it may be asked like one without a turn, and then takes the last of all.
//   - Admission leaves room for the largest Bends beside all that is kept (Snapshot.FitsMemory).
//
// So the first turn is served, comes to its end, and another is the first.
//
// A job that waits while it holds units, of memory that comes with its turns (turns.go), has no
// turn of its own for that: who holds the units is the policy's to say, and those who are to give
// way are not within iterations.

// bending is what a core knows of a job's memory beside share.Memory.
type bending struct {
	turn  int64         // its place among those that wait or were served; 0: none
	rank  float64       // by the eviction rule, since it was last used
	last  time.Duration // when that was
	often evict.Count   // how often it was used
	whole share.Bytes   // the most that it has held over iterations under its present share
	most  share.Bytes
	told  bool // it is to hold no more than most of its own, but for its lane
	stays bool // it gave back all that it can
	// shelved is set while what is lent to it goes before that of others, whatever its rank
	shelved bool
	// unsettled is set until what was promised to the job is free of what others hold beside.
	unsettled bool
	// came is when its memory last came to the device for its turn, and took how long that was.
	came, took time.Duration
}

// grows returns by how much more than is set apart for a job it would hold n more.
func grows(m *share.Memory, kind MemoryKind, n share.Bytes) share.Bytes {
	if m.Lane > 0 && kind != Persistent {
		return 0
	}
	return max(0, m.Own()+n-m.Kept()) - max(0, m.Own()-m.Kept())
}

// contends reports whether a reservation may have to wait for what others hold.
func (c *Core) contends(j *job, kind MemoryKind, n share.Bytes) bool {
	return j.unsettled || grows(&c.state(j).Memory, kind, n) > 0
}

// fitsDevice reports whether a job may have n more beside what others hold, and are promised.
func (c *Core) fitsDevice(j *job, kind MemoryKind, n share.Bytes) bool {
	return !c.contends(j, kind, n) || c.snap.Lacks()+grows(&c.state(j).Memory, kind, n) <= 0
}

// mayGrow reports whether a job may have what it reserves beside what others hold and are promised,
// and before those who wait.
func (c *Core) mayGrow(j *job, e *Event) bool {
	if !c.contends(j, e.Memory, e.Bytes) {
		return true
	}
	if !c.fitsDevice(j, e.Memory, e.Bytes) {
		return false
	}
	first := c.firstToWait()
	return first == nil || j.turn > 0 && j.turn < first.turn
}

// ask lets a job wait for memory.
func (c *Core) ask(j *job, kind MemoryKind, n share.Bytes) {
	c.state(j).Memory.Asked, j.waits = n, kind
	c.asking++
	if j.turn == 0 {
		c.turns++
		j.turn = c.turns
	}
}

// unask ends the wait.
func (c *Core) unask(j *job) {
	if m := &c.state(j).Memory; m.Asked > 0 {
		m.Asked = 0
		c.asking--
	}
}

// waitsForDevice reports whether a job waits for memory that others hold.
func (c *Core) waitsForDevice(j *job) bool {
	n := c.state(j).Memory.Asked
	return n > 0 && c.contends(j, j.waits, n)
}

// used ranks a job that is being used. Uses of jobs that keep all of their memory are not counted:
// they would make those of the others look rare.
func (c *Core) used(j *job) {
	j.last, j.stays, j.shelved = c.now, false, false
	if c.state(j).Memory.Bends > 0 {
		c.uses.Add(&j.often, len(c.jobs))
	}
	c.assess(j)
}

// assess ranks a job by what is known of it now.
func (c *Core) assess(j *job) {
	s := c.state(j)
	j.whole = max(j.whole, s.Memory.Persistent)
	u := evict.Use{At: j.last, Size: j.whole, Reload: s.Next.Reload, Often: j.often.Often()}
	if c.rules(func() { j.rank = c.rule.Used(u) }) && math.IsNaN(j.rank) {
		c.replaceRule(fmt.Errorf("eviction %s: job %d: %w: the rank is no number",
			ruleName(c.rule), j.id, ErrRule))
	}
}

// rules calls the eviction rule. Should it panic, evict.LRU takes its place.
func (c *Core) rules(call func()) (ok bool) {
	defer func() {
		if fault := recover(); fault != nil {
			if _, known := c.rule.(*evict.LRU); known {
				panic(fault) // the program is wrong
			}
			c.replaceRule(fmt.Errorf("eviction %s: %w: %v", ruleName(c.rule), ErrRule, fault))
		}
	}()
	call()
	return true
}

// replaceRule counts a fault of the eviction rule, and puts evict.LRU in its place, which needs to
// know no more of the jobs than when each was used last.
func (c *Core) replaceRule(fault error) {
	c.faults++
	if c.fault == nil {
		c.fault = fault
	}
	c.rule = &evict.LRU{}
	for _, j := range c.jobs {
		j.rank = c.rule.Used(evict.Use{At: j.last})
	}
}

// ruleName is a rule's name, of one that may panic.
func ruleName(r evict.Rule) (name string) {
	defer func() {
		if recover() != nil {
			name = fmt.Sprintf("%T", r)
		}
	}()
	return r.Name()
}

// pour serves what waits, in order of turns. Who waits for the room of its own cap or lane is in
// nobody's way, nor is who waits for more than there could be beside what was promised since. The
// first of those in whose way others are is firstToWait, by which mayGrow lets nobody pass: a job
// that contends and would grow by nothing is unsettled, and while any is, nothing fits the device.
func (c *Core) pour() {
	if c.settlePromises(); c.asking == 0 {
		return
	}
	blocked := false
	for j := c.nextTurn(0); j != nil; j = c.nextTurn(j.turn) {
		asked := c.state(j).Memory.Asked
		switch contends := c.contends(j, j.waits, asked); {
		case c.aside(j), contends && blocked:
		case c.fitsDevice(j, j.waits, asked):
			c.served(j)
		default:
			blocked = true
		}
	}
}

// aside reports whether a job waits for what others could not give it: for the room of its own cap
// or lane, or for more than there could be, as where a policy's own rule let in a cap above what
// the device has.
func (c *Core) aside(j *job) bool {
	m := &c.state(j).Memory
	if m.Asked == 0 {
		return false
	}
	left, _ := c.room(j, j.waits)
	return m.Asked > left || grows(m, j.waits, m.Asked) > c.pool()
}

// settlePromises notes that what was promised is free of what others hold beside.
func (c *Core) settlePromises() {
	if c.unsettled == 0 || c.snap.Lacks() > 0 {
		return
	}
	for _, j := range c.jobs {
		j.unsettled = false
	}
	c.unsettled = 0
}

// pool is how much jobs can hold together beside what is set apart.
func (c *Core) pool() share.Bytes {
	n := -c.snap.Lacks()
	for i := range c.snap.Jobs {
		m := &c.snap.Jobs[i].Memory
		n += max(0, m.Own()-m.Kept())
	}
	return n
}

// nextTurn returns the job that waits for memory with the first turn after this one, or nil.
func (c *Core) nextTurn(after int64) (first *job) {
	for i, j := range c.jobs {
		if c.snap.Jobs[i].Memory.Asked > 0 && j.turn > after &&
			(first == nil || j.turn < first.turn) {
			first = j
		}
	}
	return first
}

// served counts a reservation that has waited.
func (c *Core) served(j *job) {
	n := c.state(j).Memory.Asked
	c.unask(j)
	c.count(j, j.waits, n)
	c.notify(j, Notice{Kind: Reserved, Bytes: n})
	if c.endTurn(j); !c.state(j).Units.Empty() {
		j.turn = 0
	}
}

// endTurn ends the turn of a job that has no use for what it was served.
func (c *Core) endTurn(j *job) {
	s := c.state(j)
	if !s.InIteration && !s.HasWork && s.Memory.Asked == 0 {
		j.turn = 0
	}
}

// reclaim asks back what is missing: for what was promised, then for who waits with the first turn.
func (c *Core) reclaim() {
	lacks := c.snap.Lacks()
	first := (*job)(nil)
	if lacks <= 0 {
		if first = c.firstToWait(); first == nil {
			return
		}
		lacks += grows(&c.state(first).Memory, first.waits, c.state(first).Memory.Asked)
	}
	for _, j := range c.jobs {
		if c.mayEvict(j, first) {
			lacks -= c.coming(j)
		}
	}
	for lacks > 0 {
		v := c.victim(first)
		if v == nil {
			return
		}
		lacks -= c.evict(v, lacks)
	}
}

// firstToWait returns the job with the first turn of those who wait for what others hold, and can
// be served at all.
func (c *Core) firstToWait() *job {
	if c.asking == 0 {
		return nil
	}
	for j := c.nextTurn(0); j != nil; j = c.nextTurn(j.turn) {
		if m := &c.state(j).Memory; grows(m, j.waits, m.Asked) > 0 && !c.aside(j) {
			return j
		}
	}
	return nil
}

// mayEvict reports whether memory may be asked back from a job for another, or for what was
// promised if that is nil.
func (c *Core) mayEvict(j, first *job) bool {
	if c.state(j).InIteration || j.stays || j == first {
		return false
	}
	return first == nil || j.turn == 0 || j.turn > first.turn || c.aside(j)
}

// coming returns what a job was told to give back and holds.
func (c *Core) coming(j *job) share.Bytes {
	m := &c.state(j).Memory
	if !j.told {
		return 0
	}
	return max(0, m.Own()-max(j.most, min(m.Own(), m.Kept())))
}

// victim returns the job that is to give memory back next, or nil.
func (c *Core) victim(first *job) (v *job) {
	for i, j := range c.jobs {
		m := &c.snap.Jobs[i].Memory
		if m.Own()-m.Kept() > c.coming(j) && c.mayEvict(j, first) && (v == nil || c.goes(j, v)) {
			v = j
		}
	}
	if v != nil && !v.shelved && c.sooner(v, first) {
		return nil
	}
	return v
}

// sooner reports whether, of a victim that several jobs use, another is to give back before, which
// does so when its iteration has ended, or that for which it was served.
func (c *Core) sooner(v, first *job) bool {
	users := c.state(v).Next.Users
	return users > 0 && slices.ContainsFunc(c.jobs, func(j *job) bool {
		s := c.state(j)
		return j != first && !j.stays && s.Next.Users < users &&
			s.Memory.Own()-s.Memory.Kept() > c.coming(j)
	})
}

// evict tells a job to give back up to n bytes more than it was told before, and returns how many.
func (c *Core) evict(v *job, n share.Bytes) share.Bytes {
	m := &c.state(v).Memory
	coming := c.coming(v)
	if c.aside(v) { // what it gives back is not for what it waits for itself
		c.turns++
		v.turn = c.turns
	}
	n = min(n, m.Own()-m.Kept()-coming)
	if !v.shelved { // its rank may not be the lowest
		c.rules(func() { c.rule.Evicted(v.rank) })
	}
	c.tellMost(v, m.Own()-coming-n)
	return n
}

// tellMost tells a job the most that it is to hold of its own.
func (c *Core) tellMost(j *job, most share.Bytes) {
	j.told, j.most = true, most
	j.counts.Evictions++
	m := &c.state(j).Memory
	c.notify(j, Notice{Kind: Evicted, Bytes: most + m.Resident() - m.Own()})
}

// waitsError refuses an event of a job that waits for what others hold, who may need what it would
// hold by this to end their iterations.
func (c *Core) waitsError(j *job, kind EventKind) error {
	return fmt.Errorf("job %s: %v: %w for %v: wait for it first", j.spec.Name, kind, ErrWaits,
		c.state(j).Memory.Asked.About())
}

// Told returns the most that a job is to hold, in bytes, if it was told to hold less than it does
// and has reserved nothing since.
func (c *Core) Told(id share.JobID) (most share.Bytes, ok bool) {
	j := c.job(id)
	if j == nil || c.coming(j) == 0 {
		return 0, false
	}
	m := &c.state(j).Memory
	return m.Resident() - c.coming(j), true
}

// mayWait returns nil if a job may wait for what others hold, who may need what it holds to end
// their iterations.
func (c *Core) mayWait(j *job, e *Event) error {
	s := c.state(j)
	if !c.contends(j, e.Memory, e.Bytes) {
		return nil
	}
	if s.InIteration || s.Phase == share.Waiting || !s.Units.Empty() && c.iterates() {
		return fmt.Errorf("job %s: wants %v more memory within an iteration, beside what it "+
			"keeps: %w: reserve it before, while it does not want the device", j.spec.Name,
			e.Bytes.About(), ErrNoMemory)
	}
	return nil
}
