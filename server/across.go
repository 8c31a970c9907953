package server

import (
	"context"
	"sync"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/server/admit"
)

// This file has accounts share the device across models. Within a model its queue does that; but
// which model computes the host's policy says, which knows of no accounts: one that asks many
// models would have as many parts. So batches of accounts go to the host a few at a time, in order
// of what their accounts had.

// atHost is how many batches may be at the host at once: one that computes, and one that the
// policy may choose after it.
const atHost = 2

// across lets batches of accounts go.
type across struct {
	mu    sync.Mutex
	turns *admit.Across
	goes  map[*admit.Turn]chan struct{}
}

func newAcross() *across {
	return &across{turns: admit.NewAcross(atHost), goes: map[*admit.Turn]chan struct{}{}}
}

// enter waits until a batch may go, whose first request is t, and returns what ends it. Batches of
// nobody, on a server without accounts, and those of models of class latency go at once.
func (v *version) enter(ctx context.Context, batch []*task, rows int) (leave func(), err error) {
	t, a := batch[0], v.server.across
	if t.account == "" {
		return func() {}, nil
	}
	before := v.job.Usage()
	if before.Share.Class == weir.Latency {
		return func() {}, nil
	}
	a.mu.Lock()
	turn := a.turns.Arrive(t.account, t.weight, v.queue.Forecast(t.signed, rows))
	var wait chan struct{}
	if !turn.Goes() {
		wait = make(chan struct{})
		a.goes[turn] = wait
	}
	a.mu.Unlock()
	if wait != nil {
		select {
		case <-wait:
		case <-ctx.Done():
			if a.cancel(turn) {
				return nil, ctx.Err()
			}
		}
	}
	return func() { a.done(turn, batch, v.job.Usage().Used-before.Used) }, nil
}

// used is the device time that the version has had, where accounts pay for it.
func (v *version) used(batch []*task) time.Duration {
	if batch[0].account == "" {
		return 0
	}
	return v.job.Usage().Used
}

// cancel takes a batch out that waits, and reports whether it did.
func (a *across) cancel(t *admit.Turn) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.goes, t)
	return a.turns.Cancel(t)
}

// done ends a batch that has used so much: each account pays what it owes, and of the rest its part
// by rows.
func (a *across) done(t *admit.Turn, batch []*task, used time.Duration) {
	rows := 0
	for _, one := range batch {
		rows += one.rows
		used -= one.owes
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	own := time.Duration(0)
	for _, one := range batch {
		part := one.owes + used*time.Duration(one.rows)/time.Duration(rows)
		if one.account == batch[0].account {
			own += part
		} else {
			a.turns.Pay(one.account, one.weight, part)
		}
	}
	if next := a.turns.Done(t, own); next != nil {
		close(a.goes[next])
		delete(a.goes, next)
	}
}
