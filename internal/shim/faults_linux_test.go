package shim

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/wire"
)

// TestHungAgent holds that an agent which is stopped, with its socket open, holds programs for no
// longer than wire.Hung, and that its gate counts again when it goes on.
func TestHungAgent(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	r := b.command(w, "pauses", "1000000")
	r.start(t)
	w.expect(wire.KindWant)
	w.freeze()
	s := w.page.Slot(0)
	until(t, "the program goes on", func() bool { return s.Launches.Load() > 0 })
	// The last beat may have come long before the end of beating, on a busy host.
	last := time.Duration(w.page.Header().AgentBeatNS.Load())
	if age := wire.Monotonic() - last; age < wire.Hung {
		t.Errorf("the program went on %v after the last beat, want %v or soon after", age,
			wire.Hung)
	}
	w.thaw()
	for w.gate(true); ; time.Sleep(10 * time.Millisecond) {
		if w.expect(wire.KindIdle).Gate == w.page.Header().Gate.Load() {
			break
		}
	}
	closed := w.gate(false)
	for w.expect(wire.KindWant).Gate != closed {
	}
	before := s.Launches.Load()
	time.Sleep(50 * time.Millisecond)
	if after := s.Launches.Load(); after != before {
		t.Errorf("%d launches at the closed gate of an agent that is back", after-before)
	}
}

// TestClosedDescriptors has a program close the library's socket and page, and open sockets of its
// own that get their numbers: nothing of the library's is written to them nor read from them, none
// is closed, and the program comes back to its job by a new socket.
func TestClosedDescriptors(t *testing.T) {
	t.Parallel()
	compiled(t)
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "closes")
	if got := strings.TrimSpace(r.run(t)); got != `{"closed":2,"lost":0}` {
		t.Errorf("got %s", got)
	}
	for _, rejoins := range []bool{false, true} {
		select {
		case h := <-w.hellos:
			if h.Rejoins() != rejoins || rejoins && h.Slot != 0 {
				t.Errorf("hello %+v", h)
			}
		default:
			t.Error("the program did not come back")
		}
	}
}

// TestUnknownCallsAreNamed looks calls up that no table has: they are passed through, and named to
// the agent once each.
func TestUnknownCallsAreNamed(t *testing.T) {
	t.Parallel()
	compiled(t)
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "future", "0.5")
	r.Env = append(r.Env, "WEIR_VERBOSE=1")
	if got := r.run(t); !strings.Contains(got, "42") {
		t.Errorf("got %q", got)
	}
	var named []string
	for len(w.notes) > 0 {
		named = append(named, <-w.notes)
	}
	if fmt.Sprint(named) != "[cuWeirFakeFuture]" {
		t.Errorf("named %q", named)
	}
	if n := strings.Count(r.err.String(), "cuWeirFakeFuture"); n != 1 {
		t.Errorf("named %d times on standard error: %q", n, r.err.String())
	}
}

// TestAnotherDevice holds that a job's programs use the job's GPU only, however they come to see
// others.
func TestAnotherDevice(t *testing.T) {
	t.Parallel()
	compiled(t)
	onProfiles(t, "", func(t *testing.T, profile string) {
		for device, works := range []bool{false, true} {
			anotherDevice(t, profile, device, works)
		}
	})
}

// anotherDevice has a program of a job on device 1 use the one given.
func anotherDevice(t *testing.T, profile string, device int, works bool) {
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	terms := wire.Terms{Token: w.token, Name: "test", MemCap: fakeCap, MemTotal: fakeCap,
		InFlight: 2 * time.Millisecond}
	copy(terms.UUID[:], "weir fake GPU")
	terms.UUID[15] = 1
	w.page.SetTerms(terms)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "train", "0.1", "100", "64")
	r.Env = append(r.Env, profile, "WEIR_FAKE_GPUS=2",
		fmt.Sprintf("CUDA_VISIBLE_DEVICES=%d", device))
	err := r.Run()
	if works != (err == nil) {
		t.Errorf("device %d of a job on 1: %v %s", device, err, r.err.String())
	}
	if said := strings.Contains(r.err.String(), "is not the GPU of this job"); said == works {
		t.Errorf("device %d of a job on 1: said %q", device, r.err.String())
	}
}

// TestContextsCount holds that a context's own memory is counted before it is made, once it is
// known what one takes. Contexts are all of one size, which those of the profile of hardware are
// not, as of each is counted what it takes.
func TestContextsCount(t *testing.T) {
	t.Parallel()
	compiled(t)
	const context = 16 << 20
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	dir := t.TempDir()
	var all []*running
	for range fakeCap/context + 1 {
		r := onFake(t, w, dir, "hold", "0")
		r.Env = append(r.Env, "WEIR_FAKE_PROFILE=plain")
		in, err := r.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		r.start(t)
		defer func() { _ = in.Close(); _ = r.Wait() }()
		if _, err := in.Write([]byte("go\n")); err != nil {
			t.Fatal(err)
		}
		all = append(all, r)
		if len(all) <= fakeCap/context {
			n := len(all)
			for end := time.Now().Add(patience); w.page.MemoryHeld() != uint64(n*context) &&
				time.Now().Before(end); {
				time.Sleep(time.Millisecond)
			}
		}
	}
	last := all[len(all)-1]
	if err := last.Wait(); err == nil ||
		!strings.Contains(last.err.String(), "CUDA_ERROR_OUT_OF_MEMORY") {
		t.Errorf("one more than fits: %v %s", err, last.err.String())
	}
	if held := w.page.MemoryHeld(); held != fakeCap ||
		w.page.Header().ContextBytes.Load() != context {
		t.Errorf("%d bytes held, a context takes %d", held, w.page.Header().ContextBytes.Load())
	}
}
