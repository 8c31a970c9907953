package agent

import (
	"context"
	"slices"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// This file is how a turn ends: the gates are closed, and others are let in when nothing of the
// turn is in flight any more, or when those who wait have waited for long enough.
//
// What is in flight may itself wait for what is to be launched: a kernel that receives, for one
// that sends, in another stream, process or, in a gang, on another device. Closed gates would keep
// it waiting for ever. So where nothing in flight has made progress for a while, and a thread waits
// at a gate, one launch is let through (wire.Header.GatePass), and another if that did not help.

const (
	// drainLook is how often the page is looked at while waiting for a drain.
	drainLook = time.Millisecond
	// stoppedLook is how often it is looked whether a process that does not drain is stopped.
	stoppedLook = 50 * time.Millisecond
	// stalled is for how long what is in flight must have made no progress, beyond what it is
	// predicted to take, until a launch is let through for it.
	stalled = 2 * time.Millisecond
	// helpLook is how often the page is looked at once a launch was let through, and for how long
	// the next one waits for that to help: programs say within 20 us that they have drained, and
	// one process may be as many launches behind another as fit into what may be in flight.
	helpLook = 100 * time.Microsecond
	// mute is for how long nothing must have made progress until a process that has something in
	// flight is helped though it does not say that it stalls: longer than it takes to say so.
	mute = 300 * time.Millisecond
)

// drained waits until nothing of the jobs is in flight, for as long as those who wait have
// patience, or until the context is done. It reports whether nothing is in flight. For a process
// that is stopped, and cannot say, it waits only for as long as that predicted. The gates are
// closed.
//
// For jobs of a gang, missed tells whether another one of it, whose device is not held, has a
// thread at its gate: as that may be what the others wait for, they are not waited for any longer.
func (a *Agent) drained(ctx context.Context, kicked <-chan struct{},
	missed func(held []*job) bool, jobs ...*job) bool {
	began := time.Now()
	asked := began
	for _, j := range jobs {
		if _, ns := j.activity(); ns != j.stayedAt {
			j.overstays = false // it has gone on since
		}
	}
	var s stall
	var vain *member // woke the agent though it had not drained
	t := time.NewTimer(drainLook)
	defer t.Stop()
	for {
		j, m := firstUndrained(jobs)
		if m == nil {
			if withdrawPasses(jobs) {
				return true
			}
			continue // what has passed meanwhile is awaited too
		}
		now := time.Now()
		if now.Sub(began) >= a.cfg.LatencyDrain {
			jobs = giveBackDrained(jobs)
		}
		if now.Sub(asked) >= stoppedLook {
			asked = now
			if now.Sub(began) > stoppedLook+2*a.predicted(m) && m.process.stopped() {
				a.log.Info("process is stopped", "job", j, "pid", m.who.PID)
				withdrawPasses(jobs)
				return false
			}
		}
		back := missed != nil && missed(jobs)
		if patience := a.patience(jobs, j); back || now.Sub(began) >= patience {
			if !back {
				a.log.Warn("drain timed out", "job", j, "pid", m.who.PID, "after", patience)
			}
			withdrawPasses(jobs)
			for _, j := range jobs {
				j.overstays = j.undrained() != nil
				_, j.stayedAt = j.activity()
			}
			return false
		}
		wait := drainLook
		if s.help(jobs, now, a.longest(jobs)); s.helped > 0 {
			wait = helpLook
		}
		if missed == nil && ctx.Err() == nil && m != vain && j.awaitDrain(m, wait) {
			vain = nil
			if time.Since(now) < wait {
				vain = m
			}
			continue
		}
		vain = nil
		t.Reset(wait)
		select {
		case <-kicked:
		case <-t.C:
		case <-ctx.Done():
			return false
		}
	}
}

// awaitDrain waits until a process may have drained, or for so long, and reports whether it could.
// The device has nothing to do from the drain on: so the job's goroutine sleeps in the kernel, on
// the word that the process writes, and is not woken through the socket, the runtime's poller and
// the connection's goroutine. Who writes there and has not drained wakes it once a look at most.
func (j *job) awaitDrain(m *member, most time.Duration) bool {
	j.mu.Lock()
	if j.unmapped {
		j.mu.Unlock()
		return false
	}
	s, seq, drained := m.s, m.s.DrainedSeq.Load(), m.drained(j.gate)
	j.mu.Unlock()
	return drained || m.process.awaitDrain(s, seq, most)
}

// predicted is what a process says that it has in flight, as far as it can be believed.
func (a *Agent) predicted(m *member) time.Duration {
	return time.Duration(min(m.s.InflightNS.Load(), uint64(a.cfg.DrainTimeout)))
}

// longest is the most that a process that has not drained says that it has in flight.
func (a *Agent) longest(jobs []*job) (most time.Duration) {
	for _, j := range jobs {
		j.mu.Lock()
		for _, m := range j.members {
			if m != nil && !m.drained(j.gate) {
				most = max(most, a.predicted(m))
			}
		}
		j.mu.Unlock()
	}
	return most
}

// giveBackDrained gives back the devices of jobs of a gang that have drained and have no thread at
// their gates, which may be on its way to what the others wait for, and returns the others.
func giveBackDrained(jobs []*job) []*job {
	if len(jobs) == 1 {
		return jobs
	}
	return slices.DeleteFunc(slices.Clone(jobs), func(j *job) bool {
		if j.wants() || j.undrained() != nil || !withdrawPasses([]*job{j}) {
			return false
		}
		j.giveBack()
		return true
	})
}

// patience is how long a drain may take, by who waits for it. A job of a gang that has not drained
// since its turn before is not waited for again.
func (a *Agent) patience(jobs []*job, undrained *job) time.Duration {
	if undrained.overstays {
		return stalled
	}
	for _, j := range jobs {
		if j.dev.broker.WaitingOf(share.Latency) {
			return min(a.cfg.LatencyDrain, a.cfg.DrainTimeout)
		}
	}
	return a.cfg.DrainTimeout
}

// firstUndrained returns a process of which something may be in flight, and its job; nil for none.
func firstUndrained(jobs []*job) (*job, *member) {
	for _, j := range jobs {
		if m := j.undrained(); m != nil {
			return j, m
		}
	}
	return nil, nil
}

// stall tells whether what is in flight makes progress.
type stall struct {
	progress uint64
	since    time.Time
	backoff  time.Duration // beyond stalled
	helped   int           // how often
}

// help lets a launch through, if one waits and nothing in flight has made progress for longer than
// it is predicted to take: of a process that has nothing in flight, as long as there is one, and of
// those, which have one each in flight at most, soon again, if another says that it has. Where none
// does, all that is missing is that they say that they have drained, which takes a thread its turn
// on a processor, and a launch would only put it off. One that has something in flight is helped
// once it says that this stalls, by what its kernels have taken before: else each long kernel at
// the end of a turn would be followed by another. As it is as likely to wait for itself in vain, it
// is helped ever more rarely, and not before what was let through has had its time.
func (s *stall) help(jobs []*job, now time.Time, predicted time.Duration) {
	progress := uint64(0)
	for _, j := range jobs {
		count, ns := j.activity()
		progress += count + ns
	}
	if s.since.IsZero() || progress != s.progress {
		s.progress, s.since = progress, now
		return
	}
	for _, idle := range []bool{true, false} {
		wait := stalled + 2*predicted
		if idle && s.helped > 0 && predicted > 0 {
			wait = 2 * helpLook
		}
		for i := range jobs {
			still := now.Sub(s.since)
			if still < wait+s.backoff ||
				!jobs[(s.helped+i)%len(jobs)].letPass(idle, still >= mute) {
				continue
			}
			s.helped++
			s.since = now
			if !idle {
				s.backoff = 2*s.backoff + stalled
			}
			return
		}
	}
}

// letPass lets one launch through the closed gate if a thread waits at it, of a process that has
// nothing in flight or, if idle is false, of any that says that what it has stalls or, with
// unasked, of any at all. It reports whether it did.
func (j *job) letPass(idle, unasked bool) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.unmapped || j.ended {
		return false
	}
	for _, m := range j.members {
		if m != nil && m.conn != nil && m.s.Waiting.Load() > 0 &&
			(m.drained(j.gate) || !idle && (unasked || m.stalls())) {
			j.changePass(true)
			return true
		}
	}
	return false
}

// stalls reports whether a process says that what it has in flight takes longer than such has ever
// taken, or has nothing.
func (m *member) stalls() bool { return m.s.Stalled.Load() > 0 || m.s.InflightNS.Load() == 0 }

// withdrawPasses takes back what was let through and not used. It reports whether there was nothing
// of the kind; else processes have to say again that they have nothing in flight.
func withdrawPasses(jobs []*job) bool {
	none := true
	for _, j := range jobs {
		j.mu.Lock()
		if j.passes && !j.unmapped {
			none = false
			j.changePass(false)
		}
		j.mu.Unlock()
	}
	return none
}

// changePass gives the closed gate another value, with or without a pass. A thread that has taken
// the pass of the value before and has not launched yet turns back. The job's lock is held.
func (j *job) changePass(offered bool) {
	h := j.page.Header()
	j.gate, j.passes = wire.PassGate(j.gate), offered
	for _, m := range j.members {
		if m != nil {
			m.offered = m.offered || m.s.Waiting.Load() > 0
		}
	}
	h.GatePass.Store(0)
	if offered {
		h.GatePass.Store(j.gate)
	}
	h.Gate.Store(j.gate)
	j.wake()
}
