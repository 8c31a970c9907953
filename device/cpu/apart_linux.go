package cpu

import (
	"runtime"
	"time"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

const (
	// apartEvery is how often a worker moves at most. A move is five system calls and a switch of
	// threads, some 30 us.
	apartEvery = time.Millisecond
	// apartShare is of how much time a move takes one part at most. One takes milliseconds where
	// other programs compute on all other processors: then the worker, for whose chunk the caller
	// waits, is better off where it is.
	apartShare = 32
)

// apart moves the calling thread off the processor at, where the caller of its region is. Linux
// looks for threads of others as a processor runs out of its own only where it has been idle for
// long enough on average (sched_balance_newidle): beside threads that sleep and wake often, such as
// those that answer requests, two threads that compute stay on one processor for milliseconds while
// another is idle.
//
// A thread that is tied to one processor stays there. w is the worker's own, and nothing is
// allocated.
func apart(at int, w *place) {
	if at < 0 || cpuinfo.Place() != at {
		return
	}
	now := time.Now()
	if now.Before(w.stays) {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	if w.mask.read() {
		w.mask.leave(at)
	}
	w.stays = now.Add(stay(time.Since(now)))
}

// stay is for how long a worker moves no more after a move that took so long.
func stay(took time.Duration) time.Duration { return max(apartEvery, took*apartShare) }
