package server

import (
	"sync"

	"github.com/weirgpu/weir/server/auth"
	"github.com/weirgpu/weir/server/oip"
)

// waiters counts the requests of accounts that wait, over all models. Only those of accounts with
// a bound are counted.
type waiters struct {
	mu      sync.Mutex
	waiting map[string]int
}

// wait counts a request in until task.begin. The error is a fault of kind Exhausted where the
// account has as many as it may.
func (c *waiters) wait(a *auth.Account, t *task) error {
	if a.Queue == 0 {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := c.waiting[a.Name]; n >= a.Queue {
		f := oip.Faultf(oip.Exhausted, "account %s: %d requests are waiting, which is as many as "+
			"it may have: ask again once one is answered", a.Name, n)
		f.RetryAfter = retry
		return f
	}
	if c.waiting == nil {
		c.waiting = map[string]int{}
	}
	c.waiting[a.Name]++
	t.waits, t.by = c, a.Name
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
	if c.waiting[t.by]--; c.waiting[t.by] == 0 {
		delete(c.waiting, t.by)
	}
}
