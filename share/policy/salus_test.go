package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// salusMix is training jobs of very different lengths that arrive together with the longest first,
// as in the trace of Salus, section 5.1, where most jobs are short and few last for long. Each can
// use a quarter of the device.
func salusMix() sim.Scenario {
	sc := sim.Scenario{Duration: 400 * time.Second, Device: sim.Device{Units: 8}}
	for i, iterations := range []int64{1500, 800, 400, 100, 60, 40, 20, 10} {
		j := job(fmt.Sprint("train-", i), share.Share{}, 5*ms, always)
		j.Iterations, j.Width = iterations, 2
		j.Start = time.Duration(i) * 100 * ms
		sc.Jobs = append(sc.Jobs, j)
	}
	return sc
}

// completions returns the mean time from admission to completion, and when the last job was done.
func completions(t *testing.T, name string, sc sim.Scenario) (mean, makespan time.Duration) {
	t.Helper()
	res := run(t, name, sc)
	for i := range res.Jobs {
		r := &res.Jobs[i]
		if r.Completion == 0 {
			t.Fatalf("%s: %s was not completed", name, r.Name)
		}
		mean += (r.Completion - sc.Jobs[i].Start) / time.Duration(len(res.Jobs))
		makespan = max(makespan, r.Completion)
	}
	return mean, makespan
}

// TestSRTFCompletes: the mean completion time is well below that of those who take turns, and the
// last job is done no later. Salus, section 5.2, reports a third of the mean under FIFO of whole
// jobs; fifo here takes turns by iteration, which no order can beat by more than a factor of two.
func TestSRTFCompletes(t *testing.T) {
	mean, makespan := completions(t, "srtf", salusMix())
	for _, other := range []string{"fifo", "fair", "timeslice"} {
		m, last := completions(t, other, salusMix())
		if float64(m) < 1.4*float64(mean) {
			t.Errorf("mean completion %v under %s, %v under srtf: want less by 1.4", m, other, mean)
		}
		if makespan > last+100*ms {
			t.Errorf("last done at %v under srtf, %v under %s", makespan, last, other)
		}
	}
}

// TestSRTFOrder: at an iteration's end the job with the least left goes on, by what iterations
// really took, and one of which nothing is known goes first.
func TestSRTFOrder(t *testing.T) {
	long, short, endless := job("long", share.Share{}, ms, always), job("short", share.Share{}, ms,
		always), job("endless", share.Share{}, ms, always)
	long.Iterations, short.Iterations, short.Start = 100, 10, 205*ms
	res := run(t, "srtf", sim.Scenario{Duration: 3 * time.Second,
		Jobs: []sim.Job{endless, long, short}})
	// One iteration of each of the first two, then 19 of long until 210 ms; short takes 100 ms.
	if c := res.Jobs[2].Completion; c != 310*ms {
		t.Errorf("the short job was done at %v, want 310ms", c)
	}
	if c := res.Jobs[1].Completion; c != 1110*ms {
		t.Errorf("the long job was done at %v, want 1.11s", c)
	}
	if n := res.Jobs[0].Iterations; n < 180 {
		t.Errorf("the endless job did %d iterations, want the rest of the time", n)
	}
}

// TestPackFillsTheDevice: four jobs of a quarter of the device each run at once, so that all are
// done in a quarter of the time, and of those that fill it one runs at a time, with no loss.
func TestPackFillsTheDevice(t *testing.T) {
	_, packed := completions(t, "pack", salusMix())
	_, alone := completions(t, "fifo", salusMix())
	// The longest job alone takes 75 s of the 146 s of all.
	if float64(packed) > 0.53*float64(alone) {
		t.Errorf("all done at %v, under fifo at %v", packed, alone)
	}
	sc := salusMix()
	for i := range sc.Jobs {
		sc.Jobs[i].Width = 0
	}
	_, packed = completions(t, "pack", sc)
	_, alone = completions(t, "fifo", sc)
	if packed != alone {
		t.Errorf("all that fill the device were done at %v, under fifo at %v", packed, alone)
	}
	// The paper's rule slows each down, and loses nothing.
	_, packed = completions(t, "pack:jobs=8", sc)
	if packed > alone+ms {
		t.Errorf("eight at once were done at %v, one after another at %v", packed, alone)
	}
}

// TestFillsWaits: a job that waits for input half of the time leaves no idle time, and is held up
// by one iteration of the others at most.
func TestFillsWaits(t *testing.T) {
	owner := job("owner", share.Share{}, ms, sim.Arrival{Closed: 1, Think: 10 * ms})
	long := job("long", share.Share{Class: share.Opportunistic}, 3*ms, always) // 30 ms: never fits
	fits := job("fits", share.Share{Class: share.Opportunistic}, ms/2, always) // 5 ms: fits twice
	res := run(t, "fill", sim.Scenario{Duration: 10 * time.Second,
		Jobs: []sim.Job{owner, long, fits}})
	used := res.Jobs[0].Share + res.Jobs[1].Share + res.Jobs[2].Share
	if used < 0.999 {
		t.Errorf("the device was in use for %.4f of the time, want all", used)
	}
	// The third of those that fit twice begins as the owner comes, and takes 5 ms.
	if got := res.Jobs[0].Share; got < 0.399 {
		t.Errorf("the owner got %.3f of the device, want 0.4: 10 of 25 ms", got)
	}
	if res.Jobs[1].Iterations > 2 {
		t.Errorf("%d iterations that do not fit were started", res.Jobs[1].Iterations)
	}
	// Nobody fits: strict leaves the gaps, the default fills them.
	both := []sim.Job{owner, long}
	strict := run2(t, "fill:strict=true", sim.Scenario{Duration: 10 * time.Second, Jobs: both})
	if got := strict.Jobs[0].Share; got < 0.48 {
		t.Errorf("strict: the owner got %.3f of the device, alone 0.5", got)
	}
	res = run(t, "fill", sim.Scenario{Duration: 10 * time.Second, Jobs: both})
	if got := res.Jobs[1].Share; got < 0.6 {
		t.Errorf("the gaps were left: %.3f", got)
	}
}

// run2 is run for a policy that may leave the device idle.
func run2(t *testing.T, spec string, sc sim.Scenario) *sim.Result {
	t.Helper()
	res, err := sim.Run(sc, spec, sim.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if res.Faults > 0 {
		t.Errorf("%s: %d faults", spec, res.Faults)
	}
	return res
}
