package policy_test

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// TestTGSRate: beside an opportunistic job that always has work, a production job keeps at least 97
// percent of its rate alone, as in the paper, whatever the length of the other's kernels and of its
// own pauses; where kernels are short, most of the pauses is used. Priority, which gives up a pause
// only when it is over, costs more beside long kernels.
func TestTGSRate(t *testing.T) {
	for _, kernel := range []time.Duration{ms / 10, ms, 5 * ms, 20 * ms} {
		for _, idle := range []time.Duration{0, 23 * ms, 97 * ms} {
			train := job("train", share.Share{}, 2*ms, sim.Arrival{Closed: 1, Think: idle})
			train.Iteration = sim.Spread{Mean: 100 * ms, Jitter: 0.05}
			sc := sim.Scenario{Duration: 60 * time.Second, Seed: 1, Jobs: []sim.Job{train}}
			alone := run(t, "tgs", sc).Jobs[0]
			gaps := job("gaps", share.Share{Class: share.Opportunistic}, kernel, always)
			sc.Jobs = append(sc.Jobs, gaps)
			rate := func(policy string) (kept, filled float64) {
				res := run(t, policy, sc)
				return float64(res.Jobs[0].Iterations) / float64(alone.Iterations),
					res.Jobs[1].Share / (1 - alone.Share)
			}
			kept, filled := rate("tgs")
			if kept < 0.97 {
				t.Errorf("kernels of %v, pauses of %v: %.4f of the rate alone", kernel, idle, kept)
			}
			if kernel <= ms && idle > 0 && filled < 0.9 {
				t.Errorf("kernels of %v, pauses of %v: %.3f of them used", kernel, idle, filled)
			}
			if other, _ := rate("priority"); kernel == 20*ms && idle == 23*ms && other > 0.9 {
				t.Errorf("under priority %.4f of the rate is kept: want a harder case", other)
			}
		}
	}
}

// TestTGSAlone: with no production job about, the rate rises to the whole device, by a twentieth
// each half second, so that half of the first ten seconds is used and all from then on.
func TestTGSAlone(t *testing.T) {
	res := run(t, "tgs", sim.Scenario{Duration: 20 * time.Second, Jobs: []sim.Job{
		job("gaps", share.Share{Class: share.Opportunistic}, ms, always),
	}})
	if got := res.Jobs[0].Share; got < 0.7 || got > 0.8 {
		t.Errorf("used %.3f of the device, want 0.75", got)
	}
}
