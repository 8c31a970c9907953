package server

import (
	"sync"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// waiters counts the requests of accounts that wait, over all models, and their bytes.
type waiters struct {
	mu      sync.Mutex
	waiting map[string]waiting
}

// waiting is what an account has.
type waiting struct {
	requests int
	bytes    int64
}

// within reports whether an account that has so much of something, that some more is free of, may
// have more than that: up to its weight times what is then left for others. So one alone has its
// part and no more, several have parts by their weights, and a newcomer finds some left (Choudhury
// and Hahne, "Dynamic queue length thresholds for shared-memory packet switches", IEEE/ACM
// Transactions on Networking 6(2), 1998, section III). Where there are no accounts, all may be had.
func within(a *auth.Account, has, more, free int64) bool {
	return a.Name == "" || float64(has+more) <= max(a.Weight, auth.LeastWeight)*float64(free-more)
}

// wait counts a request of so many bytes in until task.begin, where free bytes are left for bodies.
// The error is a fault of kind Exhausted where the account has as many requests as it may, or their
// bytes are its part of those for bodies.
func (c *waiters) wait(a *auth.Account, t *task, bytes, free int64) error {
	if a.Name == "" && a.Queue == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[a.Name]
	var f *oip.Fault
	switch {
	case a.Queue > 0 && w.requests >= a.Queue:
		f = oip.Faultf(oip.Exhausted, "account %s: %d requests are waiting, which is as many as "+
			"it may have: ask again once one is answered", a.Name, w.requests)
	case w.requests > 0 && !within(a, w.bytes, bytes, free+bytes): // which are held already
		f = oip.Faultf(oip.Exhausted, "account %s: requests of %d bytes are waiting, which is its "+
			"part of what there is: ask again once one is answered", a.Name, w.bytes)
	}
	if f != nil {
		f.RetryAfter = retry
		return f
	}
	if c.waiting == nil {
		c.waiting = map[string]waiting{}
	}
	c.waiting[a.Name] = waiting{w.requests + 1, w.bytes + bytes}
	t.waits, t.by, t.bytes = c, a.Name, bytes
	return nil
}

// begin ends that the request waits; a second call does nothing.
func (t *task) begin() {
	c := t.waits
	if c == nil {
		return
	}
	t.waits = nil
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.waiting[t.by]
	if w = (waiting{w.requests - 1, w.bytes - t.bytes}); w.requests == 0 {
		delete(c.waiting, t.by)
		return
	}
	c.waiting[t.by] = w
}
