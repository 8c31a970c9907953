package core_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
)

// rota drives jobs that always want the device and whose memory comes with their turns, as an agent
// does.
type rota struct {
	*drive
	jobs   []*turner
	moving time.Duration // by all
	swaps  int
}

// turner is one of them.
type turner struct {
	id    share.JobID
	most  share.Bytes
	has   share.Bytes
	cost  time.Duration // of a move
	until time.Duration // of its lease
	got   time.Duration // device time with its memory there
}

// turn lets one in that takes so long to move.
func (r *rota) turn(name string, s share.Share, cost time.Duration) *turner {
	s.Elastic = true
	x := &turner{id: r.admit(name, s), most: s.Memory, cost: cost}
	r.jobs = append(r.jobs, x)
	return x
}

// tell tells of an event, and takes note of what is answered.
func (r *rota) tell(e core.Event) {
	r.t.Helper()
	if err := r.step(e); err != nil {
		r.t.Fatalf("%v at %v: %v", e.Kind, r.now, err)
	}
	for _, n := range r.said {
		for _, x := range r.jobs {
			switch {
			case n.Job != x.id:
			case n.Kind == core.Granted:
				x.until = n.Until
			case n.Kind == core.Revoked:
				x.until = r.now
			}
		}
	}
}

// running returns the job that holds the device, or nil.
func (r *rota) running() *turner {
	for _, x := range r.jobs {
		if r.job(x.id).Phase == share.Running {
			return x
		}
	}
	return nil
}

// place brings the memory of the job that runs, for which those that are told to give way.
func (r *rota) place(x *turner) {
	r.t.Helper()
	began := r.now
	r.tell(core.Event{Kind: core.Reserve, Job: x.id, Bytes: x.most - x.has, Wait: true})
	for range r.jobs {
		for _, o := range r.jobs {
			if most, told := r.c.Told(o.id); told && o != x && most < o.has {
				r.now += o.cost
				o.has = 0
				r.tell(core.Event{Kind: core.Unreserve, Job: o.id, Bytes: o.most})
			}
		}
	}
	if s := r.job(x.id); s.Memory.Asked != 0 || s.Memory.Resident() != x.most {
		r.t.Fatalf("%v: nobody gives way: %+v", r.now, s)
	}
	r.now += x.cost
	x.has = x.most
	r.moving += r.now - began
	r.swaps++
	r.tell(core.Event{Kind: core.Moved, Job: x.id, Used: r.now - began})
}

// run goes on until then.
func (r *rota) run(end time.Duration) {
	r.t.Helper()
	for r.now < end {
		x := r.running()
		if x != nil && x.has < x.most {
			r.place(x)
			continue
		}
		next, from := end, r.now
		if wake := r.c.Wake(); wake > 0 {
			next = min(next, max(r.now, wake))
		}
		if x != nil {
			next = min(next, max(r.now, x.until))
		}
		r.now = next
		switch {
		case x == nil:
			r.tell(core.Event{Kind: core.Tick})
		case x.until <= r.now:
			x.got += r.now - from
			r.tell(core.Event{Kind: core.Return, Job: x.id})
		default:
			x.got += r.now - from
			r.tell(core.Event{Kind: core.Tick})
		}
	}
}

// TestTurnsGrow: jobs whose memory does not fit together have the device in turn, by their shares,
// and moving takes a tenth of the time, however long a move takes, and under every policy.
func TestTurnsGrow(t *testing.T) {
	for _, policy := range []string{"fair", "priority", "fifo", "timeslice"} {
		for _, cost := range []time.Duration{ms, 25 * ms, 3 * sec} {
			r := &rota{drive: under(t, policy)}
			for _, name := range []string{"a", "b", "c"} {
				x := r.turn(name, share.Share{Memory: 900 * share.MiB}, cost)
				r.tell(core.Event{Kind: core.Want, Job: x.id})
			}
			end := max(60*sec, 100*cost)
			r.run(end)
			part := r.moving.Seconds() / r.now.Seconds()
			if part > 0.101+2*float64(2*cost)/float64(end) {
				t.Errorf("%s, %v: %.3f of the time goes with %d moves", policy, cost, part, r.swaps)
			}
			for _, x := range r.jobs {
				if got := x.got.Seconds() / end.Seconds(); got < 0.2 && policy != "fifo" {
					t.Errorf("%s, %v: job %d has %.3f of the device", policy, cost, x.id, got)
				}
			}
		}
	}
}

// TestTurnsKeepShares: what a job is owed while its turn has not come is not lost.
func TestTurnsKeepShares(t *testing.T) {
	r := &rota{drive: under(t, "fair")}
	a := r.turn("a", share.Share{Memory: 900 * share.MiB, Compute: 0.75}, 5*ms)
	b := r.turn("b", share.Share{Memory: 900 * share.MiB, Compute: 0.25}, 5*ms)
	for _, x := range r.jobs {
		r.tell(core.Event{Kind: core.Want, Job: x.id})
	}
	r.run(60 * sec)
	used := func(x *turner) float64 { return r.job(x.id).Used.Seconds() / 60 }
	if got := used(a); math.Abs(got-0.75) > 0.05 {
		t.Errorf("a has %.3f of the device, b %.3f", got, used(b))
	}
}

// TestTurnsThatFit: jobs that fit together are never moved once they are there.
func TestTurnsThatFit(t *testing.T) {
	r := &rota{drive: under(t, "fair")}
	for _, name := range []string{"a", "b", "c"} {
		x := r.turn(name, share.Share{Memory: 300 * share.MiB}, 25*ms)
		r.tell(core.Event{Kind: core.Want, Job: x.id})
	}
	if r.run(10 * sec); r.swaps != 3 {
		t.Errorf("%d moves of what fits", r.swaps)
	}
}

// TestIdleTurnsEnd: whose memory has come and who has nothing to do keeps the device from others
// for as long as moving took, and no longer; who was told to wait is not seen to wait meanwhile.
func TestIdleTurnsEnd(t *testing.T) {
	r := &rota{drive: under(t, "fair")}
	a := r.turn("a", share.Share{Memory: 900 * share.MiB}, 40*ms)
	b := r.turn("b", share.Share{Memory: 900 * share.MiB}, 40*ms)
	r.tell(core.Event{Kind: core.Want, Job: a.id})
	r.place(a)
	r.tell(core.Event{Kind: core.Want, Job: b.id})
	if r.c.Waiting() {
		t.Error("b is said to wait, whom nothing could let in")
	}
	r.now += 10 * ms
	r.tell(core.Event{Kind: core.Release, Job: a.id})
	if got := r.c.Wake(); got != 90*ms {
		t.Errorf("b may be let in at %v, want 90ms: 40 after a has had nothing to do", got)
	}
	r.now = 89 * ms
	if r.tell(core.Event{Kind: core.Tick}); r.job(b.id).Phase != share.Waiting {
		t.Error("b is let in before a has been idle for as long as a move takes")
	}
	r.now = 90 * ms
	if r.tell(core.Event{Kind: core.Tick}); r.job(b.id).Phase != share.Running {
		t.Error("b waits though a has been idle for as long as a move takes")
	}
}

// TestTurnsAskWhileTheyHold: a job that holds units may wait for memory, unless another needs them
// to end its iteration.
func TestTurnsAskWhileTheyHold(t *testing.T) {
	d := under(t, "fair")
	a, _ := d.elastic("a", 900, 0)
	b, _ := d.elastic("b", 900, 0)
	if err := d.reserveWait(a, 900); err != nil {
		t.Fatal(err)
	}
	d.do(b, core.Want)
	d.do(a, core.Begin)
	if err := d.reserveWait(b, 900); !errors.Is(err, core.ErrNoMemory) {
		t.Errorf("b waits for what a holds within its iteration: %v", err)
	}
	d.do(a, core.Finish)
	if err := d.reserveWait(b, 900); err != nil || d.told(a) != 124 {
		t.Errorf("a is told to hold %v: %v", d.told(a), err)
	}
}

// moved says that a job's memory has come, which took so long.
func (d *drive) moved(id share.JobID, took time.Duration) {
	d.t.Helper()
	if err := d.step(core.Event{Kind: core.Moved, Job: id, Used: took}); err != nil {
		d.t.Fatal(err)
	}
}

// held lets a job in that holds so many MiB of its cap, of which it keeps some.
func (d *drive) held(name string, limit, keep, n share.Bytes) share.JobID {
	d.t.Helper()
	id, err := d.elastic(name, limit, keep)
	if err == nil && n > 0 {
		err = d.reserveWait(id, n)
	}
	if err != nil {
		d.t.Fatal(err)
	}
	return id
}

// TestLongestStayCounts: memory that came quickly does not cut short for how long another's stays.
func TestLongestStayCounts(t *testing.T) {
	d := under(t, "fair")
	a, c := d.held("a", 700, 0, 700), d.held("c", 200, 0, 200)
	b := d.held("b", 900, 0, 0)
	d.do(a, core.Want)
	d.moved(a, 40*ms)
	d.moved(c, ms)
	d.now += 20 * ms
	if d.do(b, core.Want); d.c.Waiting() {
		t.Error("b is said to wait, whom nothing could let in for another 340 ms")
	}
}

// TestStayOfTheIdle: memory that comes when its job has nothing to do any more stays for as long as
// that took, from then on.
func TestStayOfTheIdle(t *testing.T) {
	d := under(t, "fair")
	a, b := d.held("a", 900, 0, 900), d.held("b", 900, 0, 0)
	d.do(a, core.Want, core.Release)
	d.now += 10 * ms
	d.moved(a, 10*ms)
	if d.do(b, core.Want); d.c.Waiting() || d.c.Wake() != 20*ms {
		t.Errorf("b waits: %v, and is looked at %v", d.c.Waiting(), d.c.Wake())
	}
}

// TestMovedIsUsed: memory that comes is used then, for who leaves first.
func TestMovedIsUsed(t *testing.T) {
	rule := &broken{}
	c, err := core.Config{Eviction: rule}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	d := newDrive(t, c)
	a := d.held("a", 900, 0, 900)
	d.now = 7 * ms
	d.moved(a, ms)
	if u := rule.seen[len(rule.seen)-1]; u.At != d.now {
		t.Errorf("last used at %v", u.At)
	}
}

// TestKeptDoesNotGo: what a job keeps is no room for another that waits for memory to have been
// there for long enough.
func TestKeptDoesNotGo(t *testing.T) {
	d := under(t, "fair")
	x := d.held("x", 300, 0, 300)
	d.held("keeps", 300, 300, 300)
	c := d.held("c", 700, 0, 0)
	d.do(x, core.Want)
	d.moved(x, 40*ms)
	if d.do(c, core.Want); d.c.Waiting() {
		t.Error("c is said to wait, whom nothing could let in")
	}
}

// TestLaneDoesNotWaitForStays: what a job has in a lane is set apart for it, and others' memory in
// nobody's way.
func TestLaneDoesNotWaitForStays(t *testing.T) {
	d := withLanes(t, "fair", 1)
	x := d.held("x", 400, 0, 400)
	a, err := d.admitLane("a", 400, 200)
	if err != nil {
		t.Fatal(err)
	}
	d.do(x, core.Want)
	d.moved(x, 40*ms)
	if d.do(a, core.Want); !d.c.Waiting() {
		t.Error("a waits for units and for no memory, and is not said to")
	}
}
