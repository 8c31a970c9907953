package agent

import (
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/internal/wire"
	"github.com/weirgpu/weir/share"
)

// stuck is a job whose gate has been closed over what one process has in flight, and which makes no
// progress; a thread of another one, which has nothing in flight, waits.
func stuck(t *testing.T) (b *bench, idle *member) {
	t.Helper()
	b = newBench(t, share.Share{})
	p := newPeople().bornOf(ownUID)
	idle, _, err := b.j.attach(&conn{a: b.j.a, uc: &net.UnixConn{},
		peer: peer{uid: p.uid, pid: p.pid, process: p}}, wire.Hello{})
	if err != nil {
		t.Fatal(err)
	}
	b.holds()
	b.launched()
	b.shuts()
	idle.s.Waiting.Store(1)
	return b, idle
}

// offers reports whether a launch may pass the closed gate, and the gate's value.
func (b *bench) offers() (bool, uint32) {
	h := b.j.page.Header()
	pass, gate := h.GatePass.Load(), h.Gate.Load()
	if pass != 0 && pass != gate || wire.IsOpen(gate) {
		b.t.Errorf("a pass for %d at gate %d", pass, gate)
	}
	return pass != 0, gate
}

// TestWhoIsHelped goes through the passes of a drain that makes no progress, one by one.
func TestWhoIsHelped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, idle := stuck(t)
		jobs, s, now := []*job{b.j}, stall{}, time.Now()
		_, last := b.offers()
		step := func(what string, after time.Duration, want bool, backoff time.Duration) {
			t.Helper()
			now = now.Add(after)
			s.help(jobs, now, time.Millisecond)
			offered, gate := b.offers()
			if passed := gate != last; passed != want || want && !offered || s.backoff != backoff {
				t.Fatalf("%s: helped %v, offered %v, want %v; again after %v more, want %v", what,
					passed, offered, want, s.backoff, backoff)
			}
			last = gate
		}
		const first, due = stalled + 2*time.Millisecond, 2 * helpLook
		step("at once", 0, false, 0)
		step("too soon", first-1, false, 0)
		step("who has nothing in flight", 1, true, 0)
		if idle.drained(last) {
			t.Error("who may have taken a pass is drained, though it has not said so")
		}
		b.m.s.DeviceNSTotal.Add(1)
		step("progress", due, false, 0)
		step("what has passed is awaited", first-1, false, 0)
		step("who waits for itself, perhaps", 1, true, stalled)
		step("too soon for another", first, false, stalled)
		step("another", stalled, true, 3*stalled)
		idle.s.DrainedSeq.Store(last)
		step("idle again", due+3*stalled, true, 3*stalled)
		idle.s.Waiting.Store(0)
		step("nobody waits", time.Minute, false, 3*stalled)
		b.waits()
		step("who waits for itself and cannot say so", 0, true, 7*stalled)
		b.m.s.DeviceNSTotal.Add(1)
		step("progress again", 0, false, 7*stalled)
		step("who may just be long", mute-1, false, 7*stalled)
		b.m.s.Stalled.Store(1)
		step("who says that it stalls", 0, true, 15*stalled)
	})
}

// TestWhoHasOnlyToSay holds that where nothing is in flight any more, as a process has yet to say,
// another one is not let through after the time in which one helps that is known to be missing: two
// that took turns in that never drained.
func TestWhoHasOnlyToSay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for inFlight, wait := range map[uint64]time.Duration{0: stalled, 1000: 2 * helpLook} {
			b, idle := stuck(t)
			jobs, s, now := []*job{b.j}, stall{}, time.Now()
			help := func(after time.Duration) (gate uint32) {
				now = now.Add(after)
				s.help(jobs, now, b.j.a.longest(jobs))
				_, gate = b.offers()
				return gate
			}
			closed := help(0)
			first := help(stalled + 2*time.Millisecond)
			idle.s.DrainedSeq.Store(first)
			b.m.s.InflightNS.Store(inFlight)
			soon, due := help(wait-1), help(1)
			if first == closed || soon != first || due == first {
				t.Errorf("%d ns in flight: gate %d, then %d, %d just before %v, and %d", inFlight,
					closed, first, soon, wait, due)
			}
		}
	})
}

// TestPassesAreTakenBack holds that no pass outlives its drain, however that ends, and that who may
// have taken one has to say that it has drained.
func TestPassesAreTakenBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, idle := stuck(t)
		jobs := []*job{b.j}
		if !b.j.letPass(true, false) {
			t.Fatal("nobody is let through")
		}
		_, before := b.offers()
		if withdrawPasses(jobs) {
			t.Error("there was a pass")
		}
		offered, gate := b.offers()
		if offered || gate == before || idle.drained(gate) {
			t.Errorf("offered %v at gate %d, before at %d, drained %v", offered, gate, before,
				idle.drained(gate))
		}
		if !withdrawPasses(jobs) {
			t.Error("there was another pass")
		}
		b.j.letPass(false, true)
		b.j.mu.Lock()
		b.j.setGate(true, noEnd)
		b.j.mu.Unlock()
		if h := b.j.page.Header(); h.GatePass.Load() != 0 || idle.offered {
			t.Errorf("the gate is open: a pass for %d, offered %v", h.GatePass.Load(), idle.offered)
		}
		b.shuts()
		from := time.Now()
		if b.j.drain() || time.Since(from) > b.j.a.cfg.DrainTimeout+time.Second {
			t.Errorf("drained after %v", time.Since(from))
		}
		if offered, _ := b.offers(); offered || b.j.passes || !b.j.overstays {
			t.Errorf("drain timed out: offered %v, overstays %v", offered, b.j.overstays)
		}
		b.m.s.InflightNS.Store(1 << 63)
		if most := b.j.a.predicted(b.m); most != b.j.a.cfg.DrainTimeout {
			t.Errorf("%v predicted", most)
		}
	})
}
