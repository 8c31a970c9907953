package admit

import (
	"container/heap"
	"time"
)

// This file is the bounds of a model's queue. A full queue takes a request with a better claim for
// the one with the worst, so that who floods a queue does not shut others out of it.

// request is a request that waits or runs.
type request struct {
	Request
	model   *model
	account *account
	group   *group
	batch   *batch        // nil once it runs
	at      time.Duration // of its arrival
	due     time.Duration // the deadline, or never
	level   time.Duration
	tag     time.Duration // where it starts in virtual time, by its account
	key     time.Duration // its place in the plan: tag and level, or somewhat later
	number  uint64        // in order of arrival
	cost    time.Duration // that it was charged
	place   int           // in the model's heap; -1 outside
}

// byClaim is for binary searches among requests of a batch.
func (r *request) byClaim(o *request) int {
	switch {
	case r.key < o.key, r.key == o.key && r.number < o.number:
		return -1
	case r == o:
		return 0
	}
	return 1
}

func (r *request) is(o *request) bool { return r == o }

// byClaim is the requests that wait for a model as a heap, the worst claim first. It implements
// heap.Interface.
type byClaim []*request

func (h byClaim) Len() int           { return len(h) }
func (h byClaim) Less(i, j int) bool { return h[i].byClaim(h[j]) > 0 }
func (h byClaim) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *byClaim) Push(x any) {
	r := x.(*request)
	r.place = len(*h)
	*h = append(*h, r)
}

func (h *byClaim) Pop() any {
	n := len(*h) - 1
	r := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	r.place = -1
	return r
}

// bounded returns the refusal of a request for which there is no room; nil if there is, or if there
// is once somebody with a worse claim is put out.
func (c *Control) bounded(r *request) *Refusal {
	m, a := r.model, r.account
	if a.Queue > 0 && a.waiting >= a.Queue {
		return c.refusal(m, ErrAccount, c.drained(m), "%d", a.waiting)
	}
	if r.Bytes > m.Model.Bytes {
		return c.refusal(m, ErrInvalid, 0, "a request of %d bytes, and all that wait may have %d",
			r.Bytes, m.Model.Bytes)
	}
	if m.over(1, r.Bytes) && !c.outranks(r, m.waiting[0].key) {
		return c.refusal(m, ErrFull, c.drained(m), "%d requests of %d bytes wait", len(m.waiting),
			m.bytes)
	}
	return nil
}

// over reports whether so much more is more than may wait.
func (m *model) over(requests int, bytes int64) bool {
	return len(m.waiting)+requests > m.Queue || bytes > m.Model.Bytes-m.bytes
}

// better is by how many of the longest batches a claim must be better for another to be put out.
// More of it and accounts with equal loads put each other out more rarely, and one that asks for
// less than its part is refused more often beside one that floods.
const better = 1

// outranks reports whether what is at a key may be put out for r.
func (c *Control) outranks(r *request, key time.Duration) bool {
	return key > r.tag+r.level+r.account.virtual(better*c.longest)
}

// wait counts a request that has its place among those that wait.
func (c *Control) wait(r *request) {
	c.requests[r.ID] = r
	r.account.waiting++
	r.model.bytes += r.Bytes
	heap.Push(&r.model.waiting, r)
}

// unwait ends that a request waits.
func (c *Control) unwait(r *request) {
	r.account.waiting--
	r.model.bytes -= r.Bytes
	heap.Remove(&r.model.waiting, r.place)
	r.group.release()
}

// rekey changes the place that a request asks for.
func (r *request) rekey(key time.Duration) {
	r.key = key
	if r.place >= 0 {
		heap.Fix(&r.model.waiting, r.place)
	}
}

// relieve puts out the worst claims while more wait than may.
func (c *Control) relieve(r *request) *Refusal {
	m := r.model
	for m.over(0, 0) {
		x := m.waiting[0]
		if x == r || !c.outranks(r, x.key) {
			c.drop(r)
			return c.refusal(m, ErrFull, c.drained(m), "%d requests of %d bytes wait",
				len(m.waiting), m.bytes)
		}
		c.putOut(x, ErrOutranked)
	}
	return nil
}

// drop takes a request that waits out, as if it had never been.
func (c *Control) drop(r *request) {
	if r.batch != nil {
		c.take(r)
	}
	c.unwait(r)
	c.refund(r, 0)
	delete(c.requests, r.ID)
	c.gone(r.model)
}

// putOut refuses a request that was admitted.
func (c *Control) putOut(r *request, kind error) {
	c.drop(r)
	c.refused = append(c.refused, Refused{r.ID, c.refusal(r.model, kind, c.drained(r.model), "")})
}

// drained is how long it is until what waits for a model has begun.
func (c *Control) drained(m *model) time.Duration {
	d := c.starts() - c.now
	if len(m.waiting) == 0 {
		if c.plan.root != nil {
			d += c.plan.root.work
		}
	} else if last := m.waiting[0].batch; last != nil {
		d += c.plan.ahead(last.key, last.number)
	}
	return max(d, 1)
}

// gone forgets a model that leaves once nothing waits for it and nothing of it runs.
func (c *Control) gone(m *model) {
	if m.leaving && len(m.waiting) == 0 && !m.running {
		delete(c.models, m.Name)
	}
}
