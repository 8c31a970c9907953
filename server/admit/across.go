package admit

import (
	"container/heap"
	"time"
)

// This file is fairness among accounts across models: Jin, Chase and Kaur, "Interposed proportional
// sharing for a storage service utility", SIGMETRICS 2004, section 4.2, SFQ(D), with a batch in the
// place of a request. At most so many batches are under way of all models; who goes next has the
// least start tag, which is where the batches of its account before it end in virtual time. The
// device is never left idle for it.
//
// Departures. What a batch costs is known when it is done: until then it is charged what its
// forecast says, and the difference goes to the account's next batches. A batch may be of several
// accounts: it goes when the first one's turn is, and each pays its part.

// Across decides which batches of several models go to the device together. Its methods are for one
// goroutine at a time, and read no clock.
type Across struct {
	depth   int
	under   int
	virtual time.Duration // the start tag of what went last
	last    map[string]time.Duration
	waiting turns
	number  uint64
}

// Turn is a batch on its way.
type Turn struct {
	account string
	weight  float64
	cost    time.Duration // it was charged
	start   time.Duration
	number  uint64
	place   int // among those that wait; -1 once it goes
}

// NewAcross returns an Across that lets so many batches be under way, 1 at least.
func NewAcross(depth int) *Across {
	return &Across{depth: max(depth, 1), last: map[string]time.Duration{}}
}

// Arrive is a batch of an account of a weight, which is forecast to take cost. It goes at once
// where Goes says so, and else once Done returns it.
func (a *Across) Arrive(account string, weight float64, cost time.Duration) *Turn {
	if weight == 0 {
		weight = 1
	}
	a.number++
	t := &Turn{account: account, weight: weight, cost: max(cost, 1), number: a.number,
		start: max(a.virtual, a.last[account])}
	a.last[account] = t.start + t.virtual(t.cost)
	heap.Push(&a.waiting, t)
	a.next()
	return t
}

// Goes reports whether the batch may go.
func (t *Turn) Goes() bool { return t.place < 0 }

// virtual is device time in the account's virtual time.
func (t *Turn) virtual(d time.Duration) time.Duration {
	return time.Duration(float64(d) / t.weight)
}

// Done ends a batch, which has used so much, and returns the one that goes next, nil for none.
func (a *Across) Done(t *Turn, used time.Duration) *Turn {
	a.under--
	a.correct(t, used-t.cost)
	return a.next()
}

// Pay charges an account of a weight for its part of a batch that goes by another's turn, before
// Done ends that.
func (a *Across) Pay(account string, weight float64, used time.Duration) {
	if weight == 0 {
		weight = 1
	}
	t := &Turn{account: account, weight: weight}
	a.last[account] = max(a.virtual, a.last[account]) + t.virtual(used)
}

// Cancel takes a batch out that waits, and reports whether it did.
func (a *Across) Cancel(t *Turn) bool {
	if t.Goes() {
		return false
	}
	heap.Remove(&a.waiting, t.place)
	a.correct(t, -t.cost)
	return true
}

// correct charges an account more, or less; those that wait keep their places. Nothing is
// remembered of an account once it is behind what goes, or where nothing waits and nothing is under
// way.
func (a *Across) correct(t *Turn, more time.Duration) {
	if a.under == 0 && len(a.waiting) == 0 {
		a.virtual = 0
		clear(a.last)
		return
	}
	if next := a.last[t.account] + t.virtual(more); next > a.virtual {
		a.last[t.account] = next
	} else {
		delete(a.last, t.account)
	}
}

// next lets a batch go, if there is room.
func (a *Across) next() *Turn {
	if a.under >= a.depth || len(a.waiting) == 0 {
		return nil
	}
	t := heap.Pop(&a.waiting).(*Turn)
	a.under++
	a.virtual = max(a.virtual, t.start)
	return t
}

// turns are those that wait as a heap, the least start tag first. It implements heap.Interface.
type turns []*Turn

func (h turns) Len() int { return len(h) }
func (h turns) Less(i, j int) bool {
	return h[i].start < h[j].start || h[i].start == h[j].start && h[i].number < h[j].number
}
func (h turns) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *turns) Push(x any) {
	t := x.(*Turn)
	t.place = len(*h)
	*h = append(*h, t)
}

func (h *turns) Pop() any {
	n := len(*h) - 1
	t := (*h)[n]
	(*h)[n] = nil
	*h = (*h)[:n]
	t.place = -1
	return t
}
