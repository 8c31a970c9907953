package policy_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// random draws a scenario of up to six jobs whose guarantees can be kept.
func random(seed uint64) sim.Scenario {
	r := rand.New(rand.NewPCG(seed, 7))
	sc := sim.Scenario{Duration: 1500 * ms, Seed: seed,
		Device: sim.Device{Units: 1 + r.IntN(8)}}
	left := 1.0
	for i := range 1 + r.IntN(6) {
		step := time.Duration(math.Exp(r.Float64()*math.Log(500)) * float64(10*us))
		s := share.Share{Class: share.Class(r.IntN(3))}
		if r.IntN(3) > 0 {
			s.Compute = left * r.Float64()
			left -= s.Compute
		}
		if r.IntN(3) == 0 {
			s.Limit = min(1, s.Compute+0.02+r.Float64())
		}
		a := always
		switch r.IntN(4) {
		case 0:
			a = sim.Arrival{Poisson: 1 + 200*r.Float64()}
		case 1:
			a = sim.Arrival{Closed: 1 + r.IntN(3), Think: time.Duration(r.IntN(int(20 * ms)))}
		}
		j := job(fmt.Sprint("job-", i), s, step, a)
		j.Iteration = sim.Spread{Mean: time.Duration(float64(step) * (1 + 30*r.Float64())),
			Jitter: r.Float64()}
		j.Start = time.Duration(r.IntN(2)) * time.Duration(r.IntN(int(500*ms)))
		sc.Jobs = append(sc.Jobs, j)
	}
	return sc
}

// TestRandom checks what holds for every policy and scenario: nobody makes a mistake or wastes the
// device, one job holds it at a time, and limits hold.
func TestRandom(t *testing.T) {
	for seed := range uint64(cases) {
		checkRandom(t, seed)
	}
}

// FuzzRandom looks for a scenario that TestRandom does not draw.
func FuzzRandom(f *testing.F) {
	for seed := range uint64(10) {
		f.Add(seed << 32)
	}
	f.Fuzz(func(t *testing.T, seed uint64) { checkRandom(t, seed) })
}

func checkRandom(t *testing.T, seed uint64) {
	sc := random(seed)
	for _, row := range policy.All() {
		res := run(t, row.Name, sc)
		checkHolds(t, res)
		for i := range res.Jobs {
			r, j := &res.Jobs[i], &sc.Jobs[i]
			most := j.Share.Cap() + float64(4*ms+j.Step)/float64(time.Second)
			limits := row.Name == "fair" || row.Name == "priority"
			if peak := r.PeakShare(time.Second); limits && j.Share.Cap() < 1 && peak > most+1e-6 {
				t.Errorf("%s got %.4f of some second, limit %.4f, step %v", r.Name, peak,
					j.Share.Cap(), j.Step)
			}
		}
		if t.Failed() {
			t.Fatalf("seed %d, policy %s: %+v", seed, row.Name, sc)
		}
	}
}

// checkHolds: holds of all jobs together do not overlap, and add up to the accounts.
func checkHolds(t *testing.T, res *sim.Result) {
	var all []sim.Hold
	for i := range res.Jobs {
		var sum time.Duration
		for _, h := range res.Jobs[i].Holds {
			all = append(all, h)
			sum += h.To - h.From
		}
		if sum != res.Jobs[i].Used {
			t.Errorf("%s: holds of %v, account of %v", res.Jobs[i].Name, sum, res.Jobs[i].Used)
		}
	}
	slices.SortFunc(all, func(a, b sim.Hold) int { return int(a.From - b.From) })
	for i := 1; i < len(all); i++ {
		if all[i].From < all[i-1].To {
			t.Fatalf("two jobs hold the whole device at %v", all[i].From)
		}
	}
}

// busyThroughout reports whether the job always has work once it has started.
func busyThroughout(j *sim.Job) bool {
	return j.Arrival.Closed > 0 && j.Arrival.Think == 0
}

// TestGuarantees: a job with work throughout gets its guarantee within two points, or three where
// its limit leaves it little to catch up with, whatever the others do.
func TestGuarantees(t *testing.T) {
	for seed := range uint64(cases) {
		sc := random(seed)
		sc.Duration = 4 * time.Second
		for _, name := range []string{"fair", "priority"} {
			res := run(t, name, sc)
			for i := range res.Jobs {
				j := &sc.Jobs[i]
				got := float64(res.Jobs[i].Used) / float64(sc.Duration-j.Start)
				slack := 0.02
				if j.Share.Cap() < 1 {
					slack = 0.03
				}
				if busyThroughout(j) && got < j.Share.Guarantee()-slack {
					t.Fatalf("%s, seed %d: %s got %.3f, guarantee %.3f: %+v", name, seed, j.Name,
						got, j.Share.Guarantee(), sc)
				}
			}
		}
	}
}

// TestFairRandom: jobs with work throughout are within three points of their entitlement, if all
// jobs are such and no limit holds them. A job at its limit may miss a point more, what it cannot
// save while others finish their steps. So may all if jobs come and go, even where neither
// guarantees nor limits bind: the policy shares moment by moment, the meter over a tenth of a
// second.
func TestFairRandom(t *testing.T) {
	for seed := range uint64(cases) {
		sc := random(seed)
		sc.Duration = 4 * time.Second
		most := 3.0
		for i := range sc.Jobs {
			j := &sc.Jobs[i]
			switch {
			case seed%2 == 0:
				j.Arrival = always
			default:
				most = 4
				j.Share = share.Share{Compute: 0.02 + 0.14*float64((seed/2+uint64(i))%4)/3}
				if j.Arrival.Think > 0 {
					j.Arrival.Think += 20 * ms
				}
			}
			if j.Share.Cap() < 1 {
				most = 4
			}
		}
		res := run(t, "fair", sc)
		for i := range res.Jobs {
			if e := res.Jobs[i].ErrorP95; busyThroughout(&sc.Jobs[i]) && e > most {
				t.Fatalf("seed %d: %s: share error p95 %.2f points: %+v", seed, res.Jobs[i].Name, e,
					sc)
			}
		}
	}
}

// same reports whether jobs held the device at the same times in both runs, where job i of the one
// is job at(i) of the other.
func same(a, b *sim.Result, at func(int) int) bool {
	for i := range a.Jobs {
		if !slices.Equal(a.Jobs[i].Holds, b.Jobs[at(i)].Holds) {
			return false
		}
	}
	return true
}

// TestMetamorphic: what must not matter does not matter, to the nanosecond.
func TestMetamorphic(t *testing.T) {
	i := func(i int) int { return i }
	for seed := range uint64(cases) {
		for _, row := range policy.All() {
			sc := random(seed)
			sc.Duration = 500 * ms
			base := run(t, row.Name, sc)

			renamed := sc
			renamed.Jobs = slices.Clone(sc.Jobs)
			for k := range renamed.Jobs {
				renamed.Jobs[k].Name = fmt.Sprint("z", 9-k)
			}
			if !same(base, run(t, row.Name, renamed), i) {
				t.Errorf("%s: names matter", row.Name)
			}

			joined := sc
			joined.Jobs = append(slices.Clone(sc.Jobs),
				job("idle", share.Share{Compute: 0, Class: share.Class(seed % 3)}, ms,
					sim.Arrival{}))
			if !same(base, run(t, row.Name, joined), i) {
				t.Errorf("%s: a job without work matters", row.Name)
			}
			if t.Failed() {
				t.Fatalf("seed %d: %+v", seed, sc)
			}
		}
	}
}

// TestFairScale: only the ratio of the weights matters where all jobs have one.
func TestFairScale(t *testing.T) {
	for seed := range uint64(cases) {
		sc := random(seed)
		sc.Duration = 500 * ms
		scaled := sc
		scaled.Jobs = slices.Clone(sc.Jobs)
		for k := range sc.Jobs {
			s := &sc.Jobs[k].Share
			s.Class, s.Compute = share.Standard, 0.05*float64(1+(seed+uint64(k))%3)
			s.Limit = max(s.Limit, s.Compute)
			scaled.Jobs[k].Share = *s
			scaled.Jobs[k].Share.Compute /= 4
		}
		if !same(run(t, "fair", sc), run(t, "fair", scaled), func(i int) int { return i }) {
			t.Fatalf("seed %d: the scale of the weights matters: %+v", seed, sc)
		}
	}
}
