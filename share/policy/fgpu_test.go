package policy_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/sim"
)

// TestFGPUIsolates: a job beside others runs to the nanosecond as on its units alone, whatever they
// do; under MPS it does not.
func TestFGPUIsolates(t *testing.T) {
	half := job("half", share.Share{Compute: 0.5}, ms, sim.Arrival{Poisson: 20})
	late := job("late", share.Share{Compute: 0.125}, ms/4, always)
	late.Start = 300 * ms
	crowd := []sim.Job{half, job("quarter", share.Share{Compute: 0.25}, 7*ms, always), late,
		job("one", share.Share{}, 3*ms, always),
		job("two", share.Share{Compute: 0.5, Class: share.Opportunistic}, 3*ms, always)}
	alone := run(t, "fgpu", spatial(8, half)).Jobs[0]
	res := run(t, "fgpu", spatial(8, crowd...))
	for i, l := range res.Jobs[0].Latencies {
		if l != alone.Latencies[i] {
			t.Fatalf("request %d took %v beside others, %v alone", i, l, alone.Latencies[i])
		}
	}
	if got := alone.Latency(0); got != 20*ms {
		t.Errorf("a request of 10ms took %v on half of the units, want 20ms", got)
	}
	beside := run(t, "mps", spatial(8, crowd...)).Jobs[0]
	if beside.Latency(0.5) <= alone.Latency(0.5) {
		t.Errorf("median of %v under mps, %v alone under fgpu: the others disturb nobody",
			beside.Latency(0.5), alone.Latency(0.5))
	}
	// Steps of 7 ms on two of eight units; steps of 0.25 ms on one of them for 700 ms, less the
	// step of a job without a guarantee that was on it.
	for i, want := range []int64{3, 34} {
		if got := res.Jobs[1+i].Iterations; got != want {
			t.Errorf("%s: %d iterations, want %d", res.Jobs[1+i].Name, got, want)
		}
	}
	if a, b := res.Jobs[3].Used, res.Jobs[4].Used; a < b*3/4 || b < a*3/4 {
		t.Errorf("jobs without a guarantee used %v and %v, want turns", a, b)
	}
}

// TestFGPURefuses: guarantees count in whole units, and a job without one needs a unit that nobody
// was promised.
func TestFGPURefuses(t *testing.T) {
	for _, tc := range []struct {
		computes []float64
		says     string
	}{
		{[]float64{0.5, 0.5}, ""},
		{[]float64{0.3, 0.3, 0.4}, "which is 1 of 2 units, has 0 of them left"},
		{[]float64{0.5, 0.5, 0}, "guarantees have all 2 units"},
		{[]float64{0, 0.5, 0}, ""},
		{[]float64{0, 1}, "which is 2 of 2 units, has 1 of them left"},
		{[]float64{0, 0.5, 0.5}, "lower its compute to 0 or end another job"},
	} {
		var jobs []sim.Job
		for i, c := range tc.computes {
			jobs = append(jobs, job(string(rune('a'+i)), share.Share{Compute: c}, ms, always))
		}
		res := run(t, "fgpu", spatial(2, jobs...))
		for i := range jobs {
			err := res.Jobs[i].Refused
			switch last := i == len(jobs)-1; {
			case tc.says == "" || !last:
				if err != nil {
					t.Errorf("computes %v: job %d: %v", tc.computes, i, err)
				}
			case !errors.Is(err, core.ErrNoCompute) || !strings.Contains(err.Error(), tc.says):
				t.Errorf("computes %v: error is %v, want %q", tc.computes, err, tc.says)
			}
		}
	}
}

// TestFGPUAsked: neither a change of policy nor one of a share brings about what admission refuses.
func TestFGPUAsked(t *testing.T) {
	config, err := core.Config{Device: "sim:0", Units: 2, Memory: share.GiB,
		Can: share.Can{Partition: true}}.ForPolicy("fair")
	if err != nil {
		t.Fatal(err)
	}
	k, err := core.New(config)
	if err != nil {
		t.Fatal(err)
	}
	spec := func(name string, compute float64) *share.Job {
		return &share.Job{Name: name, Share: share.Share{Compute: compute}}
	}
	for i, step := range []struct {
		event core.Event
		want  error
	}{
		{core.Event{Kind: core.Admit, Spec: spec("a", 0.5)}, nil},
		{core.Event{Kind: core.Admit, Spec: spec("b", 0.2)}, nil},
		{core.Event{Kind: core.Admit, Spec: spec("c", 0.3)}, nil},
		{core.Event{Kind: core.Switch, Policy: "fgpu"}, share.ErrNoCompute},
		{core.Event{Kind: core.End, Job: 3}, nil},
		{core.Event{Kind: core.Want, Job: 1}, nil},
		{core.Event{Kind: core.Want, Job: 2}, nil},
		{core.Event{Kind: core.Switch, Policy: "fgpu"}, nil},
		{core.Event{Kind: core.Change, Job: 2, Spec: spec("b", 0.6)}, share.ErrNoCompute},
		{core.Event{Kind: core.Return, Job: 1}, nil},
	} {
		if _, err := k.Step(step.event); !errors.Is(err, step.want) {
			t.Fatalf("event %d: error is %v, want %v", i, err, step.want)
		}
	}
	for i, want := range []share.UnitSet{share.UnitsOf(0), share.UnitsOf(1)} {
		if j, _ := k.Job(share.JobID(i + 1)); j.Units != want {
			t.Errorf("job %d holds units %v, want %v", i+1, j.Units, want)
		}
	}
	if n, err := k.Faults(); n > 0 {
		t.Errorf("%d faults: %v", n, err)
	}
}

// TestFGPUBandwidth is what the paper sets out from: to part the units is not enough, since jobs
// meet at the memory; where its bandwidth is parted too, a job takes as long beside others as
// alone.
func TestFGPUBandwidth(t *testing.T) {
	hog := func(name string, compute float64, width int, bandwidth float64) sim.Job {
		j := wide(job(name, share.Share{Compute: compute}, ms, always), width)
		j.Bandwidth = bandwidth
		return j
	}
	// Together they want 2.1 of the bandwidth, of which the first depends on half and has half.
	sc := spatial(8, hog("first", 0.5, 4, 0.5), hog("b", 0.25, 2, 0.8), hog("c", 0.25, 2, 0.8))
	for _, divided := range []bool{false, true} {
		sc.Device.Can.Bandwidth = divided
		alone, beside := sc, sc
		alone.Jobs = sc.Jobs[:1]
		want := int64(100)
		if got := run(t, "fgpu", alone).Jobs[0].Iterations; got != want {
			t.Errorf("divided %v: %d iterations alone, want %d", divided, got, want)
		}
		if !divided {
			want = 64 // 100 / (0.5 + 0.5 * 2.1)
		}
		if got := run(t, "fgpu", beside).Jobs[0].Iterations; got != want {
			t.Errorf("divided %v: %d iterations beside others, want %d", divided, got, want)
		}
	}
}
