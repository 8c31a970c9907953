package shim

import (
	"fmt"
	"testing"
	"time"
)

// TestTimeSide runs the library's time side (predictions, batches, room, gate, streams, captures
// and the watcher) in virtual time, case by case (testdata/virtual.h): what it does is told by
// value, whatever else this machine does.
func TestTimeSide(t *testing.T) {
	t.Parallel()
	for name, cases := range map[string]int{"pace": 39, "turns": 12, "whose": 12, "short": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := onParts(t, name, "capture", "gate", "inflight", "own", "predict", "room",
				"short", "streams", "sync")
			if want := fmt.Sprintf("%d cases", cases); got != want {
				t.Errorf("want %s:\n%s", want, got)
			}
		})
	}
}

// TestLaunchesAreCountedAtExit has a program exit with a batch of launches open: those count, too.
func TestLaunchesAreCountedAtExit(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	const launches = 100
	for range 4 {
		w := newWarden(t, testCap, 2*time.Millisecond)
		w.gate(true)
		b.command(w, "launches", fmt.Sprint(launches), "1000").run(t)
		if n := w.page.Slot(0).Launches.Load(); n != launches {
			t.Errorf("%d launches count, of %d", n, launches)
		}
	}
}

// TestFullQueue has a program wait for nobody while the device's queue is full: as soon as it is,
// and when the watcher, too, waits in the driver for a place in it. One that waits never ends.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	compiled(t)
	for threads, when := range map[string]string{"1": "at once", "2": "beside the watcher"} {
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.gate(true)
		if out := onFake(t, w, t.TempDir(), "full", threads).run(t); out != "done\n" {
			t.Errorf("%s: %q", when, out)
		}
	}
}
