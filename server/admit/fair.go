package admit

import (
	"fmt"
	"slices"
	"time"
)

// This file is fairness among accounts: Goyal, Vin and Cheng, "Start-time fair queueing", IEEE/ACM
// Transactions on Networking 5(5), 1997, section 2, with device time in the place of bytes.
//
//	paper                            here
//	start tag S(p), eq. (4)          request.tag
//	finish tag F(p), eq. (5)         chain.next, where the account's next request starts
//	virtual time v(t): the start     Control.virtual, of the batch's most entitled request
//	  tag of what is in service
//	weight of a flow                 Account.Weight
//
// Departures. What a request costs is known when its batch is done: until then it is charged its
// part of a full batch, and the difference goes to the account's next requests. What is put out or
// cancelled costs nothing. Within an account a more urgent request does not wait behind less urgent
// ones: there is a chain of tags a level, and what an urgent request costs is charged to all less
// urgent chains too, so that an account gains nothing in the long run by how it labels its
// requests. When nothing waits and nothing runs, all begin anew.

// account is one who asks.
type account struct {
	Account
	set     bool // by Control.Account
	waiting int
	running int
	chains  []chain // by level
	epoch   int     // the busy period that the chains are of
}

// chain is where the next request of a level starts in virtual time, and where the last does. What
// goes back to an account does not put its later requests before its earlier ones.
type chain struct{ level, next, last time.Duration }

// sweep is how many accounts may be known that nothing is known of.
const sweep = 1024

// Account sets what an account may have. Accounts that were not set have the zero value's. Requests
// that wait keep their places. The error is an [ErrInvalid].
func (c *Control) Account(name string, a Account) error {
	if a.Weight != 0 && !(a.Weight >= 0.01 && a.Weight <= 100) {
		return fmt.Errorf("account %s: %w: weight is %v: it must be from 0.01 to 100", name,
			ErrInvalid, a.Weight)
	}
	if a.Queue < 0 {
		return fmt.Errorf("account %s: %w: queue is %d: it must not be negative", name, ErrInvalid,
			a.Queue)
	}
	of := c.account(name)
	of.Account, of.set = a, true
	if of.Weight == 0 {
		of.Weight = 1
	}
	return nil
}

// account returns the account of a name.
func (c *Control) account(name string) *account {
	a := c.accounts[name]
	if a == nil {
		if len(c.accounts) >= c.crowd {
			c.forget()
		}
		a = &account{Account: Account{Weight: 1}, epoch: c.epoch}
		c.accounts[name] = a
	}
	if a.epoch != c.epoch {
		a.epoch, a.chains = c.epoch, a.chains[:0]
	}
	return a
}

// forget drops the accounts of which nothing is to be remembered.
func (c *Control) forget() {
	for name, a := range c.accounts {
		idle := !a.set && a.waiting == 0 && a.running == 0
		if idle && (a.epoch != c.epoch || a.next(never) <= c.virtual) {
			delete(c.accounts, name)
		}
	}
	c.crowd = 2*len(c.accounts) + sweep
}

// next is where a request of a level starts, if virtual time has not passed it.
func (a *account) next(level time.Duration) time.Duration {
	for i := len(a.chains) - 1; i >= 0; i-- {
		if h := a.chains[i]; h.level == level {
			return max(h.next, h.last)
		} else if h.level < level {
			return h.next
		}
	}
	return 0
}

// charge puts the cost of a request on those to come of its level and of less urgent ones.
func (c *Control) charge(r *request) {
	a, level := r.account, r.level
	i, ok := slices.BinarySearchFunc(a.chains, level, func(h chain, l time.Duration) int {
		return int(max(-1, min(1, h.level-l)))
	})
	if !ok {
		a.chains = slices.Insert(a.chains, i, chain{level, a.next(level), 0})
	}
	a.chains[i].last = r.tag
	for ; i < len(a.chains); i++ {
		a.chains[i].next = max(a.chains[i].next, c.virtual)
		a.correct(a.chains[i].level, a.chains[i].level, r.cost)
	}
}

// correct puts a difference, which may be negative, on the chains from one level to another.
func (a *account) correct(from, to, cost time.Duration) {
	for i := range a.chains {
		if h := &a.chains[i]; h.level >= from && h.level <= to {
			h.next += a.virtual(cost)
		}
	}
}

// virtual is device time in the account's virtual time.
func (a *account) virtual(d time.Duration) time.Duration {
	return time.Duration(float64(d) / a.Weight)
}

// refund takes back what a request was charged that did not run, or corrects it to what it took.
func (c *Control) refund(r *request, took time.Duration) {
	r.account.correct(r.level, never, took-r.cost)
}

// rest begins anew once nothing waits and nothing runs.
func (c *Control) rest() {
	if c.run == nil && len(c.requests) == 0 {
		c.virtual, c.epoch = 0, c.epoch+1
	}
}
