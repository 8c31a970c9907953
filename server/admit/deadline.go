package admit

import (
	"cmp"
	"slices"
	"time"
)

// This file is admission by forecast: Gujarati et al., "Serving DNNs like Clockwork", OSDI 2020,
// section 5. A request gets a place in the plan at its claim, with itself and all others on time,
// or none.

// tries is how often a request is put behind others that have about the same claim.
const tries = 8

// settled is place for a request that has just come: behind others it must have its Spare.
func (c *Control) settled(r *request) (late time.Duration, ok bool) {
	if r.Spare <= 0 || r.due == never || c.run == nil && c.plan.root == nil {
		return c.place(r, true)
	}
	r.due -= r.Spare
	late, ok = c.place(r, true)
	r.due += r.Spare
	if ok {
		c.refresh(r.batch)
	}
	return late, ok
}

// place gives a request a place in the plan, or reports by how much it is late. It puts others out
// if the request outranks them, but only where it then has a place.
func (c *Control) place(r *request, swap bool) (late time.Duration, ok bool) {
	g := r.group
	if g.alone() {
		return c.begin(r)
	}
	i, _ := slices.BinarySearchFunc(g.batches, r.key, func(b *batch, key time.Duration) int {
		if b.key <= key {
			return -1
		}
		return 1
	})
	around := g.batches[max(i-1, 0):min(i+1, len(g.batches))]
	for _, b := range around {
		if c.join(b, r) {
			return 0, true
		}
	}
	if swap && len(around) > 0 && c.swap(around[0], r) {
		return 0, true
	}
	return c.begin(r)
}

// join makes a request a member of a batch if there is room and all are on time with it.
func (c *Control) join(b *batch, r *request) bool {
	if b.rows+r.Rows > b.group.model.Batch.Max {
		return false
	}
	key := b.key
	c.put(b, r)
	if c.plan.fits(c.starts()) {
		return true
	}
	c.take(r)
	c.move(b, key)
	return false
}

// swap gives a request the place of the last member of a batch that has a worse claim, and that one
// another place, or none if the request outranks it. So a request that goes before others does not
// need a batch of its own.
func (c *Control) swap(b *batch, r *request) bool {
	x := b.members[len(b.members)-1]
	if x.key <= r.key || x.Rows < r.Rows {
		return false
	}
	key := b.key
	c.exchange(b, x, r)
	if c.plan.fits(c.starts()) {
		if _, ok := c.place(x, false); ok {
			return true
		}
		if c.outranks(r, x.key) {
			c.putOut(x, ErrOutranked)
			return true
		}
	}
	c.exchange(b, r, x)
	c.move(b, key)
	return false
}

// exchange makes one request a member of a batch in the place of another.
func (c *Control) exchange(b *batch, out, in *request) {
	c.change(b, func() {
		b.members = slices.DeleteFunc(b.members, out.is)
		i, _ := slices.BinarySearchFunc(b.members, in, (*request).byClaim)
		b.members = slices.Insert(b.members, i, in)
	})
	out.batch, in.batch = nil, b
}

// begin gives a request a batch of its own at its claim. Who would be late through it and has about
// the same claim goes before it; who has a worse one is put out. Where a batch of the group is
// ahead already, the new one must have the time to grow: else, under overload, every batch would
// begin as late as it can, and stay small.
func (c *Control) begin(r *request) (late time.Duration, ok bool) {
	key, t := r.key, r.model.time(r.Signature, r.Rows)
	if g := r.group; len(g.batches) > 0 && g.batches[0].key <= key {
		t = r.model.time(r.Signature, r.model.Batch.Max)
	}
	late = t
	for range tries {
		done := c.starts() + c.plan.ahead(r.key, c.plan.last+1) + t
		if done > r.due {
			late = done - r.due
			break
		}
		b := c.create(r.group, r)
		before := c.displace(r)
		if before == nil {
			return 0, true
		}
		c.leave(b)
		r.batch = nil
		r.rekey(before.key)
	}
	r.rekey(key)
	return late, false
}

// displace puts out who is late through r, which outranks them. It returns the first batch that is
// late and that r does not outrank, nil if there is none. Batches are in order of their keys:
// either that is the first that is late, or nobody is put out in vain.
func (c *Control) displace(r *request) *batch {
	for !c.plan.fits(c.starts()) {
		b, _ := c.plan.late(c.starts())
		if !c.outranks(r, b.key) {
			return b
		}
		c.putOut(b.urgent(), ErrOutranked)
	}
	return nil
}

// settle puts out those that can no longer be on time.
func (c *Control) settle() {
	for !c.plan.fits(c.starts()) {
		b, _ := c.plan.late(c.starts())
		c.putOut(b.urgent(), ErrLate)
	}
}

// urgent is the member of a batch that has to be done first.
func (b *batch) urgent() *request {
	return slices.MinFunc(b.members, func(r, o *request) int { return cmp.Compare(r.due, o.due) })
}
