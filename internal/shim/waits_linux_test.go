package shim

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// waited is what the program waits tells of its rounds.
type waited struct {
	First float64 `json:"first_ms"`
	Worst float64 `json:"worst_ms"`
	Last  float64 `json:"last_ms"`
}

// waits runs that program with the gate open, and returns what it says and how often a stream was
// found to stall; set prepares it.
func waits(t *testing.T, set func(*running), args ...string) (waited, uint32) {
	t.Helper()
	w := newWarden(t, 1<<30, 300*time.Microsecond)
	w.gate(true)
	var got waited
	r := onFake(t, w, t.TempDir(), "waits", args...)
	if set != nil {
		set(r)
	}
	out := r.run(t)
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	s := w.page.Slot(0)
	t.Logf("%+v, %d stalls (fake)", got, s.Stalls.Load())
	return got, s.Stalls.Load()
}

// TestWorkThatWaitsForItsThread has work on the device that ends only when further launches have
// been made: a thread that waited for room until that work has ended would wait for ever.
func TestWorkThatWaitsForItsThread(t *testing.T) {
	compiled(t)
	for _, args := range [][]string{{"value", "100"}, {"receive", "20"}, {"threads", "20"},
		{"callback", "100"}} {
		t.Run(args[0], func(t *testing.T) {
			got, stalls := waits(t, nil, args...)
			if args[0] == "value" && stalls == 0 || got.Worst == 0 {
				t.Errorf("%+v, %d stalls", got, stalls)
			}
		})
	}
}

// TestWaitsAreExpected repeats that: what needed to be let through the first time is let through at
// once from then on.
func TestWaitsAreExpected(t *testing.T) {
	compiled(t)
	virtual := func(r *running) { r.virtual(t) }
	if got, _ := waits(t, virtual, "value", "40", "8"); got.First < 100 || got.Last > got.First/4 {
		t.Errorf("the first round took %.0f ms and the last one %.0f ms", got.First, got.Last)
	}
}

// TestManyStreamsWaitForOne has as many streams wait for one that waits for the program, each with
// a kernel that could take any time: they are let in ever faster, and not one by one.
func TestManyStreamsWaitForOne(t *testing.T) {
	compiled(t)
	got, _ := waits(t, func(r *running) { r.virtual(t) }, "streams", "64")
	if got.First < 200 || got.First > 700 {
		t.Errorf("it took %.0f ms", got.First)
	}
}

// TestLongKernelsOnManyStreams has kernels that take long and wait for nothing, beside one stream
// that waits: the device gets on, so that what is let in does not become ever more, however long
// they take, and whatever looks at events cost.
func TestLongKernelsOnManyStreams(t *testing.T) {
	onProfiles(t, "", func(t *testing.T, profile string) {
		const kernels = 16
		for _, ms := range []int{45, 50, 88} {
			got, _ := waits(t, func(r *running) {
				r.virtual(t).Env = append(r.Env, profile)
			}, "streams", fmt.Sprint(kernels), fmt.Sprint(ms*1000))
			// the last one is let in behind one that runs
			if least := float64((kernels - 2) * ms); got.First < least {
				t.Errorf("%d kernels of %d ms were launched within %.0f ms", kernels, ms, got.First)
			}
		}
	})
}

// TestWaitsAtTheClosedGate closes the gate between a receive and its send, for which it waits: the
// slot says that the stream stalls, and not that nothing is in flight, until the gate is open.
func TestWaitsAtTheClosedGate(t *testing.T) {
	compiled(t)
	w := newWarden(t, 1<<30, 300*time.Microsecond)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "waits", "receive", "2", "2", "200")
	r.start(t)
	s := w.page.Slot(0)
	until(t, "a receive is in flight", func() bool { return s.Launches.Load() > 0 })
	closed := w.gate(false)
	until(t, "a stream stalls", func() bool { return s.Stalled.Load() > 0 })
	if s.Waiting.Load() == 0 || s.DrainedSeq.Load() == closed || s.InflightNS.Load() == 0 {
		t.Errorf("%d threads wait at gate %d, drained at %d, %d ns in flight", s.Waiting.Load(),
			closed, s.DrainedSeq.Load(), s.InflightNS.Load())
	}
	w.gate(true)
	until(t, "no stream stalls any more", func() bool { return s.Stalled.Load() == 0 })
	r.finish(t)
}

// until waits for something to come about.
func until(t *testing.T, what string, done func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !done(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestWaitsAreNotLearned has receives wait for 200 ms, because their peer is late, and then for
// nothing but the program's own next launch: if that waited for as long as receives have taken, all
// of them would take as long again.
func TestWaitsAreNotLearned(t *testing.T) {
	compiled(t)
	virtual := func(r *running) { r.virtual(t) }
	got, _ := waits(t, virtual, "receive", "30", "4", "200")
	if got.First < 200 || got.Last > 70 {
		t.Errorf("the first round took %.0f ms and the last one %.0f ms", got.First, got.Last)
	}
}

// TestLoadingIsNotLearned has a kernel of 20 ms be loaded for 400 ms at its first launch: a handful
// of launches later no more is predicted than it takes.
func TestLoadingIsNotLearned(t *testing.T) {
	compiled(t)
	w := newWarden(t, 1<<30, 300*time.Microsecond)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "repeat", "16", "20000")
	r.Env = append(r.Env, "WEIR_FAKE_LAZY_US=400000")
	r.start(t)
	s := w.page.Slot(0)
	var predicted time.Duration
	for n := s.Launches.Load(); n < 16; n = s.Launches.Load() {
		if ns := time.Duration(s.InflightNS.Load()); n > 4 && n == s.Launches.Load() {
			predicted = max(predicted, ns)
		}
		time.Sleep(100 * time.Microsecond)
	}
	if got := strings.TrimSpace(r.finish(t)); got != "done" {
		t.Errorf("got %q", got)
	}
	if predicted < 10*time.Millisecond || predicted > 40*time.Millisecond {
		t.Errorf("%v predicted of a kernel of 20 ms", predicted)
	}
}
