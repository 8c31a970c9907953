package agent

import (
	"math/rand/v2"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// second is another process of the program's job.
func (x *sim) second() *sim {
	x.h.t.Helper()
	y := &sim{h: x.h, who: x.who, j: x.j, page: x.page, bell: x.bell}
	p := x.h.people.born()
	var err error
	y.m, _, err = x.j.attach(
		&conn{a: x.h.a, uc: &net.UnixConn{}, peer: peer{uid: p.uid, pid: p.pid, process: p}},
		wire.Hello{})
	if err != nil {
		x.h.t.Fatal(err)
	}
	x.h.sims = append(x.h.sims, y)
	x.h.watchers.Go(y.watcher)
	return y
}

// receive launches a kernel that runs until somebody sends.
func (x *sim) receive(sent <-chan struct{}) bool {
	if !x.pass() || !x.lives() {
		return false
	}
	x.m.s.Launches.Add(1)
	x.m.s.InflightNS.Add(1000)
	x.h.watchers.Go(func() {
		select {
		case <-sent:
			x.m.s.InflightNS.Add(^uint64(999))
		case <-x.j.ctx.Done():
		}
	})
	return true
}

// TestLatencyDoesNotWaitForADrain has a program never drain: a latency job is let in beside it
// soon, others are not, and it pays for as long as it has something in flight.
func TestLatencyDoesNotWaitForADrain(t *testing.T) {
	for _, class := range []share.Class{share.Latency, share.Standard, share.Opportunistic} {
		synctest.Test(t, func(t *testing.T) {
			h := newHost(t, "fair")
			defer h.close()
			x, y := h.program(0, share.Share{}), h.program(1, share.Share{Class: class})
			x.launch(time.Millisecond)
			x.m.s.InflightNS.Store(1 << 60)
			from := time.Now()
			y.launch(time.Millisecond)
			took := time.Since(from)
			most, least := h.a.cfg.DrainTimeout+time.Second, h.a.cfg.DrainTimeout
			if class == share.Latency {
				most, least = h.a.cfg.LatencyDrain+50*time.Millisecond, 0
			}
			if took > most || took < least {
				t.Errorf("a %v job waited %v", class, took)
			}
			before := x.j.bj.Status().Used
			y.flood(time.Now().Add(2*time.Second), rand.New(rand.NewPCG(1, 1)), time.Millisecond,
				time.Millisecond)
			if paid := x.j.bj.Status().Used - before; paid < 1800*time.Millisecond ||
				paid > 2200*time.Millisecond {
				t.Errorf("who stayed paid %v for 2 s beside a %v job", paid, class)
			}
			x.m.s.InflightNS.Store(0)
			x.m.s.DrainedSeq.Store(x.page.Header().Gate.Load())
			time.Sleep(time.Second)
			before = x.j.bj.Status().Used
			time.Sleep(time.Second)
			if paid := x.j.bj.Status().Used - before; paid != 0 {
				t.Errorf("it paid %v once it had drained", paid)
			}
		})
	}
}

// TestRestlessWord has a program write its word of what has drained all the time, and never drain:
// that wakes the agent no more often than it looks by itself.
func TestRestlessWord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x, y := h.program(0, share.Share{}), h.program(1, share.Share{})
		x.m.process.(*person).restless = true
		x.launch(time.Millisecond)
		x.m.s.InflightNS.Store(1 << 60)
		from := time.Now()
		y.launch(time.Millisecond)
		looks := int64(time.Since(from)/drainLook) + 100
		if woke := x.m.process.(*person).woke.Load(); woke == 0 || woke > looks {
			t.Errorf("woken %d times in %v", woke, time.Since(from))
		}
	})
}

// TestDrainHelpsWhatItWaitsFor has the gate close between the two halves of what waits for each
// other: the half that is missing is let through, and hardly anything else.
func TestDrainHelpsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x, y := h.program(0, share.Share{}), h.program(1, share.Share{})
		z := x.second()
		const missing = 3 // launches of the other process until the one that sends
		sent := make(chan struct{})
		x.receive(sent)
		h.watchers.Go(func() { y.launch(time.Millisecond) })
		time.Sleep(20 * time.Millisecond)
		if wire.IsOpen(x.page.Header().Gate.Load()) || !y.waits() {
			t.Fatal("the gate is open, or the other was let in")
		}
		from, launched := time.Now(), 0
		h.watchers.Go(func() {
			for z.launch(100 * time.Microsecond) {
				if launched++; launched == missing {
					close(sent)
				}
			}
		})
		for y.waits() && time.Since(from) < time.Minute {
			time.Sleep(100 * time.Microsecond)
			synctest.Wait()
		}
		// That it was the last that was missing shows a look later, when one more may have passed.
		if took := time.Since(from); took > 50*time.Millisecond || launched < missing ||
			launched > missing+1 {
			t.Errorf("the other was let in after %v and %d launches, want %d or one more", took,
				launched, missing)
		}
	})
}

// TestHelpComesAfterWhatIsPredicted has a program's work be in flight that takes as long as it
// says, while another process of it waits at the closed gate: nothing is let through for it before
// that has had its time.
func TestHelpComesAfterWhatIsPredicted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHost(t, DefaultPolicy)
		defer h.close()
		x, y := h.program(0, share.Share{}), h.program(1, share.Share{})
		z := x.second()
		const predicted = 50 * time.Millisecond
		x.pass()
		x.m.s.Launches.Add(1)
		x.m.s.InflightNS.Store(uint64(predicted))
		h.watchers.Go(func() { y.launch(time.Millisecond) })
		for wire.IsOpen(x.page.Header().Gate.Load()) {
			time.Sleep(100 * time.Microsecond)
		}
		closed := time.Now()
		if !z.launch(100 * time.Microsecond) {
			t.Fatal("nothing was let through")
		}
		if took := time.Since(closed); took < stalled+2*predicted || took > 3*predicted {
			t.Errorf("let through after %v, with %v predicted of what is in flight", took,
				predicted)
		}
	})
}
