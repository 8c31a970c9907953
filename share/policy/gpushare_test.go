package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// launches is a scenario of 20 s on a device that lets kernels through one by one.
func launches(jobs ...sim.Job) sim.Scenario {
	return sim.Scenario{Duration: 20 * time.Second, Seed: 9, Jobs: jobs,
		Device: sim.Device{Can: share.Can{Launches: true}, SwitchCost: 200 * us}}
}

// TestGPUShareShort: requests of short kernels pass beside kernels of 20 ms; those of kernels as
// long as a switch wait for them.
func TestGPUShareShort(t *testing.T) {
	long := job("long", share.Share{}, 20*ms, always)
	for _, tc := range []struct {
		spec string
		step time.Duration
		from time.Duration // at which the median is at least
		to   time.Duration // at which the 99th percentile is at most
	}{
		{"timeslice", 50 * us, 10 * ms, time.Second},
		{"gpushare", 50 * us, ms, 4 * ms},
		{"gpushare", 199 * us, 3 * ms, 16 * ms},
		{"gpushare", 200 * us, 10 * ms, time.Second},
		{"gpushare:switch=40us", 50 * us, 10 * ms, time.Second},
	} {
		// Ten kernels, each at half speed beside the long one.
		short := job("short", share.Share{}, tc.step, sim.Arrival{Poisson: 20})
		res := run(t, tc.spec, launches(short, long))
		r := &res.Jobs[0]
		if p50, p99 := r.Latency(0.5), r.Latency(0.99); p50 < tc.from || p99 > tc.to {
			t.Errorf("%s, kernels of %v: median %v, want at least %v; 99th percentile %v, want "+
				"at most %v", tc.spec, tc.step, p50, tc.from, p99, tc.to)
		}
		if n := len(r.Latencies); n < 350 {
			t.Errorf("%s: %d requests of 400 completed", tc.spec, n)
		}
	}
}

// TestGPUShareContrast is what the paper sets out from: of two tenants with kernels of unlike
// length, the driver's turns favour the one with the longer; by time used both have a half.
func TestGPUShareContrast(t *testing.T) {
	sc := launches(job("long", share.Share{}, 20*ms, always),
		job("short", share.Share{}, ms, always))
	if got := run(t, "timeslice", sc).Jobs[0].Share; got < 0.85 {
		t.Errorf("the long kernels got %.3f of the device in turns, want nine tenths", got)
	}
	res := run(t, "gpushare", sc)
	for i := range res.Jobs {
		if got := res.Jobs[i].Share; math.Abs(got-0.5) > 0.01 {
			t.Errorf("%s: got %.3f of the device, want half", res.Jobs[i].Name, got)
		}
	}
}

// TestGPUSharePasses: whatever passes is completed, also where nobody else is there, jobs end and
// requests come at once.
func TestGPUSharePasses(t *testing.T) {
	ends := job("ends", share.Share{}, 100*us, always)
	ends.Iterations = 7
	burst := job("burst", share.Share{}, 100*us, sim.Arrival{Trace: make([]time.Duration, 5)})
	res := run(t, "gpushare", launches(job("long", share.Share{}, 50*ms, always), ends, burst))
	for i, want := range []int64{7, 5} {
		if got := res.Jobs[1+i].Iterations; got != want {
			t.Errorf("%s: %d iterations, want %d", res.Jobs[1+i].Name, got, want)
		}
	}
	if got := res.Jobs[1].Completion; got == 0 || got > 100*ms {
		t.Errorf("seven iterations of 1 ms completed at %v", got)
	}
}
