package agent

import (
	"fmt"
	"os"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

var ownPID, ownUID = uint32(os.Getpid()), uint32(os.Getuid())

// member is a process of a job.
type member struct {
	slot    uint32
	s       *wire.Slot
	who     identity
	process process
	gone    chan struct{} // closed when the slot is free again
	bye     atomic.Bool   // it said that it gives its slot back

	// Guarded by the job's lock.
	conn *conn // nil while it is away
	// held is the socket of a process that has ended, while forked children of it have it open.
	// They hold the driver's files too, with which the driver keeps the process's memory
	// (PyTorch FAQ, "My GPU memory isn't freed properly").
	held *conn
	// late: it has ended, and the driver may not have its memory back.
	late bool
	away time.Time // since when
	rest bool      // it said that it is idle,
	done uint64    // when its activity was this
	// unknown are driver calls that it looked up and weir does not know.
	unknown []string
	// counted is what it counted before the device was last asked, and over what it was found to
	// hold beyond that, at first by the agent before this one.
	counted, over uint64
	// clean is its activity when it was last seen with nothing in flight and the gate closed.
	clean uint64
	// moved answers the last order to move memory, nil until it does, and stays is what cannot be.
	moved *wire.Moved
	stays wire.Stays
	// offered: a thread of it may have taken a pass since the gate was closed.
	offered bool
	// named: no more is known of it than that a page, which programs can write to, says so.
	named bool
}

// activity is a number that grows with all that the process gives the device to do.
func (m *member) activity() uint64 {
	return m.s.Launches.Load() + m.s.GraphLaunches.Load() + m.s.CopiesBytes.Load()
}

// resting reports whether the process has nothing to do for the device, by what it said and has not
// taken back by launching.
func (m *member) resting() bool {
	if m.conn == nil {
		return true
	}
	now := m.activity()
	return (now == 0 || m.rest && now == m.done) && m.s.Waiting.Load() == 0 &&
		m.s.InflightNS.Load() == 0
}

// drained reports whether nothing of the process is in flight after the gate took this value: it
// said so, or has launched nothing since the last time. One that may have taken a pass has to say
// so, because what it launches shows only afterwards.
func (m *member) drained(gate uint32) bool {
	now := m.activity()
	idle := m.conn == nil ||
		!m.offered && (m.resting() || now == m.clean && m.s.InflightNS.Load() == 0)
	if m.s.DrainedSeq.Load() != gate && !idle {
		return false
	}
	m.clean = now
	return true
}

// attach gives a process a slot: the one it had, if it comes back, else a free one. It reports
// whether the slot keeps the peer's process.
func (j *job) attach(c *conn, hello wire.Hello) (*member, bool, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.ended {
		return nil, false, refusal(wire.RefusedUnknownJob, "the job has ended")
	}
	who := c.peer.identity()
	if hello.Rejoins() && hello.Slot < wire.SlotCount {
		if m := j.members[hello.Slot]; m != nil && m.who.is(who) {
			if m.conn != nil {
				m.conn.close()
			}
			_, unwatched := m.process.(absent)
			if unwatched {
				j.forget(m)
				m = j.newMember(m.slot, who, c.peer.process)
			}
			m.conn, m.rest, m.named = c, false, false
			j.users.Add(1)
			kick(j.kicked)
			return m, unwatched, nil
		}
	}
	for i := range j.members {
		if j.members[i] == nil {
			m := j.newMember(uint32(i), who, c.peer.process)
			// What a process that comes back holds, it counts in its new slot itself.
			m.s.Claim(who.owner())
			m.conn = c
			j.users.Add(1)
			kick(j.kicked)
			return m, true, nil
		}
	}
	return nil, false, refusal(
		wire.RefusedFull,
		"job %s: has %d processes that use the GPU already, and no more fit into one job: run the "+
			"others under a weir exec of their own",
		j.spec.Name,
		wire.SlotCount,
	)
}

// newMember enters a process and watches it. The job's lock is held.
func (j *job) newMember(slot uint32, who identity, p process) *member {
	m := &member{
		slot:    slot,
		s:       j.page.Slot(slot),
		who:     who,
		process: p,
		gone:    make(chan struct{}),
		away:    time.Now(),
	}
	m.over = m.s.FoundBytes.Load()
	j.members[slot] = m
	j.a.walls.kick()
	go func() {
		select {
		case <-p.done():
			j.dead(m)
		case <-m.gone:
		}
	}()
	return m
}

// detach takes note that a process's socket is closed: it waits for nothing and has no work any
// more. If it said goodbye its slot is free when detach returns. Else the slot is kept: until the
// process has ended, because the driver takes its memory back only then, or for some time, to come
// back to.
func (j *job) detach(m *member, c *conn) {
	j.mu.Lock()
	if m.held == c {
		j.letGo(m)
	}
	if m.conn == c {
		m.conn, m.away = nil, time.Now()
		if m.bye.Load() || !m.process.watched() && !m.process.alive() {
			j.remove(m)
		}
		j.reconsider()
	}
	j.mu.Unlock()
	j.users.Done()
	j.endIfAlone()
}

// dead takes note that a process has ended. Its turn is over. What it held counts until its socket
// is closed, which is at once unless forked children have it open.
func (j *job) dead(m *member) {
	j.mu.Lock()
	m.held, m.conn = m.conn, nil
	if m.held == nil || j.owes(m) == 0 {
		if m.held != nil {
			m.held.close()
		}
		j.letGo(m)
	}
	j.reconsider()
	j.mu.Unlock()
	j.endIfAlone()
}

// remove frees a member's slot, with the job's lock held. Removing it again does nothing.
func (j *job) remove(m *member) {
	if j.members[m.slot] != m {
		return
	}
	j.page.Header().LaunchesTotal.Add(m.s.Launches.Load() + m.s.GraphLaunches.Load())
	j.before.add(m.s)
	m.s.Clear()
	j.forget(m)
}

// forget stops watching a member, whose slot stays as it is. The job's lock is held.
func (j *job) forget(m *member) {
	j.members[m.slot] = nil
	close(m.gone)
	m.process.forget()
}

// reconsider ends a wait for a lease that nobody wants any more, and wakes the job's goroutine. The
// job's lock is held.
func (j *job) reconsider() {
	if j.cancelWait != nil && !j.wantsLocked() {
		j.cancelWait()
		j.cancelWait = nil
	}
	kick(j.kicked)
}

// noteIdle takes note that a process has had nothing to do for a while.
func (j *job) noteIdle(m *member) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if !j.ended && m.s.InflightNS.Load() == 0 {
		m.rest, m.done = true, m.activity()
	}
}

// maxUnknown bounds what is kept and logged of a process's unknown calls.
const maxUnknown = 64

// unknown takes note of a driver call that is passed through uncounted.
func (j *job) unknown(m *member, call string) {
	j.mu.Lock()
	full := len(m.unknown) >= maxUnknown
	if !full {
		m.unknown = append(m.unknown, call)
	}
	j.mu.Unlock()
	if !full {
		j.a.log.Warn(
			"driver call newer than this weir: passed through, what it does is not counted", "call",
			call, "job", j, "pid", m.who.PID)
	}
}

// wantsLocked reports whether a process of the job waits at the gate, or is taken to do so.
func (j *job) wantsLocked() bool {
	if j.moves.frozen || j.turning.leaves {
		return false
	}
	for _, m := range j.members {
		if m != nil && m.conn != nil && (j.state == stateReturning || m.s.Waiting.Load() > 0) {
			return true
		}
	}
	return false
}

func (j *job) wants() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return !j.ended && j.wantsLocked()
}

// String names the process in messages.
func (m *member) String() string { return fmt.Sprintf("process %d (slot %d)", m.who.PID, m.slot) }
