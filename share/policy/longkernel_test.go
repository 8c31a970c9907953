package policy_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// TestGuaranteeBesideLongKernels: a job with a guarantee gets it, within two points over ten
// kernels of its neighbour, however long these are and whatever the neighbour's class.
func TestGuaranteeBesideLongKernels(t *testing.T) {
	for _, kernel := range []time.Duration{10 * ms, 100 * ms, 500 * ms, 2 * time.Second,
		10 * time.Second, time.Minute} {
		for _, row := range policy.All() {
			if !row.Honours.Guarantee {
				continue
			}
			for _, other := range []share.Share{
				{}, {Compute: 0.5}, {Class: share.Latency}, {Class: share.Latency, Compute: 0.5},
				{Class: share.Opportunistic, Compute: 0.5},
			} {
				besideLongKernel(t, row.Name, share.Share{Compute: 0.5}, other, kernel)
				besideLongKernel(t, row.Name, share.Share{Compute: 0.5, Class: share.Latency},
					other, kernel)
			}
		}
	}
}

func besideLongKernel(t *testing.T, policy string, own, other share.Share,
	kernel time.Duration) {
	t.Helper()
	long := job("long", other, kernel, always)
	long.Iteration.Mean = kernel
	res := run(t, policy, sim.Scenario{Duration: max(20*kernel, 4*time.Second), Jobs: []sim.Job{
		job("own", own, max(ms, kernel/200), always), long,
	}})
	what := fmt.Sprintf("%s, %v beside kernels of %v of %v", policy, own, kernel, other)
	if got := res.Jobs[0].Share; got < 0.48 {
		t.Errorf("%s: got %.3f of its 0.5", what, got)
	}
}

// TestLimitBesideLongKernel: a job with a limit does not wait while another has more credit than a
// limit lets it have, after a long kernel of a third that pays for it slowly.
func TestLimitBesideLongKernel(t *testing.T) {
	for _, spec := range []string{"fair", "priority"} {
		for _, limit := range []float64{0.3, 0.7} {
			long := job("long", share.Share{Compute: 0.01}, 2*time.Second, always)
			long.Iteration.Mean = long.Step
			jobs := []sim.Job{job("limited", share.Share{Compute: 0.3, Limit: limit}, ms, always),
				job("other", share.Share{Compute: 0.6}, ms, always), long}
			res := run(t, spec, sim.Scenario{Duration: 40 * time.Second, Jobs: jobs})
			r := &res.Jobs[0]
			if wait := r.LongestWait(0, res.Duration); r.Share < 0.27 || wait > 3*time.Second {
				t.Errorf("%s, limit %.1f: got %.3f of its 0.3, and waited %v", spec, limit, r.Share,
					wait)
			}
		}
	}
}

// TestAwait: a job that pauses for a moment after each of its iterations gets its guarantee beside
// long kernels where the policy waits for it, and the other what is left. Pauses that are longer
// than half of what is waited for are not waited for.
func TestAwait(t *testing.T) {
	for _, policy := range []string{"fair:await=10ms", "priority:await=10ms"} {
		for _, class := range []share.Class{share.Latency, share.Standard, share.Opportunistic} {
			for _, kernel := range []time.Duration{100 * ms, time.Second, 10 * time.Second} {
				other := share.Share{Class: class, Compute: 0.5}
				own, rest := besidePauses(t, policy, other, kernel, 10*us)
				if own < 0.48 || rest < 0.48 {
					t.Errorf("%s beside kernels of %v of %v: %.3f and %.3f of halves", policy,
						kernel, other, own, rest)
				}
				// of ten milliseconds in eleven, and it saves nothing while it pauses
				own, rest = besidePauses(t, policy, other, kernel, ms)
				if own < 0.43 || rest < 0.48 {
					t.Errorf("%s beside kernels of %v of %v, with pauses: %.3f and %.3f of halves",
						policy, kernel, other, own, rest)
				}
				if own, rest = besidePauses(t, policy, other, kernel, 6*ms); own+rest < 0.98 {
					t.Errorf("%s beside kernels of %v of %v: waits %.3f of the time for long "+
						"pauses", policy, kernel, other, 1-own-rest)
				}
			}
		}
	}
}

// TestAwaitedIsPaid: a job that works little between pauses that are waited for takes no more than
// its part by them, and leaves the other its guarantee.
func TestAwaitedIsPaid(t *testing.T) {
	for _, spec := range []string{"fair:await=10ms", "priority:await=10ms"} {
		for _, own := range []share.Share{{Compute: 0.01}, {Compute: 0.1},
			{Compute: 0.3, Class: share.Latency}, {Compute: 0.1, Limit: 0.1}} {
			pauses := job("pauses", own, 10*us, sim.Arrival{Closed: 1, Think: 4900 * us})
			long := job("long", share.Share{Compute: 1 - own.Compute}, time.Second, always)
			long.Iteration.Mean = long.Step
			res := run2(t, spec, sim.Scenario{Duration: 40 * time.Second,
				Jobs: []sim.Job{pauses, long}})
			if got := res.Jobs[1].Share; got < long.Compute-0.01 {
				t.Errorf("%s: got %.3f of its %.3f beside pauses of a job of %+v", spec, got,
					long.Compute, own)
			}
		}
	}
}

// TestAwaitLatency: a latency job keeps what it is owed while it pauses, and is waited for.
func TestAwaitLatency(t *testing.T) {
	for _, class := range []share.Class{share.Latency, share.Standard, share.Opportunistic} {
		long := job("long", share.Share{Class: class, Compute: 0.5}, time.Second, always)
		long.Iteration.Mean = long.Step
		res := run2(t, "priority:await=10ms", sim.Scenario{Duration: 40 * time.Second,
			Jobs: []sim.Job{job("own", share.Share{Class: share.Latency, Compute: 0.5}, ms,
				sim.Arrival{Closed: 1, Think: 10 * us}), long}})
		if own, rest := res.Jobs[0].Share, res.Jobs[1].Share; own < 0.48 || rest < 0.48 {
			t.Errorf("beside kernels of %v: %.3f and %.3f of halves", class, own, rest)
		}
	}
}

// besidePauses returns the shares of a job of iterations of 10 ms with pauses between them, and of
// one of long kernels.
func besidePauses(t *testing.T, spec string, other share.Share, kernel,
	pause time.Duration) (own, rest float64) {
	t.Helper()
	long := job("long", other, kernel, always)
	long.Iteration.Mean = kernel
	res := run2(t, spec, sim.Scenario{Duration: 40 * kernel, Jobs: []sim.Job{
		job("own", share.Share{Compute: 0.5}, ms, sim.Arrival{Closed: 1, Think: pause}), long}})
	return res.Jobs[0].Share, res.Jobs[1].Share
}
