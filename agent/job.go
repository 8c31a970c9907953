package agent

import (
	"context"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
)

// job is a process job: a page, a share, and the processes that live by them.
type job struct {
	a     *Agent
	dev   *device
	gang  *gang // nil for none
	spec  share.Job
	asks  string     // the name that was asked for, which may be another's
	terms wire.Terms // what of it can change is guarded by mu
	page  *wire.Page
	bj    *broker.Job
	lease *broker.Lease // of the goroutine that drives the gate
	// overstays: of that goroutine; others were let in beside what it has in flight, when it had
	// measured so much device time in nanoseconds.
	overstays bool
	stayedAt  uint64
	toldAt    time.Time // of that goroutine: when the broker was last told what is used
	ctx       context.Context
	stop      context.CancelFunc
	// kicked makes the job's goroutine look at the page again.
	kicked chan struct{}
	// users are the peers that use the page.
	users sync.WaitGroup
	// wake is the page's WakeGate.
	wake func()
	// bounds are the policy's terms as they bound launches; nil: they do not.
	bounds atomic.Pointer[share.Terms]

	mu         sync.Mutex
	ended      bool
	unmapped   bool // the page must not be used any more
	controller *conn
	master     identity      // the process that made the job
	kept       time.Duration // when its record was written
	// the most in flight that its controller wants; 0: what the agent allows
	asked   time.Duration
	most    time.Duration // the same, by what is on the device; 0 before that is known
	lonely  time.Time     // since when there has been no controller; zero if there is one
	claim   string        // that keeps the job though nobody else does; empty for none
	former  pageID        // that programs have of an agent before, until one has come; zero: none
	members [wire.SlotCount]*member
	before  doings // of processes that have gone
	told    doings // what the broker knows of what processes did
	// cancelWait ends the wait for a lease in progress; nil: there is none, it has been ended, or
	// the gate is open because of it already.
	cancelWait context.CancelFunc
	opened     uint64 // what processes had launched, as activity has it, when the gate was opened
	gate       uint32
	stale      bool // a process holds the open gate for closed
	passes     bool // the gate is closed, and one launch may pass it or has
	state      state
	moves      moves
	turning    turning
}

// newJob makes a job that the broker has admitted, and starts its goroutine.
func (a *Agent) newJob(dev *device, bj *broker.Job, t wire.Terms, page *wire.Page,
	g *gang) *job {
	j := &job{
		a:      a,
		dev:    dev,
		spec:   bj.Spec(),
		terms:  t,
		page:   page,
		bj:     bj,
		lease:  bj.Lease(),
		gang:   g,
		kicked: make(chan struct{}, 1),
		wake:   page.WakeGate,
		lonely: time.Now(),
		// others look at this as soon as the device knows the job
		turning: turning{turns: bj.Spec().Elastic},
	}
	if g != nil {
		j.kicked = g.kicked
	}
	j.ctx, j.stop = context.WithCancel(a.ctx)
	page.SetTerms(t)
	h := page.Header()
	h.AgentBeatNS.Store(uint64(wire.Monotonic()))
	h.AgentPID.Store(ownPID)
	h.AgentGeneration.Store(a.generation)
	j.gate = wire.NextGate(h.Gate.Load(), false)
	h.LeaseUntilNS.Store(0)
	h.Gate.Store(j.gate)
	// Memory that is away under the agent before comes back, as the terms have its room.
	if j.moves.order = h.Move.Load(); j.moves.order != 0 {
		j.moves.order = wire.NextMove(j.moves.order, false)
	}
	h.Move.Store(j.moves.order)
	dev.byID.set(bj.ID(), j)
	j.beginTurns()
	if j.turning.turns {
		bj.OnEvicted(j.giveWay)
	}
	return j
}

// start begins to drive the gate. The agent's lock is held.
func (j *job) start() {
	if j.gang != nil {
		j.gang.join(j)
	}
	j.a.work.Add(1)
	go func() {
		defer j.a.work.Done()
		if j.gang == nil {
			j.run()
		} else {
			<-j.ctx.Done()
		}
		j.abandon()
		j.dev.byID.set(j.bj.ID(), nil)
		j.bj.End(nil)
		j.users.Wait()
		if err := j.page.Close(); err != nil {
			j.a.log.Warn("page not closed", "job", j, "error", err)
		}
		got := j.bj.Account()
		j.a.log.Info("job ended", "job", j, "device_seconds", got.Used.Seconds(), "used_seconds",
			got.Measured.Seconds())
	}()
}

// abandon lets go of the page. Nobody comes to the job any more. If it is the agent that ends, the
// page is left as the next agent wants to find it, with the gate as it is and no beat, so that
// programs need not wait to see that it is dead.
func (j *job) abandon() {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.a.ctx.Err() != nil {
		j.page.Header().AgentBeatNS.Store(0)
		j.wake()
	} else {
		j.setGate(false, 0)
	}
	j.ended, j.unmapped = true, true
	for _, m := range j.members {
		if m != nil {
			j.forget(m)
		}
	}
}

// release takes note that a controller is gone.
func (j *job) release(c *conn) {
	j.mu.Lock()
	if j.controller == c {
		j.controller, j.lonely = nil, time.Now()
	}
	j.mu.Unlock()
	j.users.Done()
	j.endIfAlone()
}

// endIfAlone ends the job if its controller is gone and no process is attached or expected back. An
// agent that ends has closed their sockets itself, and leaves the job and its record to the next.
func (j *job) endIfAlone() {
	j.a.mu.Lock()
	defer j.a.mu.Unlock()
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.a.closing || j.ended || j.controller != nil || j.claim != "" || j.anyPresent() {
		return
	}
	if !j.endLocked() {
		_ = os.Remove(recordPath(j.a.cfg.Dir, j.terms.Token))
	}
	j.drop()
}

// drop takes a job that has ended off the agent's lists. The agent's lock is held.
func (j *job) drop() {
	delete(j.a.jobs, j.terms.Token)
	j.a.walls.kick()
	if j.gang != nil {
		j.gang.leave(j)
	}
	j.a.boundInFlight(j.dev)
	j.dev.freeName(j.asks)
	j.a.used = time.Now()
}

func (j *job) anyPresent() bool {
	for _, m := range j.members {
		if m != nil && (m.conn != nil || m.held != nil || m.late ||
			time.Since(m.away) < rejoinWait) {
			return true
		}
	}
	return false
}

// endLocked ends the job with its lock held. The lease and all that was promised are free when it
// returns; the goroutine follows. It reports whether a process is left that may come back.
func (j *job) endLocked() (left bool) {
	j.measureLocked()
	j.ended = true
	for _, m := range j.members {
		switch {
		case m == nil:
		case m.process.alive() && !m.bye.Load():
			// It has been away for too long, but still counts by its slot, and can bring the page
			// back.
			left = true
			j.forget(m)
		default:
			j.remove(m)
		}
	}
	j.stop()
	j.bj.End(nil)
	return left
}

// beat is called every wire.Beat.
func (j *job) beat(now uint64) {
	j.mu.Lock()
	if j.ended {
		j.mu.Unlock()
		return
	}
	j.writeBounds()
	j.measureLocked()
	j.putRight()
	j.page.Header().AgentBeatNS.Store(now)
	if time.Duration(now)-j.kept >= recordEvery {
		j.keepRecord()
	}
	for _, m := range j.members {
		if m != nil && m.conn == nil && m.held == nil && !m.process.alive() {
			j.letGo(m)
		}
	}
	lonely := j.controller == nil && !j.anyPresent()
	j.mu.Unlock()
	j.keep(false)
	if lonely {
		j.endIfAlone()
	}
}

// putRight writes again what only the agent writes, as programs can write over it. The job's lock
// is held.
func (j *job) putRight() {
	j.page.Format()
	j.writeTerms()
	h := j.page.Header()
	h.AgentPID.Store(ownPID)
	h.AgentGeneration.Store(j.a.generation)
	for _, m := range j.members {
		if m != nil {
			pid, start := m.who.owner()
			m.s.OwnerStart.Store(start)
			m.s.OwnerPID.Store(pid)
		}
	}
	if h.Move.Load() != j.moves.order {
		h.Move.Store(j.moves.order)
		j.page.WakeMove()
	}
	if h.Gate.Load() != j.gate {
		h.Gate.Store(j.gate)
		j.wake()
	}
}
