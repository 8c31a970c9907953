package fakecuda_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// costs is what the program knobs prints.
type costs struct {
	Context, One, Two, Large, Code, Stack, Fifo, Left uint64

	First    float64 `json:"first_us"`
	Second   float64 `json:"second_us"`
	Record   float64 `json:"record_us"`
	Teardown float64 `json:"teardown_us"`
	Waited   bool
	Late     bool `json:"loaded_late"`
	Pageable both `json:"pageable_waited"`
	Within   both `json:"within_waited"`
	calls
}

// both is of copies in one row and in several.
type both [2]bool

// calls is what calls take of the calling thread, in microseconds.
type calls struct {
	Put     float64 `json:"put_us"`
	Query   float64 `json:"query_us"`
	Elapsed float64 `json:"elapsed_us"`
	Blocked float64 `json:"blocked_us"`
}

// The profile "plain" costs nothing beyond what is asked for; each knob of "hardware" costs what
// model/knobs.h says, alone and together with the others.
func TestKnobs(t *testing.T) {
	const mib, context = 1 << 20, 16 << 20
	dir := driver(t)
	plain := costs{Context: context, One: 1, Two: 1, Large: 3*mib + 1, Left: context,
		Within: both{true, true}}
	for setting, change := range map[string]func(*costs){
		"WEIR_FAKE_PROFILE=plain": func(*costs) {},
		"WEIR_FAKE_GRANULE=2MiB": func(c *costs) {
			c.One, c.Two, c.Large = 2*mib, 0, 4*mib
		},
		"WEIR_FAKE_LAZY_BYTES=64KiB": func(c *costs) { c.Code = 64 << 10 },
		"WEIR_FAKE_LAZY_SYNC=1":      func(c *costs) { c.Late = true },
		"WEIR_FAKE_STACK=1":          func(c *costs) { c.Stack = 1024 * 2048 * 64 },
		"WEIR_FAKE_FIFO=1":           func(c *costs) { c.Fifo = 2 * mib },
		"WEIR_FAKE_FREE_SYNC=1":      func(c *costs) { c.Waited = true },
		"WEIR_FAKE_PAGEABLE_SYNC=1":  func(c *costs) { c.Pageable = both{true, true} },
		"WEIR_FAKE_WITHIN_ASYNC=1":   func(c *costs) { c.Within = both{} },
		"WEIR_FAKE_RECORD_NS=3000":   func(c *costs) { c.Record = 3 },
		"WEIR_FAKE_PROFILE=hardware": func(c *costs) {
			c.One, c.Two, c.Large, c.Code = 2*mib, 0, 4*mib, 2*mib
			c.Stack, c.Fifo, c.Waited, c.Record = 1024*2048*64, 2*mib, true, 0.5
			c.Pageable, c.Within = both{true, true}, both{}
		},
	} {
		var got costs
		newDevice(t, dir, profile+"=plain", "WEIR_FAKE_CONTEXT=16MiB", setting).result(&got,
			"knobs")
		want := plain
		change(&want)
		if strings.HasSuffix(setting, "=hardware") {
			if got.First < 400 || got.Teardown < 10_000 || got.Context < context ||
				got.Context > context*5/4 || got.Left != got.Context {
				t.Errorf("%s: %+v", setting, got)
			}
			want.Context, want.Left = got.Context, got.Left
		}
		want.First, want.Second, want.Teardown = got.First, got.Second, got.Teardown
		if least := want.Record; got.Record >= least { // the host may be late with the second
			want.Record = got.Record
		}
		got.calls = calls{}
		if got != want {
			t.Errorf("%s: got %+v, want %+v", setting, got, want)
		}
	}
}

// What calls cost the thread that makes them is at least what the knob says, of each alone.
func TestKnobsOfCalls(t *testing.T) {
	dir := driver(t)
	for setting, least := range map[string][5]float64{
		"WEIR_FAKE_EVENT_NS=1000000":  {0, 1000, 1000, 1000, 0},
		"WEIR_FAKE_LAUNCH_NS=1000000": {1000, 0, 0, 0, 0},
		"WEIR_FAKE_WAKE_US=50000":     {0, 0, 0, 0, 50_000},
		"WEIR_FAKE_PROFILE=hardware":  {2, 1, 1, 1, 25},
	} {
		var c costs
		newDevice(t, dir, profile+"=plain", "WEIR_FAKE_CONTEXT=16MiB", setting).result(&c, "knobs")
		for i, got := range []float64{c.Second, c.Put, c.Query, c.Elapsed, c.Blocked} {
			if got < least[i] {
				t.Errorf("%s: call %d took %.1f us, want %.0f at least", setting, i, got, least[i])
			}
		}
	}
}

// Contexts of several processes are of several sizes, of which none is too large or too small.
func TestContextsDiffer(t *testing.T) {
	dir := driver(t)
	sizes := map[uint64]bool{}
	for range 40 {
		var c costs
		newDevice(t, dir, "WEIR_FAKE_CONTEXT=16MiB", "WEIR_FAKE_CONTEXT_SPREAD=25").result(&c,
			"knobs")
		sizes[c.Context] = true
		if c.Context < 16<<20 || c.Context > 20<<20 {
			t.Errorf("a context of %d bytes", c.Context)
		}
		if len(sizes) > 2 {
			return
		}
	}
	t.Errorf("all of 40 contexts are of the sizes %v", sizes)
}

// Of what sets up devices in the tests' own environment the profile alone is for the devices of the
// tests.
func TestOthersSettings(t *testing.T) {
	t.Setenv("WEIR_FAKE_GRANULE", "8MiB")
	for name, want := range map[string]uint64{"plain": 3<<20 + 1, "hardware": 4 << 20} {
		t.Setenv(profile, name)
		var got costs
		newDevice(t, driver(t)).result(&got, "knobs")
		if got.Large != want {
			t.Errorf("%s: an allocation took %d bytes, want %d", name, got.Large, want)
		}
	}
}

// A mix is the same for the same seed, and a name that is no profile's is said.
func TestMixes(t *testing.T) {
	dir := driver(t)
	seen := map[uint64]bool{}
	for seed := range 6 {
		var got, again costs
		setting := fmt.Sprintf("WEIR_FAKE_PROFILE=mix:%d", seed)
		newDevice(t, dir, setting).result(&got, "knobs")
		newDevice(t, dir, setting).result(&again, "knobs")
		if got.Large != again.Large || got.Stack != again.Stack || got.Waited != again.Waited {
			t.Errorf("seed %d: %+v, then %+v", seed, got, again)
		}
		seen[got.Large] = true
	}
	if len(seen) < 3 {
		t.Errorf("granules of 6 mixes: %v", seen)
	}
	cmd := newDevice(t, dir, "WEIR_FAKE_PROFILE=fast").command("smi")
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "WEIR_FAKE_PROFILE=fast") {
		t.Errorf("got %v, %q: want the setting named", err, out)
	}
}

// What a dead process held counts for a while, and as long as a child of it lives that was forked.
func TestMemoryOutlivesTheProcess(t *testing.T) {
	dir := driver(t)
	for _, setting := range []string{"WEIR_FAKE_LATE_US=60000", "WEIR_FAKE_FORKS=1"} {
		d := newDevice(t, dir, "WEIR_FAKE_CONTEXT=16MiB", "WEIR_FAKE_LATE_US=0",
			"WEIR_FAKE_FORKS=0", setting)
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		cmd := d.command("orphan")
		cmd.Stdin = r
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		_ = r.Close()
		var line string
		if _, err := fmt.Fscanln(out, &line); err != nil || line != "ready" {
			t.Fatalf("%q, %v", line, err)
		}
		held := d.ledger().Used
		if held < 17<<20 || d.exact() && held != 17<<20 {
			t.Errorf("%s: %d bytes are held, want 17 MiB", setting, held)
		}
		_ = cmd.Process.Kill()
		if err := cmd.Wait(); err == nil {
			t.Fatal("ended by itself")
		} else if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) {
			t.Fatal(err)
		}
		if l := d.ledger(); len(l.Processes) != 0 || l.Used != held {
			t.Errorf("%s: after the kill %d bytes, %d processes: want %d of none", setting,
				l.Used, len(l.Processes), held)
		}
		_ = w.Close() // ends the child
		eventually(t, "the memory is free", func() bool { return d.ledger().Used == 0 })
	}
}
