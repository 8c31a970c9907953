package shim

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"
)

// TestTimeSide runs the library's time side (predictions, batches, room, gate, streams, captures
// and the watcher) in virtual time, case by case (testdata/virtual.h): what it does is told by
// value, whatever else this machine does.
func TestTimeSide(t *testing.T) {
	t.Parallel()
	for name, cases := range map[string]int{"pace": 28, "turns": 10, "whose": 10, "short": 9} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := onParts(t, name, "capture", "gate", "inflight", "own", "predict", "room",
				"short", "streams")
			if want := fmt.Sprintf("%d cases", cases); got != want {
				t.Errorf("want %s:\n%s", want, got)
			}
		})
	}
}

// TestFullQueue holds that nobody waits for the watcher while that waits in the driver for a place
// in the device's queue.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	compiled(t)
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.gate(true)
	var got struct{ MS float64 }
	out := onFake(t, w, t.TempDir(), "full").run(t)
	if err := json.Unmarshal([]byte(out), &got); err != nil || got.MS > 5000 {
		t.Errorf("%q: %v", out, err)
	}
	if s := w.page.Slot(0); s.Launches.Load() != 9 {
		t.Errorf("%d launches", s.Launches.Load())
	}
}
