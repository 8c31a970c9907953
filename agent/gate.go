package agent

import (
	"context"
	"errors"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// This file is what a job's goroutine does: a state machine that asks for leases and opens and
// closes the gate in the job's page.
//
//	state      gate    lease    what ends it                              next
//	idle       closed  none     a process waits, nothing is in flight     waiting
//	waiting    closed  wanted   granted                                   open
//	                            no process waits any more                 idle
//	open       open    held     over, and renewed as nobody waits         open
//	                            over otherwise                            yielding
//	                            no process has anything to do             resting, leaving
//	resting    open    rests    a process has work, and it may go on      open
//	                            others are to have the device             leaving
//	yielding   closed  held     nothing is in flight                      returning
//	                            something stays in flight for too long    idle
//	returning  closed  wanted   granted                                   probing
//	                            no process is there any more              idle
//	probing    open    held     a process has work, or the lease is over  open
//	                            none has                                  leaving
//	leaving    closed  held     nothing, or something for too long, is    idle
//	                            in flight
//
// and from each of them, when the job ends, to ended. A lease that is held or rests keeps the
// device from others, so that in a state with the gate open, or with work in flight from before,
// nobody else is let in; the job pays for it but where it rests and nobody waits. That a lone
// program does not notice the end of a lease, or its own idleness, takes a policy that leaves no
// device idle and a job without a limit (mayStay): such a job renews with its gate open, and rests.
//
// A job is in returning because others had their turn: its threads may be on their way to the gate,
// so that it waits for the device although no process does.

// state is what a job's goroutine does.
type state uint8

const (
	stateIdle state = iota
	stateWaiting
	stateOpen
	stateResting
	stateYielding
	stateReturning
	stateProbing
	stateLeaving
	stateEnded
)

var stateNames = [...]string{"idle", "waiting", "running", "idle", "draining", "waiting", "running",
	"draining", "idle"}

// String returns what people are told: "idle", "waiting", "running" or "draining".
func (s state) String() string { return stateNames[s] }

// isOpen reports whether the gate is open in this state.
func (s state) isOpen() bool { return s == stateOpen || s == stateResting || s == stateProbing }

// look is how often the page is looked at although nobody said that it changed.
const look = 5 * time.Millisecond

// lookKept is how often it is looked whether a job has work that rests although others wait.
const lookKept = time.Millisecond

// errUnwanted: no process waits any more.
var errUnwanted = errors.New("nobody waits")

// run drives the gate until the job ends.
func (j *job) run() {
	for s := stateIdle; s != stateEnded; {
		s = j.pass(s)
	}
}

// pass enters a state and returns the one that follows.
func (j *job) pass(s state) state {
	j.mu.Lock()
	j.state = s
	j.mu.Unlock()
	switch s {
	case stateIdle:
		return j.awaitWork()
	case stateWaiting:
		return j.awaitLease()
	case stateOpen:
		return j.open()
	case stateResting:
		return j.rest()
	case stateYielding:
		return j.yield()
	case stateReturning:
		return j.comeBack()
	case stateProbing:
		return j.probe()
	case stateLeaving:
		return j.leave()
	}
	return stateEnded
}

// awaitWork waits until a process waits at the gate and nothing is in flight from before.
func (j *job) awaitWork() state {
	t := time.NewTimer(wire.Beat)
	defer t.Stop()
	for {
		drained := j.settleOverstay()
		switch {
		case j.ctx.Err() != nil:
			return stateEnded
		case j.wants() && drained:
			return stateWaiting
		}
		t.Reset(wire.Beat)
		j.sleep(t.C)
	}
}

// settleOverstay charges a job whose drain took too long for the time since others were let in
// beside it. It reports whether nothing is in flight any more.
func (j *job) settleOverstay() bool {
	drained := j.undrained() == nil
	if j.overstays {
		j.lease.Charge(share.Forever) // all the time since it was charged last
		j.overstays = !drained
	}
	return drained
}

// awaitLease acquires the lease.
func (j *job) awaitLease() state {
	return j.acquire(stateOpen, func(ctx context.Context) (err error) {
		_, err = j.bj.Acquire(ctx)
		return err
	})
}

// comeBack gives the device to others and waits for it again.
func (j *job) comeBack() state { return j.acquire(stateProbing, j.lease.Renew) }

// acquire waits for the lease, and for the job's memory, until no process wants it any more.
func (j *job) acquire(granted state, get func(context.Context) error) state {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	err := errUnwanted
	j.mu.Lock()
	if wanted := j.wantsLocked(); wanted {
		j.cancelWait, err = cancel, nil
	}
	j.mu.Unlock()
	if err == nil {
		err = get(ctx)
	}
	unplaced := false
	if err == nil {
		err = j.place(ctx)
		unplaced = err != nil
	}
	j.mu.Lock()
	j.cancelWait = nil
	j.mu.Unlock()
	switch {
	case err == nil:
		return granted
	case unplaced:
		j.unplaced(err)
		return stateIdle
	case j.ctx.Err() != nil || errors.Is(err, core.ErrEnded):
		return stateEnded
	}
	j.giveBack()
	return stateIdle
}

// open keeps the gate open until the job cannot just go on running.
func (j *job) open() state {
	j.openGate()
	t := time.NewTimer(look)
	defer t.Stop()
	for {
		switch {
		case j.ctx.Err() != nil:
			return stateEnded
		case j.mustRest():
			return stateYielding
		case j.lease.Revoked():
			if !j.mayStay() || !j.lease.TryRenew() {
				return stateYielding
			}
			j.openGate()
		case j.quiet():
			if j.mayStay() {
				return stateResting
			}
			return stateLeaving
		}
		j.reopen()
		j.tellUse()
		t.Reset(j.untilLook())
		if j.sleep(t.C) {
			j.noteQuiet()
		}
	}
}

// rest leaves the gate open for nothing while nobody else is to have the device. The policy may
// keep it from those who wait for the length of a pause, so that the page is looked at more often
// then.
func (j *job) rest() state {
	_, used := j.activity()
	if j.lease.Rest() != nil {
		return stateLeaving
	}
	j.setEnd(noEnd)
	t := time.NewTimer(look)
	defer t.Stop()
	for {
		revoked := j.lease.Until() == 0
		switch {
		case j.ctx.Err() != nil:
			return stateEnded
		case revoked || !j.quiet() || j.mustRest():
			_, measured := j.activity()
			j.lease.Charge(elapsed(used, measured))
			if j.lease.Resume() {
				return stateOpen
			}
			return stateLeaving
		}
		t.Reset(look)
		if j.dev.broker.Waiting() {
			t.Reset(lookKept)
		}
		j.sleep(t.C)
	}
}

// yield ends the job's turn.
func (j *job) yield() state {
	j.shut()
	drained := j.drain()
	if j.bj.Spec().Cap() < 1 {
		j.measure() // what it did not use of the turn its limit has back in part
	}
	if drained {
		return stateReturning
	}
	j.giveBack()
	return stateIdle
}

// leave gives the device back of a job that has nothing to do.
func (j *job) leave() state {
	j.shut()
	j.drain()
	j.giveBack()
	return stateIdle
}

// probe opens the gate for a job that was busy before others had their turn, and waits for a
// process to have work.
func (j *job) probe() state {
	before := j.openGate()
	t := time.NewTimer(wire.Idle)
	defer t.Stop()
	for over := false; ; {
		now, _ := j.activity()
		switch {
		case j.ctx.Err() != nil:
			return stateEnded
		case now != before || j.wants() || j.lease.Revoked():
			return stateOpen
		case over:
			return stateLeaving
		}
		over = j.sleep(t.C)
	}
}

// sleep returns when somebody says that the page changed, the job ends, or the timer has run out,
// which it reports.
func (j *job) sleep(timer <-chan time.Time) bool {
	defer j.heedBounds()
	select {
	case <-j.kicked:
	case <-j.ctx.Done():
	case <-timer:
		return true
	}
	return false
}

// giveBack releases the lease, if there is one.
func (j *job) giveBack() {
	j.lease.Release()
}

// mayStay reports whether nothing but its own work keeps the job from a device that nobody else
// wants.
func (j *job) mayStay() bool {
	return j.dev.conserving.Load() && j.bj.Spec().Cap() >= 1
}

// drain waits for what the job has in flight; see [Agent.drained].
func (j *job) drain() bool { return j.a.drained(j.ctx, j.kicked, nil, j) }
