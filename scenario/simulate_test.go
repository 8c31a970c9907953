package scenario

import (
	"context"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/catalogue"
	"github.com/weirgpu/weir/share/policy"
)

func parse(t testing.TB, text string) *Scenario {
	t.Helper()
	s, err := Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func simulate(t testing.TB, text string, policies ...string) *Result {
	t.Helper()
	r, err := Simulate(t.Context(), parse(t, text), Options{Solo: true, Policies: policies})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func near(got, want, by float64) bool { return math.Abs(got-want) <= by }

// TestSimulateByHand compares every figure of a phase with those found by hand: on one device in
// turns of whole iterations, a takes 4 times 10 ms, b 2 times 30 ms.
func TestSimulateByHand(t *testing.T) {
	r := simulate(t, `
device: cpu:0
jobs:
  - {name: a, iteration: 10ms, iterations: 4, qos: 45ms}
  - {name: b, iteration: 30ms, iterations: 2, start: 0s}
`, "fifo")
	// a 0-10, b 10-40, a 40-50, b 50-80, a 80-90, a 90-100.
	a, b := r.Jobs[0], r.Jobs[1]
	if !near(a.CompletionS, 0.100, 1e-6) || !near(b.CompletionS, 0.080, 1e-6) ||
		!near(r.WallS, 0.1, 1e-6) {
		t.Fatalf("a ends at %v, b at %v, all at %v", a.CompletionS, b.CompletionS, r.WallS)
	}
	if a.OnTime != 4 || a.Late != 0 || *r.TargetsMet != 1 || a.TargetMS != 45 {
		t.Errorf("%d in time and %d late of a: %v", a.OnTime, a.Late, *r.TargetsMet)
	}
	if !near(a.IterationsPerS, 40, 1e-6) || !near(a.SoloPerS, 100, 1e-6) ||
		!near(b.IterationsPerS, 25, 1e-6) {
		t.Errorf("a %v a second, %v alone, b %v", a.IterationsPerS, a.SoloPerS, b.IterationsPerS)
	}
	x, y := 0.4, 0.75
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"total", r.ThroughputVsSolo, x + y},
		{"Jain", r.Jain, (x + y) * (x + y) / (2 * (x*x + y*y))},
		{"makespan", r.MakespanS, 0.1},
		{"mean completion", r.MeanCompletionS, 0.09},
		{"p99 of a", r.LatencyVsSolo, 4},
		{"b", r.BatchVsSolo, y},
		{"a's device time", a.DeviceSeconds, 0.04},
		{"b's share", b.DeviceShare, 0.6},
	} {
		if !near(c.got, c.want, 1e-6) {
			t.Errorf("%s is %v, want %v", c.what, c.got, c.want)
		}
	}
}

// TestUnansweredIsLate: requests that still wait at the end, for longer than their target, count.
func TestUnansweredIsLate(t *testing.T) {
	r := simulate(t, `
device: cpu:0
duration: 100ms
jobs: [{name: a, iteration: 30ms, qos: 40ms, arrival: {trace: [0s, 1ms, 2ms, 3ms, 95ms]}}]
`, "fifo")
	// Answered after 30, 59 and 88 ms; the fourth has waited for 97 ms, the last for 5.
	if j := r.Jobs[0]; j.OnTime != 1 || j.Late != 3 || !near(*r.TargetsMet, 0.25, 1e-9) {
		t.Errorf("%d in time, %d late, %v", j.OnTime, j.Late, *r.TargetsMet)
	}
}

// TestSimulateOnADevice: a job that fills half of a device's units leaves the other half under a
// policy that overlaps, and its model's plan takes what the data sheet says.
func TestSimulateOnADevice(t *testing.T) {
	const text = `
device: a100
duration: 10s
jobs:
  - {name: a, iteration: 10ms, kernel: {units: 0.5}}
  - {name: b, iteration: 10ms, kernel: {units: 0.5}}
`
	alternating, together := simulate(t, text, "timeslice"), simulate(t, text, "mps")
	if got := alternating.ThroughputVsSolo; !near(got, 1, 0.05) {
		t.Errorf("in turns %v of alone, want 1", got)
	}
	if got := together.ThroughputVsSolo; !near(got, 2, 0.05) {
		t.Errorf("at once %v of alone, want 2", got)
	}
	for _, j := range together.Jobs {
		if !near(j.DeviceShare, 0.5, 0.01) || together.Threads != 108 {
			t.Errorf("%s has %v of %d units", j.Name, j.DeviceShare, together.Threads)
		}
	}
}

// TestPredicted holds the roofline of plans made by hand.
func TestPredicted(t *testing.T) {
	d := &catalogue.Device{Units: 100, Peak: 1e12, Bandwidth: 1e11}
	step := func(flops, bytes int64) *plan.Plan {
		return &plan.Plan{Slots: []plan.Slot{{Bytes: 4 * residentThreads * 50}},
			Steps: []plan.Step{{Out: []int{0}, Flops: flops, Bytes: bytes}}}
	}
	for _, c := range []struct {
		name         string
		p            *plan.Plan
		time         time.Duration
		units, bytes float64
	}{
		{"arithmetic on half of the units", step(1e9, 1e6), 2 * time.Millisecond, 0.5, 0.005},
		{"traffic", step(1e6, 1e9), 10 * time.Millisecond, 0.5, 1},
		{"a launch", step(1, 1), launch, 0.5, 0},
	} {
		w := predicted(c.p, d)
		if w.Iteration != c.time || w.Kernel.Time != c.time ||
			!near(w.Kernel.Units, c.units, 1e-9) || !near(w.Kernel.Bandwidth, c.bytes, 1e-4) {
			t.Errorf("%s: %+v", c.name, w)
		}
	}
}

// TestSimulateAModel: a larger batch takes longer, a faster device less long.
func TestSimulateAModel(t *testing.T) {
	at := func(device, arch string) float64 {
		j := closedJob("a", vision(t, arch), 0)
		s := &Scenario{Device: device, Duration: time.Second, Jobs: []Job{j}}
		r, err := Simulate(t.Context(), s, Options{Threads: 1})
		if err != nil {
			t.Fatal(err)
		}
		if r.Jobs[0].PlanBytes <= 0 || r.Jobs[0].MemoryCapBytes < r.Jobs[0].PlanBytes {
			t.Errorf("the plan needs %d bytes", r.Jobs[0].PlanBytes)
		}
		return r.Jobs[0].IterationsPerS
	}
	if slow, fast := at("v100", "resnet50"), at("h200", "resnet50"); slow <= 0 || fast < slow {
		t.Errorf("%v a second on a V100, %v on an H200", slow, fast)
	}
	s := &Scenario{Device: "cpu:0", Duration: time.Second,
		Jobs: []Job{closedJob("a", denseGraph(t), 0)}}
	if _, err := Simulate(t.Context(), s, Options{Threads: 1}); !errors.Is(err, ErrScenario) ||
		!strings.Contains(err.Error(), "describe its work") {
		t.Errorf("a model on a processor that is not published: %v", err)
	}
}

// TestEveryPolicySimulated runs all policies on the same arrivals.
func TestEveryPolicySimulated(t *testing.T) {
	const text = `
device: h100
duration: 2s
policy: all
jobs:
  - {name: a, class: latency, compute: 0.25, memory: 8GiB, iteration: 4ms,
     kernel: {time: 1ms, units: 0.5}, arrival: {load: 0.3}}
  - {name: b, memory: 8GiB, iteration: 20ms, kernel: {time: 1ms, bandwidth: 0.5}}
`
	r := simulate(t, text)
	if len(r.Results)+len(r.LeftOut) != len(policy.All()) ||
		len(r.Phases) != 1+len(r.Results) || len(r.Results) < 4 {
		t.Fatalf("%d results, %d left out, %d phases", len(r.Results), len(r.LeftOut),
			len(r.Phases))
	}
	for _, p := range r.Results {
		if p.Events == 0 || p.VirtualS != 2 || p.Jobs[0].Iterations == 0 {
			t.Errorf("%s: %d events in %v s, %d requests answered", p.Policy, p.Events, p.VirtualS,
				p.Jobs[0].Iterations)
		}
		for i, j := range p.Jobs {
			if j.Arrival != r.Results[0].Jobs[i].Arrival || j.SoloPerS <= 0 {
				t.Errorf("%s: %s arrives as %s, %v a second alone", p.Policy, j.Name, j.Arrival,
					j.SoloPerS)
			}
		}
	}
}

// TestPolicySelection: what cannot be enforced is left out with the reason, unless nothing else is
// asked for.
func TestPolicySelection(t *testing.T) {
	s := &Scenario{Policy: "fair"}
	specs, err := s.policies([]string{"fifo,fair:slice=5ms,burst=1ms", "mps"})
	if err != nil || len(specs) != 3 || specs[1].String() != "fair:burst=1ms,slice=5ms" {
		t.Fatalf("policies are %v, %v", specs, err)
	}
	run, out, err := enforceable(specs, share.Can{}, "cpu:0")
	if err != nil || len(run) != 2 || len(out) != 1 || out[0].Policy != "mps" ||
		!strings.Contains(out[0].Reason, "overlap") {
		t.Errorf("run %v, leave out %v, %v", run, out, err)
	}
	if _, _, err := enforceable(specs[2:], share.Can{}, "cpu:0"); !errors.Is(err, ErrScenario) ||
		!errors.Is(err, share.ErrCannot) {
		t.Errorf("only what cannot be enforced: %v", err)
	}
	_, err = s.policies([]string{"all", "fare,fair:quota=1"})
	if !errors.Is(err, policy.ErrUnknown) || !errors.Is(err, policy.ErrParam) {
		t.Errorf("unknown policies and parameters: %v", err)
	}
	for _, c := range []struct{ text, want string }{
		{"device: z80\nduration: 1s\njobs: [{name: a, iteration: 1s}]", "v100"},
		{"device: v100\npolicy: fair,nice\nduration: 1s\njobs: [{name: a, iteration: 1s}]",
			`"nice"`},
	} {
		sc, err := Parse(strings.NewReader(c.text))
		if err == nil {
			_, err = Simulate(t.Context(), sc, Options{})
		}
		if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v", c.text, err)
		}
	}
}

// TestDescribedWorkDoesNotRun: there is no model to run live.
func TestDescribedWorkDoesNotRun(t *testing.T) {
	_, err := Run(t.Context(), parse(t, "duration: 1s\njobs: [{name: a, iteration: 1s}]"),
		Options{})
	if !errors.Is(err, ErrScenario) || !strings.Contains(err.Error(), "weir simulate") {
		t.Errorf("error %v", err)
	}
}

// TestSimulatedRefusal: what does not fit is refused with what would, and the others run.
func TestSimulatedRefusal(t *testing.T) {
	r := simulate(t, `
device: a10
duration: 1s
jobs:
  - {name: a, compute: 0.7, memory: 20GiB, iteration: 1ms}
  - {name: b, compute: 0.5, iteration: 1ms}
  - {name: c, memory: 5GiB, iteration: 1ms}
`, "fair")
	for i, want := range []string{"", "0.3", "4GiB"} {
		j := r.Jobs[i]
		if (j.Status == StatusRefused) != (want != "") || !strings.Contains(j.Error, want) {
			t.Errorf("%s is %s: %s", j.Name, j.Status, j.Error)
		}
	}
}

// TestSimulatedWait: what does not fit waits where it says so, until others have ended; a rate is
// of the time since it was let in.
func TestSimulatedWait(t *testing.T) {
	text := `
device: a10
duration: 2s
jobs:
  - {name: a, memory: 20GiB, iterations: 1000, iteration: 1ms}
  - {name: b, memory: 5GiB, iterations: 500, iteration: 1ms, wait: true}
  - {name: c, memory: 25GiB, iterations: 500, iteration: 1ms, wait: true}
`
	r := simulate(t, text, "fair")
	for i, want := range []float64{1, 1.5, 0} {
		j := r.Jobs[i]
		if !near(j.CompletionS, want, 1e-3) || want > 0 && math.Abs(j.IterationsPerS-1000) > 1 {
			t.Errorf("%s was done at %v s, %v iterations a second; want %v, 1000", j.Name,
				j.CompletionS, j.IterationsPerS, want)
		}
		if waited := []float64{0, 1, 0}[i]; !near(j.WaitedS, waited, 1e-3) {
			t.Errorf("%s waited %v s, want %v", j.Name, j.WaitedS, waited)
		}
	}
	if j := r.Jobs[2]; j.Status != StatusRefused || !strings.Contains(j.Error, "24GiB") {
		t.Errorf("%s is %s: %s", j.Name, j.Status, j.Error)
	}
}

// TestSimulateLong: without a duration, more iterations than there is time for are simulated for
// as long as there is, and requests that hardly ever come do not come.
func TestSimulateLong(t *testing.T) {
	r := simulate(t, `
device: cpu:0
jobs:
  - {name: ends, iteration: 10ms, iterations: 3}
  - {name: rare, iteration: 10ms, iterations: 1000000000000000, arrival: {poisson: 1e-300}}
`, "fifo")
	if r.Jobs[0].Iterations != 3 || r.Jobs[1].Iterations > 5 || r.VirtualS < 1e9 {
		t.Errorf("%d and %d iterations in %v s", r.Jobs[0].Iterations, r.Jobs[1].Iterations,
			r.VirtualS)
	}
}

// TestSimulateStopped ends a simulation in the middle of a phase of millions of events.
func TestSimulateStopped(t *testing.T) {
	s := parse(t, `
device: cpu:0
duration: 20000h
jobs: [{name: a, iteration: 10ms}]
`)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	o := Options{Progress: func(string) { cancel() }}
	if _, err := Simulate(ctx, s, o); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// TestCompletionsFromStarts: the mean completion time is that since the jobs' starts, as is their
// pace, and alone they have no limit.
func TestCompletionsFromStarts(t *testing.T) {
	r := simulate(t, `
device: cpu:0
jobs:
  - {name: a, iteration: 10ms, iterations: 2}
  - {name: b, iteration: 10ms, iterations: 4, start: 100ms, limit: 0.2}
`, "fifo")
	if !near(r.MeanCompletionS, (0.020+0.040)/2, 1e-9) || !near(r.MakespanS, 0.140, 1e-9) {
		t.Errorf("mean completion %v, makespan %v", r.MeanCompletionS, r.MakespanS)
	}
	// fifo heeds no limit.
	if b := r.Jobs[1]; !near(b.IterationsPerS, 100, 1e-6) || !near(b.SoloPerS, 100, 1e-6) {
		t.Errorf("%v a second, %v alone", b.IterationsPerS, b.SoloPerS)
	}
	r = simulate(t, "device: cpu:0\nduration: 1s\njobs: [{name: a, iteration: 10ms, limit: 0.2}]",
		"fair")
	if a := r.Jobs[0]; !near(a.SoloPerS, 100, 1) || a.IterationsPerS > 22 {
		t.Errorf("%v a second, %v alone", a.IterationsPerS, a.SoloPerS)
	}
}

// TestSimulatedUnfinished: a job that is not complete when the simulation ends, because it may have
// a hundredth of the device, had its time until then and not until the others were complete.
func TestSimulatedUnfinished(t *testing.T) {
	r := simulate(t, `
device: cpu:0
jobs:
  - {name: fast, iteration: 10ms, iterations: 3}
  - {name: slow, iteration: 10s, kernel: {time: 10ms}, iterations: 10, limit: 0.01}
`, "fair")
	fast, slow := r.Jobs[0], r.Jobs[1]
	if slow.Iterations == 10 || r.MakespanS != 0 || fast.CompletionS > 0.1 || r.WallS < 1000 {
		t.Fatalf("%d iterations, makespan %v, fast ends at %v of %v", slow.Iterations, r.MakespanS,
			fast.CompletionS, r.WallS)
	}
	r = simulate(t, `
device: cpu:0
jobs:
  - {name: fast, iteration: 10ms, iterations: 3}
  - {name: stopped, iteration: 10ms, iterations: 10000, stop: 2s}
`, "fifo")
	if !near(r.WallS, 2, 1e-9) {
		t.Errorf("all jobs end after 2 s, the phase after %v", r.WallS)
	}
	if !near(slow.DeviceShare, 0.01, 1e-4) || !near(slow.IterationsPerS, 0.001, 1e-5) {
		t.Errorf("it had %v of the device, %v iterations a second", slow.DeviceShare,
			slow.IterationsPerS)
	}
}
