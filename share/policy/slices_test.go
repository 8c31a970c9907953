package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// got returns each job's share of the device under a policy.
func got(t *testing.T, spec string, d time.Duration, jobs ...sim.Job) []float64 {
	t.Helper()
	res := run2(t, spec, sim.Scenario{Duration: d, Jobs: jobs})
	shares := make([]float64, len(res.Jobs))
	for i := range res.Jobs {
		shares[i] = res.Jobs[i].Share
	}
	return shares
}

func near(t *testing.T, what string, got, want []float64, within float64) {
	t.Helper()
	for i := range want {
		if math.Abs(got[i]-want[i]) > within {
			t.Errorf("%s: shares %.3f, want %.3f", what, got, want)
			return
		}
	}
}

// TestSharesOfMany: however many jobs take turns, every second job in kernels of 10 ms, the error
// of every share over windows of a second is at most a turn and a half of many jobs.
func TestSharesOfMany(t *testing.T) {
	for _, spec := range []string{"fair", "priority"} {
		for _, n := range []int{2, 3, 4, 8} {
			for _, kernel := range []time.Duration{9 * ms, 10 * ms, 11 * ms} {
				var jobs []sim.Job
				for i := range n {
					s := share.Share{Compute: 0.99 * float64(i+1) / float64(n*(n+1)/2)}
					j := job(string(rune('a'+i)), s, 200*us, always)
					if i%2 == 1 {
						j = job(j.Job.Name, s, kernel, always)
						j.Iteration.Mean = kernel
					}
					jobs = append(jobs, j)
				}
				for _, r := range run(t, spec, sim.Scenario{Duration: 30 * time.Second,
					Jobs: jobs}).Jobs {
					if r.ErrorP95 > 1.5 {
						t.Errorf("%s, %d jobs, kernels of %v: %.2f points off", spec, n, kernel,
							r.ErrorP95)
					}
				}
			}
		}
	}
}

// TestCGPUSlices: shares follow from the lengths of slices alone, and a kernel longer than its
// slice is paid for.
func TestCGPUSlices(t *testing.T) {
	a := job("a", share.Share{Compute: 0.5}, ms/10, always)
	b := job("b", share.Share{Compute: 0.25}, ms/10, always)
	const d = 10 * time.Second
	near(t, "weighted", got(t, "cgpu", d, a, b), []float64{2. / 3, 1. / 3}, 0.01)
	near(t, "fair", got(t, "cgpu:mode=fair", d, a, b), []float64{0.5, 0.5}, 0.01)
	near(t, "strict", got(t, "cgpu:mode=strict", d, a, b), []float64{0.5, 0.25}, 0.01)
	idle := b
	idle.Arrival = sim.Arrival{}
	near(t, "weighted, one idle", got(t, "cgpu", d, a, idle), []float64{1, 0}, 0.01)
	near(t, "strict, one idle", got(t, "cgpu:mode=strict", d, a, idle), []float64{0.5, 0}, 0.01)
	long := job("long", share.Share{Compute: 0.25}, 500*ms, always)
	long.Iteration.Mean = 500 * ms
	for _, mode := range []string{"weighted", "strict"} {
		s := got(t, "cgpu:mode="+mode, 60*time.Second, a, long)
		if math.Abs(s[0]/s[1]-2) > 0.1 {
			t.Errorf("%s beside kernels of 500 ms: shares %.3f, want two to one", mode, s)
		}
	}
}

// TestVGPUShares: best effort lends, equal share changes with the jobs that are there, and a fixed
// share never changes at run time.
func TestVGPUShares(t *testing.T) {
	const d = 10 * time.Second
	a, b, c := job("a", share.Share{}, ms/10, always), job("b", share.Share{}, ms/10, always),
		job("c", share.Share{}, ms/10, always)
	idle := c
	idle.Arrival = sim.Arrival{}
	for _, tc := range []struct {
		spec string
		jobs []sim.Job
		want []float64
	}{
		{"vgpu", []sim.Job{a, b, idle}, []float64{0.5, 0.5, 0}},
		{"vgpu:mode=equal-share", []sim.Job{a, b, idle}, []float64{1. / 3, 1. / 3, 0}},
		{"vgpu:mode=equal-share", []sim.Job{a, b}, []float64{0.5, 0.5}},
		{"vgpu:mode=fixed-share", []sim.Job{a, b, idle}, []float64{0.25, 0.25, 0}},
		{"vgpu:mode=fixed-share", []sim.Job{a}, []float64{0.25}},
		{"vgpu:mode=fixed-share,max=2", []sim.Job{a}, []float64{0.5}},
	} {
		near(t, tc.spec, got(t, tc.spec, d, tc.jobs...), tc.want, 0.01)
	}
	// Jobs that come and go leave a fixed share as it is, in every second.
	c.Start, c.Stop = 3*time.Second, 6*time.Second
	res := run2(t, "vgpu:mode=fixed-share", sim.Scenario{Duration: d, Jobs: []sim.Job{a, b, c}})
	for i := range 2 {
		if r := &res.Jobs[i]; r.ErrorMax == 0 || math.Abs(r.PeakShare(time.Second)-0.25) > 0.01 {
			t.Errorf("%s had %.3f of some second, want 0.25 of all", r.Name,
				r.PeakShare(time.Second))
		}
	}
	third := run2(t, "vgpu:mode=fixed-share,max=2",
		sim.Scenario{Duration: d, Jobs: []sim.Job{a, b, idle}})
	if third.Jobs[2].Refused == nil {
		t.Error("a third job was let in where there is room for two")
	}
}

// TestGeminiShares: requests hold within two points, and use of a limited job stays below its limit
// over the window, beside bursts of any length.
func TestGeminiShares(t *testing.T) {
	const d = 20 * time.Second
	a := job("a", share.Share{Compute: 0.3, Limit: 0.5}, ms, always)
	b := job("b", share.Share{Compute: 0.6}, 3*ms, always)
	near(t, "requests", got(t, "gemini", d, a, b), []float64{0.3333, 0.6667}, 0.034)
	bursty := job("bursty", share.Share{Compute: 0.4, Limit: 0.4}, ms,
		sim.Arrival{Closed: 1, Think: 30 * ms})
	res := run(t, "gemini", sim.Scenario{Duration: d, Jobs: []sim.Job{bursty, b}})
	if peak := res.Jobs[0].PeakShare(time.Second); peak > 0.43 {
		t.Errorf("a job with a limit of 0.4 had %.3f of some second", peak)
	}
	if s := res.Jobs[1].Share; s < 0.58 {
		t.Errorf("a request of 0.6 got %.3f", s)
	}
	alone := got(t, "gemini", d, a)
	near(t, "limit on an idle device", alone, []float64{0.5}, 0.01)
}

// TestGaiaLimits: hard limits are never exceeded; elastic ones lend all idle time, and give it
// back.
func TestGaiaLimits(t *testing.T) {
	const d = 10 * time.Second
	a, b := job("a", share.Share{Compute: 0.3}, ms, always),
		job("b", share.Share{Compute: 0.2}, ms, always)
	near(t, "hard", got(t, "gaia:mode=hard", d, a, b), []float64{0.3, 0.2}, 0.01)
	if s := got(t, "gaia", d, a, b); s[0]+s[1] < 0.999 || s[0] < 0.3 || s[1] < 0.2 {
		t.Errorf("elastic: shares %.3f, want all of the device", s)
	}
	near(t, "elastic, alone", got(t, "gaia", d, a), []float64{1}, 0.001)
	res := run2(t, "gaia:mode=hard", sim.Scenario{Duration: d, Jobs: []sim.Job{a}})
	if peak := res.Jobs[0].PeakShare(time.Second); peak > 0.306 {
		t.Errorf("hard: %.3f of some second, limit 0.3", peak)
	}
	// What is lent is taken back within a step of the guest.
	now := job("now", share.Share{Compute: 0.5}, ms/2, sim.Arrival{Poisson: 20})
	guest := job("guest", share.Share{}, ms, always)
	res = run(t, "gaia", sim.Scenario{Duration: d, Seed: 3, Jobs: []sim.Job{now, guest}})
	if l := res.Jobs[0].Latency(0.5); l > 11*ms {
		t.Errorf("a request of 5 ms within its share took %v beside a guest", l)
	}
}
