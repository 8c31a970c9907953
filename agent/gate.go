package agent

import (
	"context"
	"errors"
	"math"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/wire"
)

// This file is a job's goroutine. It goes through
//
//	idle -> waiting -> running -> draining -> idle or waiting
//
// with the gate open while running. Where no other job waits, two shortcuts keep a program that is
// alone from noticing: an expired lease is renewed with the gate open, and an idle job lingers: it
// gives its lease back but leaves its gate open until another job wants the device. A job with a
// limit takes neither.

const (
	// look is how often the page is looked at although nobody said that it changed.
	look = 5 * time.Millisecond
	// drainLook is the same while waiting for a drain.
	drainLook = time.Millisecond
	// grace is how long a renewal may take before the gate is closed.
	grace = 200 * time.Microsecond
)

// errUnwanted: no process waits any more.
var errUnwanted = errors.New("nobody waits")

// run drives the gate until the job ends.
func (j *job) run() {
	for j.awaitWork() {
		lease, err := j.acquire(j.bj.Acquire, false)
		if err != nil {
			if j.ctx.Err() != nil || errors.Is(err, core.ErrEnded) {
				break
			}
			continue
		}
		j.open(lease)
		j.hold(lease)
	}
}

// awaitWork returns when a process waits at the gate and nothing is in flight from before; false if
// the job ends.
func (j *job) awaitWork() bool {
	j.setPhase(phaseIdle)
	t := time.NewTimer(wire.Beat)
	defer t.Stop()
	for !j.wants() || j.undrained() != nil {
		t.Reset(wire.Beat)
		select {
		case <-j.ctx.Done():
			return false
		case <-j.kicked:
		case <-t.C:
		}
	}
	return j.ctx.Err() == nil
}

// acquire waits for a lease, as a waiter that those who linger must give way to, until nobody wants
// it any more. A job that was busy until just now is taken to want it: its threads may be on their
// way to the gate.
func (j *job) acquire(get func(context.Context) (*broker.Lease, error), busy bool) (*broker.Lease,
	error) {
	ctx, cancel := context.WithCancel(j.ctx)
	defer cancel()
	j.mu.Lock()
	j.busy = busy
	if !j.wantsLocked() {
		j.mu.Unlock()
		return nil, errUnwanted
	}
	j.cancelWait, j.phase = cancel, phaseWaiting
	j.mu.Unlock()
	defer func() {
		j.mu.Lock()
		j.cancelWait, j.busy = nil, false
		j.mu.Unlock()
	}()
	l := j.dev.beginWait()
	defer j.dev.endWait()
	if l != nil {
		select {
		case <-l.left:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return get(ctx)
}

// again is for acquire: it renews a lease that is held.
func again(lease *broker.Lease) func(context.Context) (*broker.Lease, error) {
	return func(ctx context.Context) (*broker.Lease, error) { return lease, lease.Renew(ctx) }
}

// reason is why a job does not just go on running.
type reason int

const (
	reasonEnded reason = iota // the job ends
	reasonOver                // the lease is over or revoked
	reasonIdle                // no process has anything to do
)

// hold runs with the gate open until the lease is given back. When it returns the lease is not held
// and the gate is closed, unless the job ends.
func (j *job) hold(lease *broker.Lease) {
	for {
		why := j.watch(lease)
		switch {
		case why == reasonEnded:
			lease.Release()
			return
		case why == reasonOver && j.free():
			if !j.renewOpen(lease) {
				j.shut()
				return
			}
			continue
		case why == reasonIdle && j.free():
			if l := j.dev.tryLinger(); l != nil {
				lease.Release()
				if j.linger(lease, l) {
					continue
				}
				return
			}
		}
		j.shut()
		if !j.drain() || why == reasonIdle {
			lease.Release()
			return
		}
		if _, err := j.acquire(again(lease), true); err != nil {
			lease.Release()
			return
		}
		before, _ := j.activity()
		j.open(lease)
		if !j.shows(lease, before) {
			j.shut()
			j.drain()
			lease.Release()
			return
		}
	}
}

// shows waits for a process to have work, after the gate was opened for a job that was busy before:
// false if none comes.
func (j *job) shows(lease *broker.Lease, before uint64) bool {
	t := time.NewTimer(wire.Idle)
	defer t.Stop()
	for over := false; ; {
		now, _ := j.activity()
		if now != before || j.wants() || lease.Revoked() || j.ctx.Err() != nil || over {
			return !over || now != before
		}
		select {
		case <-j.kicked:
		case <-t.C:
			over = true
		case <-j.ctx.Done():
		}
	}
}

// free reports whether nothing but its own work keeps the job from the device.
func (j *job) free() bool { return j.spec.Cap() >= 1 && !j.dev.contended() }

// watch returns when the job cannot just go on running.
func (j *job) watch(lease *broker.Lease) reason {
	t := time.NewTimer(look)
	defer t.Stop()
	for {
		switch {
		case j.ctx.Err() != nil:
			return reasonEnded
		case lease.Revoked():
			return reasonOver
		case j.resting():
			return reasonIdle
		}
		j.reopen()
		wait := look
		if until := lease.Until(); until != share.Forever {
			wait = min(wait, until-j.dev.broker.Now())
		}
		t.Reset(max(0, wait))
		select {
		case <-j.kicked:
		case <-j.ctx.Done():
		case <-t.C:
			j.rest()
		}
	}
}

// renewOpen renews a lease that nobody else waits for. Should somebody come at this moment, the
// gate is closed while they run.
func (j *job) renewOpen(lease *broker.Lease) bool {
	renewed := false // guarded by the job's lock
	timer := time.AfterFunc(grace, func() {
		j.mu.Lock()
		defer j.mu.Unlock()
		if !renewed {
			j.setGate(false, 0)
		}
	})
	defer timer.Stop()
	if lease.Renew(j.ctx) != nil {
		return false
	}
	// A timer that ran out in this moment may be about to close the gate: not any more.
	j.mu.Lock()
	renewed = true
	j.mu.Unlock()
	if timer.Stop() {
		j.extend(lease)
	} else {
		j.open(lease)
	}
	return true
}

// linger leaves the gate open without a lease until a process has work again, for which it acquires
// a lease and returns true, or until another job wants the device.
func (j *job) linger(lease *broker.Lease, l *linger) bool {
	j.setPhase(phaseIdle)
	defer close(l.left)
	j.page.Header().LeaseUntilNS.Store(noEnd)
	start, from := j.activity()
	t := time.NewTicker(look)
	defer t.Stop()
	for {
		select {
		case <-l.leave:
			j.shut()
			j.drain()
			return false
		case <-j.ctx.Done():
			j.dev.endLinger(l)
			return false
		case <-j.kicked:
		case <-t.C:
		}
		now, ns := j.activity()
		if now == start && !j.wants() {
			continue
		}
		j.addLoose(from, ns)
		if !j.dev.resume(l) {
			continue // told to leave
		}
		_, err := j.bj.Acquire(j.ctx)
		j.dev.endWait()
		if err != nil {
			j.shut()
			return false
		}
		j.extend(lease)
		return true
	}
}

// activity sums what the job's processes gave the device to do and the device time that they
// measured.
func (j *job) activity() (count, ns uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !j.ended {
			count += m.activity()
			ns += m.s.DeviceNSTotal.Load()
		}
	}
	return count, ns
}

// addLoose books device time that processes measured while the job had no lease. It is for people
// to see; nobody was kept waiting for it.
func (j *job) addLoose(from, to uint64) {
	if to <= from || to-from > uint64(time.Second) {
		return
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	j.loose += time.Duration(to - from)
}

// resting reports whether no process of the job has anything to do.
func (j *job) resting() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !m.resting() {
			return false
		}
	}
	return true
}

// rest notes as idle those processes that have done nothing since it was called last and did not
// say so.
func (j *job) rest() {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m == nil || m.conn == nil {
			continue
		}
		now := m.activity()
		m.rest = now == m.done && m.s.Waiting.Load() == 0 && m.s.InflightNS.Load() == 0
		m.done = now
	}
}

// stoppedLook is how often it is looked whether a process that does not drain is stopped.
const stoppedLook = 50 * time.Millisecond

// drain waits until nothing of the job is in flight, or for DrainTimeout, or until the job ends. It
// reports whether nothing is in flight. For a process that is stopped, and cannot say, it waits
// only for as long as that predicted.
func (j *job) drain() bool {
	j.setPhase(phaseDraining)
	began, asked := j.dev.broker.Now(), j.dev.broker.Now()
	most := time.NewTimer(j.a.cfg.DrainTimeout)
	defer most.Stop()
	t := time.NewTicker(drainLook)
	defer t.Stop()
	for {
		m := j.undrained()
		if m == nil {
			return true
		}
		if now := j.dev.broker.Now(); now-asked >= stoppedLook {
			asked = now
			if now-began > stoppedLook+2*time.Duration(
				min(m.s.InflightNS.Load(), uint64(j.a.cfg.DrainTimeout))) &&
				m.process.stopped() {
				j.a.log.Info("process is stopped", "job", j, "pid", m.who.PID)
				return false
			}
		}
		select {
		case <-j.kicked:
		case <-t.C:
		case <-j.ctx.Done():
			return false
		case <-most.C:
			j.a.log.Warn("drain timed out", "job", j, "pid", m.who.PID, "after",
				j.a.cfg.DrainTimeout)
			return false
		}
	}
}

func (j *job) undrained() *member {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !m.drained(j.gate) {
			return m
		}
	}
	return nil
}

// open opens the gate for a lease.
func (j *job) open(lease *broker.Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		// Those who waited are about to launch, though nothing shows it yet.
		if m != nil && m.s.Waiting.Load() > 0 {
			m.rest = false
		}
	}
	j.phase = phaseRunning
	j.setGate(true, j.until(lease))
}

// extend tells of a lease renewed with the gate open.
func (j *job) extend(lease *broker.Lease) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.phase = phaseRunning
	j.setGate(true, j.until(lease))
}

// shut closes the gate.
func (j *job) shut() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.setGate(false, 0)
}

// revoked closes the gate at once: somebody of a higher class waits, and the way to the job's
// goroutine is saved. It is called under the broker's lock, which is taken after the job's
// elsewhere; if the job's is held, the goroutine does it.
func (j *job) revoked() {
	if !j.mu.TryLock() {
		return
	}
	defer j.mu.Unlock()
	if j.phase == phaseRunning {
		j.setGate(false, 0)
	}
}

// setGate writes the gate and wakes those who wait for it, with the job's lock held.
func (j *job) setGate(open bool, until uint64) {
	if j.unmapped {
		return
	}
	h := j.page.Header()
	h.LeaseUntilNS.Store(until)
	next := wire.NextGate(j.gate, open)
	if next == j.gate {
		return
	}
	j.gate, j.stale = next, false
	h.Gate.Store(next)
	j.wake()
}

// noEnd is the end of a lease for which the gate is not to be closed before the agent does so.
const noEnd = math.MaxUint64

// late is how much after a lease's end the page says that it ends: programs that hear nothing from
// the agent until then close the gate themselves.
const late = 2 * time.Millisecond

// until is a lease's end on the clock of the page.
func (j *job) until(lease *broker.Lease) uint64 {
	u := lease.Until()
	if u == share.Forever || j.free() {
		return noEnd
	}
	return uint64(wire.Monotonic() + u - j.dev.broker.Now() + late)
}

// overdue takes note that a process holds the gate, open at this value, for closed, because the
// lease that the page told of is over.
func (j *job) overdue(gate uint32) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.stale = j.stale || wire.IsOpen(gate) && gate == j.gate
}

// reopen gives the open gate a new value if a process holds it for closed.
func (j *job) reopen() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.stale && wire.IsOpen(j.gate) {
		j.setGate(false, 0)
		j.setGate(true, noEnd)
	}
}

func (j *job) setPhase(p phase) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.phase = p
}
