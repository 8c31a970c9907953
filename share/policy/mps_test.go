package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// spatial is a scenario of a second, and the moment after, on a device of so many units that can
// part and overlap jobs.
func spatial(units int, jobs ...sim.Job) sim.Scenario {
	return sim.Scenario{Duration: time.Second + ms, Jobs: jobs, Device: sim.Device{Units: units,
		Can: share.Can{Partition: true, Overlap: true, Resize: true}}}
}

// wide returns the job as one that can use so many units, of a device of which all count.
func wide(j sim.Job, width int) sim.Job {
	j.Width = width
	return j
}

func iterations(res *sim.Result) (n int64) {
	for i := range res.Jobs {
		n += res.Jobs[i].Iterations
	}
	return n
}

// TestMPSThroughput: jobs that cannot fill the device get as much done together as there is room
// for, and jobs that can no more than in turns. Nothing is switched.
func TestMPSThroughput(t *testing.T) {
	for _, tc := range []struct {
		name  string
		width int
		gain  float64 // over timeslice
	}{
		{"a quarter of the device each", 2, 4},
		{"half of the device each", 4, 2},
		{"all of it", 8, 1},
	} {
		var jobs []sim.Job
		for _, name := range []string{"a", "b", "c", "d"} {
			jobs = append(jobs, wide(job(name, share.Share{}, ms/5, always), tc.width))
		}
		sc := spatial(8, jobs...)
		one, all := iterations(run(t, "timeslice", sc)), iterations(run(t, "mps", sc))
		if got := float64(all) / float64(one); math.Abs(got/tc.gain-1) > 0.02 {
			t.Errorf("%s: %d iterations, %d in turns: %.2f times as many, want %.0f", tc.name, all,
				one, got, tc.gain)
		}
		sc.Device.SwitchCost = ms
		if got := iterations(run(t, "mps", sc)); got != all {
			t.Errorf("%s: %d iterations where a switch costs 1ms, %d where nothing", tc.name, got,
				all)
		}
	}
}

// TestMPSLimits: a limited job runs at its limit, rounded up to a unit, and limited jobs are kept
// apart for as long as their limits fit; also after some have ended.
func TestMPSLimits(t *testing.T) {
	limited := func(name string, limit float64) sim.Job {
		return job(name, share.Share{Limit: limit}, ms, always)
	}
	gone := limited("gone", 0.25)
	gone.Stop = 100 * ms
	late := limited("late", 0.2)
	late.Start = 200 * ms
	res := run(t, "mps", spatial(8, limited("a", 0.5), gone, limited("b", 0.25), late))
	for i, want := range []int64{50, 2, 25, 20} {
		if got := res.Jobs[i].Iterations; got != want {
			t.Errorf("%s: %d iterations, want %d", res.Jobs[i].Name, got, want)
		}
	}
	res = run(t, "mps:percent=50", spatial(8, job("c", share.Share{}, ms, always)))
	if got := res.Jobs[0].Iterations; got != 50 {
		t.Errorf("%d iterations at 50 percent, want 50", got)
	}
}

// TestMPSCompute: jobs with parts of the device that sum to one run at once, each at its part, on a
// device that can limit how many units a job uses and not which; whether it is alone makes no
// difference. A limit goes before compute.
func TestMPSCompute(t *testing.T) {
	sc := spatial(100, job("quarter", share.Share{Compute: 0.25}, ms, always),
		job("rest", share.Share{Compute: 0.75}, ms, always))
	sc.Device.Can = share.Can{Limit: true, Overlap: true}
	res := run(t, "mps", sc)
	for i, want := range []int64{25, 75} {
		if got := res.Jobs[i].Iterations; got != want {
			t.Errorf("%s: %d iterations, want %d", res.Jobs[i].Name, got, want)
		}
	}
	sc.Jobs = sc.Jobs[:1]
	if got := run(t, "mps", sc).Jobs[0].Iterations; got != 25 {
		t.Errorf("alone: %d iterations, want 25", got)
	}
	sc.Jobs[0].Limit = 1
	if got := run(t, "mps", sc).Jobs[0].Iterations; got != 100 {
		t.Errorf("alone without a limit: %d iterations, want 100", got)
	}
}

// TestMPSRest: jobs that name no part have what the others leave, and all where that is nothing.
func TestMPSRest(t *testing.T) {
	named := wide(job("named", share.Share{Compute: 0.25}, ms, always), 8)
	a, b := job("a", share.Share{}, ms, always), job("b", share.Share{}, ms, always)
	for _, tc := range []struct {
		jobs []sim.Job
		want []int64 // iterations of 10 ms on all units, in a second
	}{
		{[]sim.Job{a, named, b}, []int64{37, 25, 37}},
		{[]sim.Job{a, named}, []int64{75, 25}},
		{[]sim.Job{a}, []int64{100}},
	} {
		res := run(t, "mps", spatial(8, tc.jobs...))
		for i, want := range tc.want {
			if got := res.Jobs[i].Iterations; got < want-1 || got > want {
				t.Errorf("%d jobs, %s: %d iterations, want %d", len(tc.jobs), res.Jobs[i].Name, got,
					want)
			}
		}
	}
	whole := named
	whole.Compute = 1
	if got := run(t, "mps", spatial(8, a, whole)).Jobs[0].Iterations; got != 50 {
		t.Errorf("beside a job that names all: %d iterations, want 50", got)
	}
}
