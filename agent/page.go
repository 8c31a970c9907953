package agent

import (
	"math"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// This file is what a job's goroutine reads and writes of the page: what processes do, and the
// gate.

// activity sums what the job's processes gave the device to do and the device time that they
// measured.
func (j *job) activity() (count, ns uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.activityLocked()
}

func (j *job) activityLocked() (count, ns uint64) {
	for _, m := range j.members {
		if m != nil && !j.ended {
			count += m.activity()
			ns += m.s.DeviceNSTotal.Load()
		}
	}
	return count, ns
}

// doings are what processes say that the device did for them: nanoseconds, of launches that passed
// a closed gate apart, and launches.
type doings struct{ used, passed, launches uint64 }

// add adds what the process of a slot says.
func (d *doings) add(s *wire.Slot) {
	d.used += s.DeviceNSTotal.Load()
	d.passed += s.PassedNS.Load()
	d.launches += s.Launches.Load() + s.GraphLaunches.Load()
}

// doings sums what the job's processes say, those that have gone among them. The job's lock is
// held.
func (j *job) doings() doings {
	sum := j.before
	for _, m := range j.members {
		if m != nil {
			sum.add(m.s)
		}
	}
	return sum
}

// measure tells the broker what the job's processes have measured since it was last told.
func (j *job) measure() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.measureLocked()
}

// tellUse tells the broker, of a job that holds the device, what it used of that, every so often
// while others wait: a policy may let them use what it leaves. What passed of theirs it is told
// first.
func (j *job) tellUse() {
	if now := time.Now(); now.Sub(j.toldAt) >= look && j.dev.broker.Waiting() {
		j.toldAt = now
		for _, o := range j.dev.byID.free() {
			o.measure()
		}
		j.measure()
	}
}

// measureLocked is measure with the job's lock held.
func (j *job) measureLocked() {
	if j.unmapped {
		return
	}
	was, now := j.told, j.doings()
	j.told = now
	j.bj.Measure(elapsed(was.used, now.used), elapsed(was.passed, now.passed),
		int64(elapsed(was.launches, now.launches)))
}

// elapsed is the time between two readings of a counter of nanoseconds that programs write.
func elapsed(from, to uint64) time.Duration {
	if to <= from {
		return 0
	}
	return time.Duration(min(to-from, math.MaxInt64))
}

// quiet reports whether no process of the job has anything to do.
func (j *job) quiet() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m != nil && !m.resting() {
			return false
		}
	}
	return true
}

// noteQuiet notes as idle those processes that have done nothing since it was called last and did
// not say so.
func (j *job) noteQuiet() {
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

// undrained returns a process of which something may be in flight, or nil.
func (j *job) undrained() *member {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.undrainedLocked()
}

// undrainedLocked is undrained with the job's lock held.
func (j *job) undrainedLocked() *member {
	for _, m := range j.members {
		if m != nil && !m.drained(j.gate) {
			return m
		}
	}
	return nil
}

// openGate opens the gate for the lease, or tells of its new end if the gate is open. It returns
// what processes had launched, as activity has it, when it was opened.
func (j *job) openGate() uint64 { return j.openGateUntil(j.until()) }

// openGateUntil is openGate with the end to tell of, on the clock of the page.
func (j *job) openGateUntil(until uint64) uint64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.openGateLocked(until)
}

func (j *job) openGateLocked(until uint64) uint64 {
	j.writeBounds()
	for _, m := range j.members {
		// Those who waited are about to launch, though nothing shows it yet.
		if m != nil && m.s.Waiting.Load() > 0 {
			m.rest = false
		}
	}
	j.setGate(true, until)
	return j.opened
}

// granted opens the gate at once for a job that waits for its lease: the device has nothing to do
// until then, and the way to the job's goroutine is saved, which follows. As revoked it is called
// under the broker's lock. A wait that was ended leads to no lease, and a job whose memory is away
// waits for that first.
func (j *job) granted(until time.Duration) {
	if !j.mu.TryLock() {
		return
	}
	defer j.mu.Unlock()
	if j.cancelWait == nil || j.ended || j.turning.out {
		return
	}
	j.cancelWait = nil
	j.openGateLocked(j.endOf(until))
}

// shut closes the gate.
func (j *job) shut() {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.setGate(false, 0)
}

// revoked closes the gate at once: somebody else is to have the device, and the way to the job's
// goroutine is saved. It is called under the broker's lock, which is taken after the job's
// elsewhere; if the job's is held, the goroutine does it.
func (j *job) revoked() {
	if !j.mu.TryLock() {
		return
	}
	defer j.mu.Unlock()
	if j.state.isOpen() {
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
	if j.passes {
		j.passes = false
		h.GatePass.Store(0)
	}
	next := wire.NextGate(j.gate, open)
	if next == j.gate {
		return
	}
	j.gate, j.stale = next, false
	if open {
		j.opened, _ = j.activityLocked()
	}
	for _, m := range j.members {
		if m != nil && open {
			m.offered = false
		}
	}
	h.Gate.Store(next)
	j.wake()
}

// setEnd tells of another end of the lease.
func (j *job) setEnd(until uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.unmapped {
		j.page.Header().LeaseUntilNS.Store(until)
	}
}

// noEnd is the end of a lease for which the gate is not to be closed before the agent does so.
const noEnd = math.MaxUint64

// late is how much after a lease's end the page says that it ends: programs that hear nothing from
// the agent until then close the gate themselves.
const late = 2 * time.Millisecond

// until is the lease's end on the clock of the page.
func (j *job) until() uint64 {
	u := j.lease.Until()
	if u == share.Forever || j.mayStay() && !j.dev.broker.Waiting() {
		return noEnd
	}
	return j.endOf(u)
}

// endOf is the end to tell of for a lease that ends at this time on the broker's clock.
func (j *job) endOf(until time.Duration) uint64 {
	if until == share.Forever {
		return noEnd
	}
	return uint64(wire.Monotonic() + until - j.dev.broker.Now() + late)
}

// untilLook is when to look again at a job that runs.
func (j *job) untilLook() time.Duration {
	until := j.lease.Until()
	if until == share.Forever {
		return look
	}
	return min(look, max(0, until-j.dev.broker.Now()))
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
