package engine

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
)

// patience is for how long an iteration keeps the device while it waits for something else: about
// what it costs to let another have it, by order of magnitude, since caches and threads are to be
// had again. So a wait costs at most twice what it had to.
const patience = 200 * time.Microsecond

// waiter waits for weights, which whoever has it holds. It is used by one goroutine at a time, and
// again: a switch is to allocate nothing.
type waiter struct {
	*weights
	woken chan struct{} // one token when something has changed
	timer *time.Timer
	needs int64 // bytes that it waits for; weights.mu is held
}

func newWaiter() waiter {
	a := waiter{woken: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	a.timer.Stop()
	return a
}

// Begin implements [plan.Arrival].
func (a *waiter) Begin() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.start()
}

// Await implements [plan.Arrival]. A transfer that fails while it waits is the error; whoever waits
// later has it tried again.
func (a *waiter) Await(x *compute.Exec, n int64) (here int64, err error) {
	w := a.weights
	w.mu.Lock()
	defer w.mu.Unlock()
	failures := w.failures
	for w.loaded < n {
		switch {
		case w.failures != failures:
			return 0, w.err
		case w.own != nil && w.loading == 0:
			err = w.write(x)
		default:
			w.start()
			err = a.wait(x, n)
		}
		if err != nil {
			return 0, err
		}
	}
	return w.loaded, nil
}

// wait returns when so many bytes are there or nobody brings them, or with the context's error: a
// transfer takes its time, and a meter may hold it back for as long as it wants. w.mu is held, but
// not while it waits.
func (a *waiter) wait(x *compute.Exec, n int64) error {
	w := a.weights
	a.needs = n
	w.waiting = append(w.waiting, a)
	w.mu.Unlock()
	told, err := a.told(x)
	w.mu.Lock()
	if i := slices.Index(w.waiting, a); i >= 0 {
		w.waiting = slices.Delete(w.waiting, i, i+1)
	} else if !told {
		<-a.woken // at the same moment
	}
	return err
}

// looks are how often who waits looks for a token before it sleeps: for some tens of microseconds,
// about what waking a thread takes, by order of magnitude. So a wait costs at most twice what it
// had to.
const looks = 1000

// told waits for a token. It keeps the device for a moment, and then leaves it to others.
func (a *waiter) told(x *compute.Exec) (told bool, err error) {
	// what it has on the device ends first, during which they may come
	if err := x.Stream().Wait(); err != nil {
		return false, err
	}
	for range looks {
		if len(a.woken) > 0 {
			<-a.woken
			return true, nil
		}
		runtime.Gosched()
	}
	if _, leaves := x.Gate.(device.Leaver); leaves {
		a.timer.Reset(patience)
		defer a.timer.Stop()
		select {
		case <-a.woken:
			return true, nil
		case <-x.Ctx.Done():
			return false, x.Ctx.Err()
		case <-a.timer.C:
		}
	}
	err = x.Aside(func() error {
		select {
		case <-a.woken:
			told = true
			return nil
		case <-x.Ctx.Done():
			return x.Ctx.Err()
		}
	})
	return told, err
}

// let asks the meter, if there is one, to let so many bytes pass for the iteration of x.
func let(x *compute.Exec, meter device.Meter, bytes int64) error {
	if _, leaves := x.Gate.(device.Leaver); !leaves || meter == nil || bytes == 0 {
		return moves(x.Ctx, meter, bytes)
	}
	ctx, cancel := context.WithTimeout(x.Ctx, patience)
	err := moves(ctx, meter, bytes)
	cancel()
	if x.Ctx.Err() != nil || !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return x.Aside(func() error { return moves(x.Ctx, meter, bytes) })
}

// meterOf is the meter that a quota is, nil where it is none.
func meterOf(q device.Quota) device.Meter {
	m, _ := q.(device.Meter)
	return m
}

// moves asks the meter for so many bytes, if there is one.
func moves(ctx context.Context, meter device.Meter, bytes int64) error {
	if meter == nil || bytes == 0 {
		return nil
	}
	return meter.Transfer(ctx, bytes)
}
