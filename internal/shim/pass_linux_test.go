package shim

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// TestPass holds that a pass lets one launch through the closed gate, which is in flight like any
// other: the process says that it has drained when it is complete, and waits again.
func TestPass(t *testing.T) {
	t.Parallel()
	compiled(t)
	onProfiles(t, "", passes)
}

func passes(t *testing.T, profile string) {
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(false)
	r := onFake(t, w, t.TempDir(), "train", "600", "1000", "64")
	r.Env = append(r.Env, profile)
	r.start(t)
	w.expect(wire.KindWant)
	h, s := w.page.Header(), w.page.Slot(0)
	for n := range uint64(5) {
		if got := s.Launches.Load(); got != n {
			t.Fatalf("%d launches after %d passes", got, n)
		}
		gate := wire.PassGate(h.Gate.Load())
		h.GatePass.Store(gate)
		h.Gate.Store(gate)
		w.page.WakeGate()
		var drained, waits bool
		for end := time.Now().Add(patience); !drained || !waits; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("pass %d: %d launches, drained %v, waits %v", n, s.Launches.Load(),
					drained, waits)
			}
			through := s.Launches.Load() > n
			drained = through && s.DrainedSeq.Load() == gate && s.InflightNS.Load() == 0
			waits = through && s.Waiting.Load() == 1
		}
		if h.GatePass.Load() != 0 {
			t.Error("the pass was not taken")
		}
	}
	if s.DeviceNSTotal.Load() == 0 {
		t.Error("what passed was not measured")
	}
}

// TestPassIsWithdrawn holds that a process with a thread at the gate says of each value of the
// closed gate that it has drained, as who takes a pass back waits to hear that, and that it does
// not sleep over one: it would until it next looks after the agent.
func TestPassIsWithdrawn(t *testing.T) {
	t.Parallel()
	compiled(t)
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(false)
	r := onFake(t, w, t.TempDir(), "train", "600", "1000", "64")
	asleep := r.patient(t)
	r.start(t)
	w.expect(wire.KindWant)
	h := w.page.Header()
	for round := range 1000 {
		gate, from := wire.PassGate(h.Gate.Load()), time.Now()
		h.Gate.Store(gate)
		w.page.WakeGate()
		for w.expect(wire.KindDrained).Gate != gate {
		}
		if took := time.Since(from); took > asleep {
			t.Fatalf("value %d was slept over: drained after %v", round, took)
		}
	}
}
