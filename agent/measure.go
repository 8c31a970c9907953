package agent

import (
	"errors"
	"sync"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// This file holds what the processes of jobs count against what the device says that they hold.
//
// A process counts what it asks the driver for. What the driver takes by itself (code that is
// loaded at a function's first launch, stacks that grow, contexts made on ways around the library)
// shows only in what the management library tells of the process, which in a container it cannot
// ask. The agent asks from outside, writes the difference into the process's slot, where it counts
// against the cap, and answers processes that ask for their own figure.

const (
	// measureEvery is how often the device is asked. An answer takes the driver some 0.1 ms to
	// 1 ms.
	measureEvery = 500 * time.Millisecond
	// answerEvery is how often at most it is asked because processes ask what they hold, however
	// many do and however often.
	answerEvery = 5 * time.Millisecond
	// hangs is how long an answer of the device may take before the agent does without.
	hangs = 5 * time.Second
)

// reconcile measures a device until the agent ends.
func (a *Agent) reconcile(d *device) {
	defer a.work.Done()
	t := time.NewTicker(a.cfg.measureEvery)
	defer t.Stop()
	for {
		select {
		case <-a.ctx.Done():
			return
		case <-t.C:
		}
		a.measure(d)
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
	held, err := d.holds.read(a.ctx, a.cfg.hangs)
	a.noteAnswer(d, err)
	if errors.Is(err, errHangs) || a.ctx.Err() != nil {
		return // what was found last is the best that is known
	}
	for _, j := range jobs {
		j.measured(held)
		if err == nil {
			j.shownLess()
		}
	}
	a.noteUnlisted(d)
}

// noteAnswer tells when the device stops or begins to say what processes hold.
func (a *Agent) noteAnswer(d *device, err error) {
	if a.ctx.Err() != nil {
		return
	}
	text := ""
	if err != nil {
		text = err.Error()
	}
	before := d.unmeasured.Swap(&text)
	switch was := before != nil && *before != ""; {
	case text != "" && !was:
		a.log.Warn("memory that programs do not count is not seen: the management library "+
			"does not list processes", "device", d.ID(), "error", err)
	case text == "" && was:
		a.log.Info("the management library lists processes again", "device", d.ID())
	}
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

// asks are processes of jobs on a device that have asked what they hold, each with the number of
// its last question, which answers all before it.
type asks struct {
	mu       sync.Mutex
	of       map[*member]ask
	answered bool // a goroutine sees to it
}

type ask struct {
	j      *job
	number uint32
}

// question takes note of a question, which is answered soon.
func (j *job) question(m *member, number uint32) {
	q := &j.dev.asks
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.of == nil {
		q.of = map[*member]ask{}
	}
	q.of[m] = ask{j, number}
	if !q.answered {
		q.answered = true
		j.a.work.Add(1)
		go j.a.answer(j.dev)
	}
}

// take takes out what has been asked; none: whoever answers is done.
func (q *asks) take() map[*member]ask {
	q.mu.Lock()
	defer q.mu.Unlock()
	of := q.of
	q.of, q.answered = nil, len(of) > 0
	return of
}

// answer tells processes what they hold until none asks any more.
func (a *Agent) answer(d *device) {
	defer a.work.Done()
	for of := d.asks.take(); len(of) > 0; of = d.asks.take() {
		var held map[uint32]uint64
		if a.cfg.Holds != nil {
			held, _ = d.holds.read(a.ctx, a.cfg.hangs)
		}
		for m, q := range of {
			q.j.tell(m, q.number, held)
		}
		select {
		case <-a.ctx.Done():
		case <-time.After(answerEvery):
		}
	}
}

// tell answers a process.
func (j *job) tell(m *member, number uint32, held map[uint32]uint64) {
	bytes := held[m.who.PID]
	if bytes == 0 || m.who.PID == 0 { // who asks has a context, which takes some
		bytes = wire.NotMeasured
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended && j.members[m.slot] == m {
		m.s.MeasuredBytes.Store(bytes)
		m.s.AnswerSeq.Store(number)
	}
}
