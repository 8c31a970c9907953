package agent

import (
	"time"

	"github.com/weirgpu/weir/share/wire"
)

// This file holds what the processes of jobs count against what the device says that they hold.
//
// A process counts what it asks the driver for. What the driver takes by itself (code that is
// loaded at a function's first launch, stacks that grow, contexts made on ways around the library)
// shows only in what the management library tells of the process, which in a container it cannot
// ask. The agent asks from outside, writes the difference into the process's slot, where it counts
// against the cap, and answers processes that ask for their own figure.

// measureEvery is how often the device is asked. An answer takes the driver some 0.1 ms to 1 ms.
const measureEvery = 500 * time.Millisecond

// reconcile measures until the agent ends.
func (a *Agent) reconcile() {
	defer a.work.Done()
	t := time.NewTicker(a.cfg.measureEvery)
	defer t.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-t.C:
		}
		for _, d := range a.devices {
			a.measure(d)
		}
	}
}

// measure looks at all processes of jobs on a device. One that counts nothing may hold memory too,
// had on ways around the library.
func (a *Agent) measure(d *device) {
	a.mu.Lock()
	var jobs []*job
	any := false
	for _, j := range a.jobs {
		if j.dev == d {
			jobs = append(jobs, j)
			any = j.noteCounted() || any
		}
	}
	a.mu.Unlock()
	if !any {
		return
	}
	held, err := a.cfg.Holds(d.Ordinal)
	if err != nil {
		a.holdsNothing.Do(func() {
			a.log.Warn("memory that programs do not count is not seen: the management library "+
				"does not list processes", "device", d.ID(), "error", err)
		})
	}
	for _, j := range jobs {
		j.measured(held)
	}
	a.noteUnlisted(d)
}

// noteCounted notes what the processes count before the device is asked, and reports whether there
// are any.
func (j *job) noteCounted() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	any := false
	for _, m := range j.members {
		if m != nil && !j.ended {
			m.counted = m.counts()
			any = true
		}
	}
	return any
}

// counts is what the process counts itself.
func (m *member) counts() uint64 { return m.s.MemUsedBytes.Load() + m.s.MemContextBytes.Load() }

// ended reports whether the process has ended. The job's lock is held.
func (m *member) ended() bool { return m.held != nil || m.late || !m.process.alive() }

// owes is what the process holds, as far as it can be believed: more than the job may have would
// hide what others hold. The job's lock is held.
func (j *job) owes(m *member) uint64 { return min(m.s.MemoryHeld(), j.terms.MemCap) }

// measured takes note of what the processes were found to hold. What one that has ended was found
// to hold counts for as long as the rest of it; no list has it, and another may have its number.
func (j *job) measured(held map[uint32]uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, m := range j.members {
		if m == nil || j.ended || m.ended() {
			continue
		}
		bytes, ok := held[m.who.PID]
		if !ok || m.who.PID == 0 {
			m.over = 0
			m.s.MeasuredBytes.Store(wire.NotMeasured)
			m.s.FoundBytes.Store(0)
			continue
		}
		m.note(bytes)
	}
}

// note writes what the process was found to hold, and what of it nobody counts. What is allocated
// and freed while the device is asked may be in that figure alone: so counts what was there twice.
// The job's lock is held.
func (m *member) note(bytes uint64) {
	over := bytes - min(bytes, max(m.counted, m.counts()))
	m.s.MeasuredBytes.Store(bytes)
	m.s.FoundBytes.Store(min(over, m.over))
	m.over = over
}

// answer tells a process what it holds.
func (j *job) answer(m *member, ask uint32) {
	var bytes uint64
	known := false
	if j.a.cfg.Holds != nil && m.who.PID != 0 {
		held, err := j.a.cfg.Holds(j.dev.Ordinal)
		bytes = held[m.who.PID]
		known = err == nil && bytes > 0 // who asks has a context, which takes some
	}
	if !known {
		bytes = wire.NotMeasured
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended {
		m.s.MeasuredBytes.Store(bytes)
		m.s.AnswerSeq.Store(ask)
	}
}
