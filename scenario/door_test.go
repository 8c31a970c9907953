package scenario

import (
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/share"
)

// doorScenario is a job that fits, three that wait for its room, and one that is in nobody's way.
// Each needs as much as the first.
func doorScenario(t *testing.T) (*Scenario, share.Bytes) {
	t.Helper()
	g := denseGraph(t)
	s := &Scenario{Policy: "fair", Jobs: []Job{closedJob("first", g, 50)}}
	p, err := newRun(t.Context(), s.valid(t), Options{Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	need := share.Bytes(p.jobs[0].need())
	p.close()
	for _, name := range []string{"second", "third", "fourth"} {
		j := closedJob(name, g, 5)
		j.Wait = true
		s.Jobs = append(s.Jobs, j)
	}
	s.Memory = need
	return s, need
}

// TestWait: jobs that do not fit are let in one after the other, in their order, when those before
// have ended; without wait they are refused with both numbers.
func TestWait(t *testing.T) {
	s, need := doorScenario(t)
	var mu sync.Mutex
	places := map[string]int{} // the last seen of those who wait
	res := run1(t, s, Options{Threads: 1, Live: func(l Live) {
		mu.Lock()
		defer mu.Unlock()
		for _, j := range l.Jobs {
			if j.Place > 0 {
				places[j.Name] = max(places[j.Name], j.Place)
				if j.Waits == "" {
					t.Errorf("%s waits for nothing", j.Name)
				}
			}
		}
	}})
	last := 0.0
	for i, j := range res.Jobs {
		if j.Status != StatusDone || j.Iterations != s.Jobs[i].Iterations {
			t.Errorf("%s did %d iterations, %s: %s", j.Name, j.Iterations, j.Status, j.Error)
		}
		if (j.WaitedS > 0) != (i > 0) || j.WaitedS < last || i > 0 && j.CompletionS < j.WaitedS {
			t.Errorf("%s waited %v s, the one before %v, done at %v", j.Name, j.WaitedS, last,
				j.CompletionS)
		}
		last = j.WaitedS
		if j.MemoryPeakBytes != int64(need) {
			t.Errorf("%s held %d bytes, needs %d", j.Name, j.MemoryPeakBytes, need)
		}
	}
	mu.Lock()
	defer mu.Unlock()
	for name, place := range places { // what is shown depends on when it is looked at
		if want := map[string]int{"second": 1, "third": 2, "fourth": 3}[name]; place > want {
			t.Errorf("%s was shown at place %d, want %d at most", name, place, want)
		}
	}
	for i := range s.Jobs {
		s.Jobs[i].Wait = false
	}
	for _, j := range run1(t, s, Options{Threads: 1}).Jobs[1:] {
		if j.Status != StatusRefused || !strings.Contains(j.Error, "wants "+need.About()) ||
			!strings.Contains(j.Error, "has 0B of "+need.About()) {
			t.Errorf("%s is %s: %s", j.Name, j.Status, j.Error)
		}
	}
}

// TestWaitInVain: who can never fit is refused, and does not keep those behind out; who still waits
// at the end is told its place.
func TestWaitInVain(t *testing.T) {
	s, need := doorScenario(t)
	s.Jobs[0].Wait, s.Jobs[0].Memory = true, 2*need // more than there is
	s.Jobs[1].Memory = need - 1                     // less than it needs
	res := run1(t, s, Options{Threads: 1})
	for i, want := range []string{StatusRefused, StatusRefused, StatusDone, StatusDone} {
		if j := res.Jobs[i]; j.Status != want || (want == StatusRefused) != (j.Error != "") {
			t.Errorf("%s is %s: %s", j.Name, j.Status, j.Error)
		}
	}
	s, _ = doorScenario(t)
	s.Jobs[0].Iterations, s.Duration = 0, liveEvery // until the end
	res = run1(t, s, Options{Threads: 1})
	for i, want := range []string{"", "waited at place 1: job second: ",
		"waited at place 2: job third: waits behind job second: ",
		"waited at place 3: job fourth: waits behind job second: "} {
		if j := res.Jobs[i]; !strings.HasPrefix(j.Error, want) || (want == "") != (j.Error == "") ||
			i > 0 && j.Status != StatusRefused {
			t.Errorf("%s is %s: %s, want %q", j.Name, j.Status, j.Error, want)
		}
	}
}

// TestWaitBehindAFault: a job that fails makes room as one that ends does.
func TestWaitBehindAFault(t *testing.T) {
	s, _ := doorScenario(t)
	g := gatherGraph(t)
	s.Jobs[0] = closedJob("first", g, 0)
	s.Jobs[0].Given = indices(0, 9) // out of range
	s.Jobs[0].Memory = s.Memory
	s.Jobs[0].Iterations = 3
	res := run1(t, s, Options{Threads: 1})
	if res.Jobs[0].Status != StatusFailed {
		t.Errorf("first is %s: %s", res.Jobs[0].Status, res.Jobs[0].Error)
	}
	for _, j := range res.Jobs[1:] {
		if j.Status != StatusDone || j.Iterations != 5 {
			t.Errorf("%s did %d iterations, %s: %s", j.Name, j.Iterations, j.Status, j.Error)
		}
	}
}

// TestWaitForTwo: who needs the room of two that end at once is let in after both.
func TestWaitForTwo(t *testing.T) {
	s, need := doorScenario(t)
	s.Jobs = s.Jobs[:3]
	s.Memory = 2 * need
	s.Jobs[0].Iterations, s.Jobs[1].Iterations = 1, 1
	s.Jobs[2].Memory = 2 * need
	for range 20 {
		for _, j := range run1(t, s, Options{Threads: 1}).Jobs {
			if j.Status != StatusDone || (j.WaitedS > 0) != (j.Name == "third") {
				t.Fatalf("%s is %s after %v s: %s", j.Name, j.Status, j.WaitedS, j.Error)
			}
		}
	}
}
