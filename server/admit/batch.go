package admit

import (
	"cmp"
	"slices"
	"time"
)

// This file puts requests together, as Triton's dynamic batcher does (triton-inference-server/core,
// src/dynamic_batch_scheduler.cc). A batch is sent when it has a preferred size, when it cannot
// grow, or when its oldest request has waited for the delay; with no delay, when the device is
// idle. The largest preferred size that is there is sent, and all of it once the delay has passed.
//
// Departures: a batch is sent sooner where a deadline asks for it; requests of another signature
// may go before; and a model without preferred sizes waits for the largest batch.

// group is the batches to come of the requests that may share one: those for a model that have the
// same signature. They are in order of their keys.
type group struct {
	model     *model
	signature string
	batches   []*batch
	held      int
}

// batch is requests that are to run together.
type batch struct {
	group   *group
	members []*request  // by claim
	one     [1]*request // room for the one that most have
	key     time.Duration
	rows    int
	time    time.Duration // forecast
	due     time.Duration // the earliest of its members' deadlines
	oldest  time.Duration // arrival of its oldest member
	ready   time.Duration // from when on it is sent to an idle device
	node
}

// byKey is for binary searches among batches.
func (b *batch) byKey(o *batch) int {
	return cmp.Or(cmp.Compare(b.key, o.key), cmp.Compare(b.number, o.number))
}

// hold returns the group of a request, which stays until release was called as often, and until
// another is released: most models have one.
func (m *model) hold(signature string) *group {
	g := m.groups[signature]
	if g == nil {
		g = &group{model: m, signature: signature}
		m.groups[signature] = g
	}
	g.held++
	return g
}

func (g *group) release() {
	if g.held--; g.held > 0 {
		return
	}
	m := g.model
	if old := m.idle; old != nil && old != g && old.held == 0 {
		delete(m.groups, old.signature)
	}
	m.idle = g
}

// alone reports whether the group's requests never share a batch; its batches are then not listed.
func (g *group) alone() bool { return g.model.Batch.Max == 1 }

// at is the index of b in the group's list, or where it would be.
func (g *group) at(b *batch) int {
	i, _ := slices.BinarySearchFunc(g.batches, b, (*batch).byKey)
	return i
}

// create puts a new batch of these requests into the plan.
func (c *Control) create(g *group, members ...*request) *batch {
	c.plan.last++
	b := &batch{group: g, key: members[0].key, node: node{number: c.plan.last}}
	b.members = append(b.one[:0], members...)
	c.enter(b)
	return b
}

// enter puts a batch that has members into the plan and its group's list.
func (c *Control) enter(b *batch) {
	for _, r := range b.members {
		r.batch = b
	}
	g, last := b.group, true
	if !g.alone() {
		i := g.at(b)
		g.batches = slices.Insert(g.batches, i, b)
		if last = i == len(g.batches)-1; last && i > 0 {
			c.refresh(g.batches[i-1]) // it grows no more
		}
	}
	b.sum(last)
	c.plan.insert(b)
}

// leave takes a batch out of the plan and its group's list.
func (c *Control) leave(b *batch) {
	c.plan.remove(b)
	g := b.group
	if g.alone() {
		return
	}
	i := g.at(b)
	g.batches = slices.Delete(g.batches, i, i+1)
	if i == len(g.batches) && i > 0 {
		c.refresh(g.batches[i-1]) // it may grow again
	}
}

// refresh sums a batch of the plan up after a change that leaves its first member.
func (c *Control) refresh(b *batch) {
	g := b.group
	b.sum(g.alone() || g.batches[len(g.batches)-1] == b)
	c.plan.update(b)
}

// put makes r a member of b.
func (c *Control) put(b *batch, r *request) {
	i, _ := slices.BinarySearchFunc(b.members, r, (*request).byClaim)
	c.change(b, func() { b.members = slices.Insert(b.members, i, r) })
	r.batch = b
}

// take ends that r is a member of its batch.
func (c *Control) take(r *request) {
	b := r.batch
	r.batch = nil
	c.change(b, func() { b.members = slices.DeleteFunc(b.members, r.is) })
}

// change changes the members of a batch. It goes to an earlier place with its first member, and
// keeps its place when that goes: the others were promised it.
func (c *Control) change(b *batch, how func()) {
	how()
	switch {
	case !b.in:
		c.enter(b)
	case len(b.members) == 0:
		c.leave(b)
	case b.members[0].key < b.key:
		c.move(b, b.members[0].key)
	default:
		c.refresh(b)
	}
}

// move gives a batch another place.
func (c *Control) move(b *batch, key time.Duration) {
	if b.key != key {
		c.leave(b)
		b.key = key
		c.enter(b)
	}
}

// sum brings what is known of a batch up to date. A batch that is not the last of its group does
// not grow, since who comes later goes later.
func (b *batch) sum(last bool) {
	b.rows, b.due, b.oldest = 0, never, never
	for _, r := range b.members {
		b.rows += r.Rows
		b.due = min(b.due, r.due)
		b.oldest = min(b.oldest, r.at)
	}
	m := b.group.model
	b.time = m.time(b.group.signature, b.rows)
	b.ready = 0
	if d := m.Batch.Delay; d > 0 && last && !m.sent(b.members) {
		b.ready = min(b.oldest, never-d) + d
	}
}

// sent reports whether these requests have a size at which they are sent without waiting.
func (m *model) sent(members []*request) bool {
	sizes := m.Batch.Preferred
	if len(sizes) == 0 {
		sizes = []int{m.Batch.Max}
	}
	rows := 0
	for _, r := range members {
		rows += r.Rows
		if _, ok := slices.BinarySearch(sizes, rows); ok {
			return true
		}
	}
	return rows >= sizes[len(sizes)-1]
}

// fill adds to a batch that is about to start, and is out of the plan, what comes next in its
// group, as long as all are on time.
func (c *Control) fill(b *batch) {
	g := b.group
	for len(g.batches) > 0 {
		r := g.batches[0].members[0]
		if b.rows+r.Rows > g.model.Batch.Max {
			return
		}
		t := g.model.time(g.signature, b.rows+r.Rows)
		if c.now+t > min(b.due, r.due) {
			return
		}
		from := r.batch
		c.take(r)
		if !c.plan.fits(c.now + t) {
			c.put(from, r)
			return
		}
		i, _ := slices.BinarySearchFunc(b.members, r, (*request).byClaim)
		b.members = slices.Insert(b.members, i, r)
		b.sum(true)
	}
}

// trim puts back what a batch that is about to start has beyond the largest preferred size, unless
// its delay has passed or somebody would be late.
func (c *Control) trim(b *batch) {
	n := b.group.model.preferred(b, c.now)
	if n == len(b.members) {
		return
	}
	rest := c.create(b.group, b.members[n:]...)
	shorter := *b
	shorter.members = b.members[:n]
	shorter.sum(true)
	if !c.plan.fits(c.now + shorter.time) {
		c.leave(rest)
		return
	}
	b.members = b.members[:n]
	b.sum(true)
}

// preferred is how many of a batch's members are sent now.
func (m *model) preferred(b *batch, now time.Duration) int {
	sizes := m.Batch.Preferred
	waited := m.Batch.Delay > 0 && now >= b.oldest+m.Batch.Delay
	if len(sizes) == 0 || waited {
		return len(b.members)
	}
	rows, best, below := 0, 0, 0
	for i, r := range b.members {
		rows += r.Rows
		if _, ok := slices.BinarySearch(sizes, rows); ok {
			best = i + 1
		}
		if rows <= sizes[len(sizes)-1] {
			below = i + 1
		}
	}
	switch {
	case best > 0:
		return best
	case below > 0:
		return below
	}
	return len(b.members)
}
