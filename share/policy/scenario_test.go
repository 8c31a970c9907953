package policy_test

import (
	"fmt"
	"io"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core/coretest"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

const (
	us = time.Microsecond
	ms = time.Millisecond
)

// run simulates under the policy that spec names, which must make no mistake, and checks what holds
// for every policy. The device can do what the scenario says, and what the policy needs.
func run(t testing.TB, spec string, sc sim.Scenario) *sim.Result {
	t.Helper()
	res, _ := watch(t, spec, sc, nil)
	return res
}

// watch is run, and returns what the core said besides. It records into record if that is not nil.
func watch(t testing.TB, spec string, sc sim.Scenario, record io.Writer) (*sim.Result,
	*coretest.Auditor) {
	t.Helper()
	row := rowOf(t, spec)
	sc.Device.Can = sc.Device.Can.With(needsOf(t, spec))
	a := coretest.NewAuditor(max(1, sc.Device.Units), row.Needs.Overlap)
	res, err := sim.Run(sc, spec, sim.Options{Record: record, Observe: a.Observe})
	if err != nil {
		t.Fatal(err)
	}
	if res.Faults > 0 || row.Honours.Conserving && res.Wasted > 0 {
		t.Errorf("%s: %d faults, %d times idle while a job without limit waited", spec, res.Faults,
			res.Wasted)
	}
	if err := a.Err(); err != nil {
		t.Errorf("%s: %v", spec, err)
	}
	return res, a
}

// needsOf returns what the policy that spec names needs.
func needsOf(t testing.TB, spec string) share.Can {
	t.Helper()
	s, err := policy.ParseSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	needs, err := s.Needs()
	if err != nil {
		t.Fatal(err)
	}
	return needs
}

// rowOf returns the row of the policy that spec names.
func rowOf(t testing.TB, spec string) policy.Row {
	t.Helper()
	s, err := policy.ParseSpec(spec)
	if err != nil {
		t.Fatal(err)
	}
	row, err := policy.Find(s.Name)
	if err != nil {
		t.Fatal(err)
	}
	return row
}

// job makes a job of ten steps per iteration.
func job(name string, s share.Share, step time.Duration, a sim.Arrival) sim.Job {
	return sim.Job{Job: share.Job{Name: name, Share: s}, Arrival: a,
		Iteration: sim.Spread{Mean: 10 * step}, Step: step}
}

var always = sim.Arrival{Closed: 1}

// TestFairShares: with work throughout, every job gets its entitlement within three points in 95 of
// 100 windows and within half a point overall, whatever the steps.
func TestFairShares(t *testing.T) {
	shares := []struct {
		name string
		jobs []share.Share
		want []float64
	}{
		{"50/50", []share.Share{{Compute: 0.5}, {Compute: 0.5}}, []float64{0.5, 0.5}},
		{"30/70", []share.Share{{Compute: 0.3}, {Compute: 0.7}}, []float64{0.3, 0.7}},
		{"5/95", []share.Share{{Compute: 0.05}, {Compute: 0.95}}, []float64{0.05, 0.95}},
		{"idle capacity by weight", []share.Share{{Compute: 0.1}, {Compute: 0.3}},
			[]float64{0.25, 0.75}},
		{"no guarantees", []share.Share{{}, {}, {}}, []float64{1. / 3, 1. / 3, 1. / 3}},
		{"limit lends", []share.Share{{Compute: 0.3, Limit: 0.3}, {Compute: 0.3}},
			[]float64{0.3, 0.7}},
		{"all at limits", []share.Share{{Compute: 0.1, Limit: 0.2}, {Limit: 0.5}},
			[]float64{0.2, 0.5}},
		{"guarantee against a crowd", []share.Share{{Compute: 0.4}, {}, {}, {}, {}, {}, {}, {}, {}},
			[]float64{0.4, .075, .075, .075, .075, .075, .075, .075, .075}},
	}
	steps := [][2]time.Duration{{10 * us, 10 * us}, {10 * us, 5 * ms}, {5 * ms, 10 * us},
		{5 * ms, 5 * ms}, {700 * us, 3 * ms}}
	for _, policy := range []string{"fair", "priority"} {
		for _, tc := range shares {
			for _, step := range steps {
				sc := sim.Scenario{Duration: shareTime * time.Second}
				for i, s := range tc.jobs {
					sc.Jobs = append(sc.Jobs, job(fmt.Sprint("job-", i), s, step[i%2], always))
				}
				res := run(t, policy, sc)
				for i, want := range tc.want {
					checkShare(t, fmt.Sprintf("%s, %s, steps %v, job %d", policy, tc.name, step, i),
						&res.Jobs[i], tc.jobs[i], want)
				}
			}
		}
	}
}

func checkShare(t *testing.T, what string, r *sim.JobResult, s share.Share, want float64) {
	t.Helper()
	if math.Abs(r.Share-want) > 0.005 {
		t.Errorf("%s: got %.4f of the device, want %.4f", what, r.Share, want)
	}
	if r.ErrorP95 > 3 {
		t.Errorf("%s: share error p95 %.2f points", what, r.ErrorP95)
	}
	if peak := r.PeakShare(time.Second); s.Cap() < 1 && peak > s.Cap()+0.01 {
		t.Errorf("%s: %.4f over some second, limit %.4f", what, peak, s.Cap())
	}
}

// TestFairWaits: a job with work throughout waits no longer than the header of fair.go says.
func TestFairWaits(t *testing.T) {
	const step = 3 * ms
	slice := policy.DefaultFair().Slice
	for _, shares := range [][]float64{{0.5, 0.5}, {0.1, 0.9}, {0.02, 0.98},
		{0.25, 0.25, 0.25, 0.25}, {0.02, 0.1, 0.3, 0.58}} {
		sc := sim.Scenario{Duration: 10 * time.Second}
		for i, x := range shares {
			sc.Jobs = append(sc.Jobs, job(fmt.Sprint(i), share.Share{Compute: x}, step, always))
		}
		res := run(t, "fair", sc)
		for i, x := range shares {
			most := time.Duration(float64(2*slice+step)/x) + slice + step
			if wait := res.Jobs[i].LongestWait(0, sc.Duration); wait > most {
				t.Errorf("shares %v: job %d waited %v, want at most %v", shares, i, wait, most)
			}
		}
	}
}

// TestNoCredit: neither a new job nor one back from a long rest gets more than its part and one
// slice, over any time from then on.
func TestNoCredit(t *testing.T) {
	const back = 5 * time.Second
	old := job("old", share.Share{Compute: 0.5}, ms, always)
	fresh := job("fresh", share.Share{Compute: 0.5}, ms, always)
	fresh.Start = back
	rested := job("rested", share.Share{Compute: 0.5}, ms,
		sim.Arrival{Trace: slices.Repeat([]time.Duration{back}, 1000)})
	for _, j := range []sim.Job{fresh, rested} {
		res := run(t, "fair", sim.Scenario{Duration: back + 2*time.Second, Jobs: []sim.Job{old, j}})
		for _, over := range []time.Duration{10 * ms, 50 * ms, 200 * ms, 2 * time.Second} {
			var got time.Duration
			for _, h := range res.Jobs[1].Holds {
				got += max(0, min(h.To, back+over)-h.From)
			}
			if most := over/2 + 5*ms + ms; got > most || got < over/2-6*ms {
				t.Errorf("%s: %v in the first %v, want %v within a slice", j.Name, got, over,
					over/2)
			}
		}
	}
}

// TestPausesChangeNothing: a job that pauses for a moment between iterations neither loses its part
// nor gains by it.
func TestPausesChangeNothing(t *testing.T) {
	for _, iteration := range []time.Duration{6 * ms, 20 * ms} {
		pausing := job("pausing", share.Share{Compute: 0.5}, ms/2,
			sim.Arrival{Closed: 1, Think: us})
		pausing.Iteration.Mean = iteration
		res := run(t, "fair", sim.Scenario{Duration: 10 * time.Second, Jobs: []sim.Job{
			pausing, job("other", share.Share{Compute: 0.5}, ms/2, always),
		}})
		if got := res.Jobs[0].Share; math.Abs(got-0.5) > 0.03 {
			t.Errorf("iterations of %v: got %.3f of the device, want 0.5", iteration, got)
		}
	}
}

// TestTakenBackAtOnce: a guarantee lent while its owner is idle is back when the owner is, after
// one step of the borrower.
func TestTakenBackAtOnce(t *testing.T) {
	for _, policy := range []string{"fair", "priority"} {
		owner := job("owner", share.Share{Compute: 0.5}, ms/10, sim.Arrival{Poisson: 10})
		res := run(t, policy, sim.Scenario{Duration: 40 * time.Second, Seed: 5, Jobs: []sim.Job{
			owner, job("borrower", share.Share{Compute: 0.2}, ms, always),
		}})
		if p95 := res.Jobs[0].Latency(0.95); p95 > 2*ms+ms/10 {
			t.Errorf("%s: requests of 1ms take %v at the 95th percentile beside steps of 1ms",
				policy, p95)
		}
	}
}

func TestFIFOOrder(t *testing.T) {
	at := func(times ...time.Duration) sim.Arrival { return sim.Arrival{Trace: times} }
	res := run(t, "fifo", sim.Scenario{Duration: time.Second, Jobs: []sim.Job{
		job("a", share.Share{}, ms, at(0, 1*ms, 30*ms)),
		job("b", share.Share{Compute: 0.9}, ms, at(0, 2*ms)),
		job("c", share.Share{Class: share.Latency}, ms, at(1*ms+1)),
	}})
	// Iterations of 10 ms in the order a b a c b, then a again.
	want := [][]time.Duration{{10 * ms, 29 * ms, 30 * ms}, {20 * ms, 48 * ms}, {39*ms - 1}}
	for i, w := range want {
		if got := res.Jobs[i].Latencies; !slices.Equal(got, w) {
			t.Errorf("%s: latencies %v, want %v", res.Jobs[i].Name, got, w)
		}
	}
}

func TestTimesliceTurns(t *testing.T) {
	sc := sim.Scenario{Duration: 3 * time.Second}
	for i, step := range []time.Duration{ms, ms / 2, ms / 4} {
		s := share.Share{Compute: 0.1 * float64(i+1), Class: share.Class(i)}
		sc.Jobs = append(sc.Jobs, job(fmt.Sprint(i), s, step, always))
	}
	res := run(t, "timeslice", sc)
	for i := range res.Jobs {
		r := &res.Jobs[i]
		if math.Abs(r.Share-1./3) > 0.001 {
			t.Errorf("job %d got %.4f of the device, want a third", i, r.Share)
		}
		for _, h := range r.Holds {
			if h.To-h.From != 2*ms && h.To != sc.Duration {
				t.Fatalf("job %d held for %v, want slices of 2ms", i, h.To-h.From)
			}
		}
	}
}
