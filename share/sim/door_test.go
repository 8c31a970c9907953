package sim_test

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// training makes a job that wants so much memory for ten iterations of 10 ms.
func training(name string, need share.Bytes, start time.Duration, waits bool) sim.Job {
	j := job(name, 10*ms, 0, sim.Arrival{Closed: 1})
	j.Need, j.Start, j.Iterations, j.Waits = need, start, 10, waits
	return j
}

// TestDoor: jobs that wait are let in in their order as soon as others have ended and leave room,
// one that does not fit alone is refused, and one that does not wait passes them or is refused.
func TestDoor(t *testing.T) {
	const gib = share.GiB
	sc := sim.Scenario{Duration: 10 * time.Second, Device: sim.Device{Memory: 10 * gib},
		Jobs: []sim.Job{
			training("first", 6*gib, 0, true),
			training("large", 8*gib, 10*ms, true),
			training("huge", 11*gib, 20*ms, true),
			training("small", 2*gib, 30*ms, true),
			training("passes", 3*gib, 40*ms, false),
			training("refused", 2*gib, 50*ms, false),
		}}
	res := run(t, "fifo", sc)
	if res.Faults > 0 || res.Wasted > 0 {
		t.Errorf("%d faults, idle %d times", res.Faults, res.Wasted)
	}
	// The first and the one that passes take turns, and are both done at 200 ms.
	for i, want := range []time.Duration{0, 200 * ms, -1, 300 * ms, 40 * ms, -1} {
		j := &res.Jobs[i]
		switch {
		case (j.Refused != nil) != (want < 0):
			t.Errorf("%s: refused: %v", j.Name, j.Refused)
		case want < 0 && !errors.Is(j.Refused, share.ErrNoMemory):
			t.Errorf("%s: refused as %v, want ErrNoMemory", j.Name, j.Refused)
		case want >= 0 && (j.Admitted != want || j.Completion == 0):
			t.Errorf("%s: let in at %v, done at %v; want %v, and done", j.Name, j.Admitted,
				j.Completion, want)
		}
	}
}

// TestDoorIsShut: who still waits at the end, or gives up, was not let in, and others get past one
// that gave up.
func TestDoorIsShut(t *testing.T) {
	holds := training("holds", 6*share.GiB, 0, false)
	holds.Iterations = 0
	stops := training("stops", 5*share.GiB, 10*ms, true)
	stops.Stop = 500 * ms
	sc := sim.Scenario{Duration: time.Second, Device: sim.Device{Memory: 10 * share.GiB},
		Jobs: []sim.Job{holds, stops, training("fits", 4*share.GiB, 20*ms, true),
			training("waits", 5*share.GiB, 30*ms, true), training("last", 1, 40*ms, true)}}
	res := run(t, "fifo", sc)
	var refused []string
	for i := range res.Jobs {
		if j := &res.Jobs[i]; j.Refused != nil {
			refused = append(refused, j.Name)
		}
	}
	if want := []string{"stops", "waits", "last"}; !slices.Equal(refused, want) {
		t.Errorf("refused %v, want %v", refused, want)
	}
	if got := res.Jobs[2].Admitted; got != 500*ms {
		t.Errorf("let in at %v, want 500ms, when the one before gave up", got)
	}
	err := res.Jobs[4].Refused
	if !errors.Is(err, share.ErrNoMemory) || !strings.Contains(err.Error(), "behind job waits") {
		t.Errorf("the last was refused as %v", err)
	}
}
