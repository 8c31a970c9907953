package policy_test

import (
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/sim"
)

// TestStealGuarantees: requests take as long as on the units set apart for them, and one kernel of
// a borrower; and batch work gets as much done as where all run at once.
func TestStealGuarantees(t *testing.T) {
	const step = ms / 2 // of the borrower, on the whole device; twice that on half of it
	served := wide(job("served", share.Share{Compute: 0.5}, ms, sim.Arrival{Poisson: 20}), 4)
	sc := spatial(8, served, job("batch", share.Share{Compute: 0.25}, step, always),
		job("gaps", share.Share{Class: share.Opportunistic}, step, always))
	sc.Duration, sc.Seed = 20*time.Second, 4
	apart, stolen := run(t, "fgpu", sc), run(t, "steal", sc)
	for i := range sc.Jobs { // mps would set apart what jobs name
		sc.Jobs[i].Compute = 0
	}
	merged := run(t, "mps", sc)
	for _, q := range []float64{0.5, 0.99} {
		a, b := apart.Jobs[0].Latency(q), stolen.Jobs[0].Latency(q)
		if b > a+8*step {
			t.Errorf("%.0f%% of requests within %v, %v on units of their own", 100*q, b, a)
		}
	}
	others := func(res *sim.Result) int64 { return res.Jobs[1].Iterations + res.Jobs[2].Iterations }
	if got, all := others(stolen), others(merged); float64(got) < 0.95*float64(all) {
		t.Errorf("%d iterations of batch work, %d under mps", got, all)
	}
	if got, kept := others(stolen), others(apart); float64(got) < 1.1*float64(kept) {
		t.Errorf("%d iterations of batch work, %d under fgpu: nothing was lent", got, kept)
	}
	if a, b := stolen.Jobs[0].Latency(0.99), merged.Jobs[0].Latency(0.99); a >= b {
		t.Errorf("99%% of requests within %v, under mps %v", a, b)
	}
}

// TestStealTakesBack: units lent while their owner is idle are its own again when the borrower's
// kernel is over, and not before; units that the owner cannot use stay lent.
func TestStealTakesBack(t *testing.T) {
	borrower := job("borrower", share.Share{}, ms, always)
	borrower.Iteration.Mean = time.Second
	for _, width := range []int{4, 2} {
		owner := wide(job("owner", share.Share{Compute: 0.5}, ms,
			sim.Arrival{Trace: []time.Duration{10*ms + 300*us}}), width)
		res := run(t, "steal:slice=1m", spatial(8, owner, borrower))
		// The kernel that runs at 10.3 ms is over at 11 ms.
		if got := res.Jobs[0].Latencies[0]; got != 700*us+10*ms {
			t.Errorf("width %d: the owner took %v, want 10.7ms", width, got)
		}
		for _, h := range res.Jobs[1].Holds {
			if want := float64(8-width) / 8; h.From > 11*ms && h.To < 21*ms && h.Fraction != want {
				t.Errorf("width %d: the borrower has %.3f of the device from %v to %v, want %.3f",
					width, h.Fraction, h.From, h.To, want)
			}
		}
	}
}

// TestStealShares: idle units go to those who can use them by weight, and each job gets its turn
// where there are fewer units than jobs.
func TestStealShares(t *testing.T) {
	idle := job("idle", share.Share{Compute: 0.5}, ms, sim.Arrival{})
	many := []sim.Job{idle}
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		many = append(many, job(name, share.Share{}, ms/10, always))
	}
	res := run(t, "steal", spatial(2, many...))
	for i := range res.Jobs[1:] {
		if got := res.Jobs[1+i].Share; got < 0.17 || got > 0.23 {
			t.Errorf("%s: got %.3f of the device, want a fifth", res.Jobs[1+i].Name, got)
		}
	}
}
