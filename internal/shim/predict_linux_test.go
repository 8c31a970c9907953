package shim

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"
)

// predictions returns what is predicted, in microseconds, after each of the launches that
// testdata/predict.c is told of.
func predictions(t *testing.T, launches ...string) []uint64 {
	t.Helper()
	compiled(t)
	// the source that it includes is part of what it is kept by
	program, err := keptC("predict", []string{"-std=c11", "-O2", "-Wall", "-Wextra", "-Werror",
		"-I.", "-DSOURCE=" + Digest()}, "testdata/predict.c")
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.Command(program, launches...).Output()
	if err != nil {
		t.Fatal(err)
	}
	var all []uint64
	for line := range strings.Lines(string(out)) {
		var us uint64
		if _, err := fmt.Sscan(line, &us); err != nil {
			t.Fatal(err)
		}
		all = append(all, us)
	}
	return all
}

func TestFirstLaunchesAreSetApart(t *testing.T) {
	for name, launches := range map[string][]string{
		"loaded at the first":         {"20000", "20", "21", "20", "19"},
		"and again at the second":     {"20000", "5000", "21", "20", "19"},
		"waited for at the first one": {"s20000", "20", "21", "20", "19"},
	} {
		all := predictions(t, launches...)
		if last := all[len(all)-1]; last < 10 || last > 40 {
			t.Errorf("%s: %v us are predicted of kernels of 20 us", name, all)
		}
	}
	// It is nothing of the next one's.
	if all := predictions(t, "20000", "12000", "12000"); all[1] > 12_100 {
		t.Errorf("%v us are predicted of kernels of 12 ms", all)
	}
	// The first says something too, if all take as long.
	if all := predictions(t, "20000", "19000", "21000"); slices.Min(all) < 15000 {
		t.Errorf("%v us are predicted of kernels of 20 ms", all)
	}
}

func TestPredictionsHaveACap(t *testing.T) {
	all := predictions(t, "60000000", "60000000", "60000000", "60000000", "60000000")
	if got := slices.Max(all); got > 1_001_000 {
		t.Errorf("%d us are predicted", got)
	}
	// Also not of what differs, and what was far above it is forgotten as soon.
	if got := slices.Max(predictions(t, slices.Repeat([]string{"1000000", "200000"}, 99)...)); got >
		1_001_000 {
		t.Errorf("%d us are predicted of what differs", got)
	}
	after := func(us string) []uint64 {
		launches := append(slices.Repeat([]string{us}, 8), slices.Repeat([]string{"20"}, 40)...)
		return predictions(t, launches...)
	}
	if long, capped := after("60000000"), after("1000000"); !slices.Equal(long, capped) {
		t.Errorf("%v us are predicted after a minute, %v after a second", long, capped)
	}
}

// TestDelayedLaunchesAreForgotten: a prediction that was never but confirmed by who waited for it
// decays, and one that is right comes back.
func TestDelayedLaunchesAreForgotten(t *testing.T) {
	long := []string{"500000", "500000", "500000", "500000"}
	slow := predictions(t, append(slices.Clone(long), slices.Repeat([]string{"d"}, 40)...)...)
	fast := predictions(t, append(slices.Clone(long), slices.Repeat([]string{"s"}, 10)...)...)
	if slow[3] != fast[3] || slow[3] < 490000 || slow[43] > 5000 || fast[13] > 1000 {
		t.Errorf("from %d us to %d us and %d us", slow[3], slow[43], fast[13])
	}
	back := predictions(t, append(append(slices.Clone(long), "s"),
		slices.Repeat([]string{"500000"}, 20)...)...)
	if got := back[len(back)-1]; back[4] > 260000 || got < 450000 || got > 1000000 {
		t.Errorf("%d us, then %d us are predicted of kernels of 500 ms", back[4], got)
	}
}

// TestGraphsMadeAnew holds that the device need not wait for the host after each launch of a
// program that launches nothing twice: four of unknown time are in flight, no more, and one alone
// if some took long.
func TestGraphsMadeAnew(t *testing.T) {
	t.Parallel()
	compiled(t)
	for name, c := range map[string]struct {
		first       string
		least, most uint64 // in flight at most, as predicted: 50 us each
	}{"all are short": {"100", 75_000, 200_000}, "one was long": {"20000", 50_000, 50_000}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// A host whose processors are busy looks too rarely to see four: one run of several has
			// to show them.
			most := uint64(0)
			for run := 0; run == 0 || run < 8 && most < c.least; run++ {
				most = max(most, mostInFlight(t, "anew", "500", "200", c.first))
			}
			if most < c.least || most > c.most {
				t.Errorf("%d ns in flight at most, want %d to %d", most, c.least, c.most)
			}
		})
	}
}

// TestKernelsMadeAnew has a long kernel come by the handle of a short one that is gone: one at a
// time is on the device, as of all whose time is unknown, beside the one that follows it soon.
func TestKernelsMadeAnew(t *testing.T) {
	t.Parallel()
	compiled(t)
	for _, how := range []string{"module", "library"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWarden(t, fakeCap, 2*time.Millisecond)
			w.gate(true)
			var got struct {
				Same   bool
				Flying int
			}
			out := onFake(t, w, t.TempDir(), "reload", how).run(t)
			if err := json.Unmarshal([]byte(out), &got); err != nil || !got.Same ||
				got.Flying > 2 {
				t.Errorf("%q: %v, want a handle that comes again and at most 2 at once", out, err)
			}
		})
	}
}

// mostInFlight runs a program with the gate open, and returns what was seen in flight at most.
func mostInFlight(t *testing.T, program string, args ...string) uint64 {
	t.Helper()
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), program, args...)
	r.start(t)
	ended := make(chan error, 1)
	go func() { ended <- r.Wait() }()
	s, most := w.page.Slot(0), uint64(0)
	for {
		select {
		case err := <-ended:
			if err != nil {
				t.Errorf("%v: %s", err, r.err.String())
			}
			return most
		default:
			most = max(most, s.InflightNS.Load())
			runtime.Gosched()
		}
	}
}
