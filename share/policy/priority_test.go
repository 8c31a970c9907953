package policy_test

import (
	"math"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// TestPriorityLatency: latency work beside batch work takes little longer than alone, and batch
// work gets most of what is left over.
func TestPriorityLatency(t *testing.T) {
	latency := share.Share{Class: share.Latency}
	for _, tc := range []struct {
		name   string
		rate   float64 // requests of 10 ms per second
		others []sim.Job
	}{
		{"light load, opportunistic", 10,
			[]sim.Job{job("gaps", share.Share{Class: share.Opportunistic}, ms, always)}},
		{"half load, opportunistic", 50,
			[]sim.Job{job("gaps", share.Share{Class: share.Opportunistic}, ms, always)}},
		{"light load, standard", 10, []sim.Job{job("batch", share.Share{}, ms, always)}},
		{"light load, guarantee it leaves room for", 10,
			[]sim.Job{job("batch", share.Share{Compute: 0.6}, ms, always)}},
		{"many", 20, []sim.Job{
			job("batch", share.Share{Compute: 0.3}, ms/2, always),
			job("gaps", share.Share{Class: share.Opportunistic}, ms, always),
			job("more", share.Share{Class: share.Opportunistic}, 2*ms, sim.Arrival{Poisson: 20}),
		}},
	} {
		served := job("served", latency, ms, sim.Arrival{Poisson: tc.rate})
		sc := sim.Scenario{Duration: 60 * time.Second, Seed: 11,
			Device: sim.Device{SwitchCost: 20 * us},
			Jobs:   []sim.Job{served}}
		alone := run(t, "priority", sc).Jobs[0]
		sc.Jobs = append(sc.Jobs, tc.others...)
		res := run(t, "priority", sc)
		together := res.Jobs[0]
		if p, q := alone.Latency(0.99), together.Latency(
			0.99); float64(q) > 1.3*float64(p)+float64(2*ms) {
			t.Errorf("%s: p99 %v alone, %v together", tc.name, p, q)
		}
		var rest float64
		for _, r := range res.Jobs[1:] {
			rest += r.Share
		}
		if left := 1 - alone.Share; rest < 0.95*left {
			t.Errorf("%s: others got %.3f of the %.3f left over", tc.name, rest, left)
		}
	}
}

// TestPriorityClasses: who gets what when everybody always has work.
func TestPriorityClasses(t *testing.T) {
	lat := func(compute float64) share.Share {
		return share.Share{Compute: compute, Class: share.Latency}
	}
	std := func(compute float64) share.Share { return share.Share{Compute: compute} }
	opp := func(compute float64) share.Share {
		return share.Share{Compute: compute, Class: share.Opportunistic}
	}
	capped := lat(0.2)
	capped.Limit = 0.4
	for _, tc := range []struct {
		name   string
		shares []share.Share
		want   []float64
	}{
		{"latency takes all that nobody was promised", []share.Share{lat(0), std(0), opp(0)},
			[]float64{1, 0, 0}},
		{"a guarantee holds against latency", []share.Share{lat(0), std(0.3), opp(0)},
			[]float64{0.7, 0.3, 0}},
		{"all guarantees hold", []share.Share{lat(0.4), std(0.3), std(0.3)},
			[]float64{0.4, 0.3, 0.3}},
		{"latency has what is left of guarantees", []share.Share{lat(0.1), std(0.3), std(0)},
			[]float64{0.7, 0.3, 0}},
		{"a limit leaves the rest to the next class", []share.Share{capped, std(0), opp(0)},
			[]float64{0.4, 0.6, 0}},
		{"standard before opportunistic", []share.Share{opp(0.9), std(0.05)}, []float64{0, 1}},
		{"within opportunistic by weight", []share.Share{opp(0.6), opp(0.2)},
			[]float64{0.75, 0.25}},
		{"within latency by weight", []share.Share{lat(0.6), lat(0.2), opp(0)},
			[]float64{0.75, 0.25, 0}},
	} {
		sc := sim.Scenario{Duration: 10 * time.Second}
		for i, s := range tc.shares {
			sc.Jobs = append(sc.Jobs, job(string(rune('a'+i)), s, ms, always))
		}
		res := run(t, "priority", sc)
		for i, want := range tc.want {
			if got := res.Jobs[i].Share; math.Abs(got-want) > 0.01 {
				t.Errorf("%s: job %d got %.3f, want %.3f", tc.name, i, got, want)
			}
		}
	}
}

// TestPriorityGuaranteeOverSeconds: a guarantee against a saturating latency job holds in every
// second, not only in the mean.
func TestPriorityGuaranteeOverSeconds(t *testing.T) {
	res := run(t, "priority", sim.Scenario{Duration: 20 * time.Second, Jobs: []sim.Job{
		job("batch", share.Share{Compute: 0.3}, 2*ms, always),
		job("hog", share.Share{Class: share.Latency, Compute: 0.2}, 3*ms, sim.Arrival{Closed: 4}),
	}})
	if peak := res.Jobs[1].PeakShare(time.Second); peak > 0.7+0.03 {
		t.Errorf("latency job got %.3f of some second, which leaves the other less than its 0.3",
			peak)
	}
}

// TestPauseForfeitsNothing: a standard job that pauses for a moment after each iteration keeps what
// it is owed by a latency job that saturates the device.
func TestPauseForfeitsNothing(t *testing.T) {
	for _, pause := range []time.Duration{10 * us, 100 * us} {
		paused := job("paused", share.Share{Compute: 0.5}, ms,
			sim.Arrival{Closed: 1, Think: pause})
		res := run(t, "priority", sim.Scenario{Duration: 10 * time.Second, Jobs: []sim.Job{paused,
			job("latency", share.Share{Class: share.Latency, Compute: 0.5}, 10*ms, always)}})
		if got := res.Jobs[0].Share; got < 0.48 {
			t.Errorf("pauses of %v: got %.3f of its 0.5", pause, got)
		}
	}
}
