package scenario

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// door is where jobs wait that do not fit beside the others (Job.Wait): in their order, and behind
// one that waits. Each place that is freed is offered to the first.
type door struct {
	opening sync.Mutex // held by who lets jobs in

	mu    sync.Mutex // guards what follows, and tenants that are let in
	queue []waiter
	busy  int // jobs that may hold what others wait for
}

// waiter is a job at the door, and why it was not let in when it was asked for.
type waiter struct {
	t      *tenant
	index  int // among the scenario's jobs
	reason error
}

// mayWait reports whether others' ends could let a job in that was refused with an error.
func mayWait(err error) bool {
	return err != nil && !errors.Is(err, core.ErrOverCap) && !errors.Is(err, core.ErrName) &&
		!errors.Is(err, share.ErrInvalid)
}

// waits has a job wait that was refused, or that may not pass others who wait, and reports whether
// it does.
func (s *stage) waits(t *tenant, index int, reason error) bool {
	if s.broker == nil || !t.p.spec.Wait {
		return false
	}
	d := &s.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if !mayWait(reason) || t.driver != nil || t.admit != nil {
		return false
	}
	d.queue = append(d.queue, waiter{t, index, reason})
	return true
}

// errBehind: a job that came before waits.
var errBehind = errors.New("others wait before it")

// behind returns errBehind where a job would pass others who wait.
func (s *stage) behind(t *tenant) error {
	d := &s.door
	d.mu.Lock()
	defer d.mu.Unlock()
	if s.broker == nil || !t.p.spec.Wait || len(d.queue) == 0 {
		return nil
	}
	return errBehind
}

// place returns a job's place among those that wait, from 1, and what it waits for; 0 where it does
// not.
func (d *door) place(t *tenant) (int, string) {
	i := slices.IndexFunc(d.queue, func(w waiter) bool { return w.t == t })
	if i < 0 {
		return 0, ""
	}
	first := d.queue[0]
	if i == 0 {
		return 1, first.reason.Error()
	}
	return i + 1, fmt.Sprintf("job %s: waits behind job %s: %v", t.p.spec.Name,
		first.t.p.spec.Name, first.reason)
}

// leave is the end of a job that has run: who waits is let in.
func (s *stage) leave(ctx context.Context, t *tenant, wg *sync.WaitGroup) {
	d := &s.door
	d.mu.Lock()
	waited := len(d.queue) > 0
	d.mu.Unlock()
	if !waited || ctx.Err() != nil {
		return
	}
	t.fail(nil)
	d.mu.Lock()
	d.busy-- // it holds nothing any more
	d.mu.Unlock()
	s.openDoor(ctx, wg)
}

// openDoor lets in those who wait, in their order, as far as they fit.
func (s *stage) openDoor(ctx context.Context, wg *sync.WaitGroup) {
	d := &s.door
	d.opening.Lock()
	defer d.opening.Unlock()
	for ctx.Err() == nil {
		d.mu.Lock()
		alone := d.busy == 0
		if len(d.queue) == 0 {
			d.mu.Unlock()
			return
		}
		first := d.queue[0]
		d.mu.Unlock()
		in := *first.t // watched by others until it is in
		in.result.WaitedS = s.now().Seconds()
		err := s.load(ctx, &in, first.index)
		switch {
		case err != nil && ctx.Err() != nil:
			in.fail(err)
			return
		case err != nil && in.admit == nil && mayWait(err) && !alone:
			d.mu.Lock()
			d.queue[0].reason = err
			d.mu.Unlock()
			return
		case err != nil:
			s.turnAway(&in, err)
		}
		d.mu.Lock()
		*first.t, d.queue = in, d.queue[1:]
		if err == nil {
			d.busy++
		}
		d.mu.Unlock()
		if err == nil {
			s.drive(ctx, first.t, wg)
		}
	}
}

// closeDoor is the end for those who wait.
func (s *stage) closeDoor() {
	d := &s.door
	d.mu.Lock()
	defer d.mu.Unlock()
	for i := range d.queue {
		t := d.queue[i].t
		_, reason := d.place(t)
		t.result.Status, t.result.WaitedS = StatusRefused, s.phase.Wall.Seconds()
		t.result.Error = fmt.Sprintf("waited at place %d: %s", i+1, reason)
	}
}
