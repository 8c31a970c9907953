package policy_test

import (
	"bytes"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/core/coretest"
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

// vary adds to a random scenario what only some policies look at: what a job can use and moves,
// what it says of itself, an end, the device's cost of a switch and abilities beyond the needed.
func vary(sc *sim.Scenario, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 8))
	d := &sc.Device
	d.SwitchCost = time.Duration(r.IntN(2)) * time.Duration(r.IntN(int(200*us)))
	d.Memory = 16 * share.GiB
	if r.IntN(2) == 0 {
		d.Can = share.Can{Partition: true, Overlap: true, Resize: true, Spill: true, Preempt: true,
			Launches: true, Copies: true, Bandwidth: true}
	}
	shortest := time.Second
	for i := range sc.Jobs {
		j := &sc.Jobs[i]
		j.Need = share.Bytes(r.IntN(int(2 * share.GiB)))
		j.Foreknown = r.IntN(2) == 0
		if r.IntN(2) == 0 {
			j.Width = 1 + r.IntN(8)
		}
		if r.IntN(2) == 0 {
			j.Bandwidth = r.Float64()
		}
		switch r.IntN(6) {
		case 0:
			j.Iterations = 1 + r.Int64N(200)
		case 1:
			j.Stop = j.Start + time.Duration(r.IntN(int(time.Second)))
		}
		if j.Class == share.Latency && r.IntN(2) == 0 {
			j.Target = j.Iteration.Mean * time.Duration(2+r.IntN(10))
		}
		shortest = min(shortest, j.Iteration.Mean)
	}
	// Some thousand iterations show what there is to see.
	sc.Duration = min(sc.Duration, max(200*ms, 2000*shortest))
}

// linger has some of the jobs of a random scenario rest between iterations, and be slow to give
// back what they rest on.
func linger(sc *sim.Scenario, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 9))
	for i := range sc.Jobs {
		j := &sc.Jobs[i]
		j.Rests = r.IntN(2) == 0
		j.Linger = time.Duration(r.IntN(2)) * time.Duration(r.IntN(int(20*ms)))
	}
}

// shorten makes memory short in some random scenarios, and has some of the jobs wait for it.
func shorten(sc *sim.Scenario, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 10))
	if r.IntN(2) == 0 {
		return
	}
	sc.Device.Memory = 2 * share.GiB
	for i := range sc.Jobs {
		sc.Jobs[i].Waits = r.IntN(2) == 0
	}
}

// pause has some of the jobs of a random scenario hold the device in short pauses.
func pause(sc *sim.Scenario, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 11))
	for i := range sc.Jobs {
		j := &sc.Jobs[i]
		if r.IntN(3) > 0 {
			continue
		}
		if j.Keeps = time.Duration(r.IntN(int(2 * ms))); j.Arrival.Think > 0 {
			j.Arrival.Think = time.Duration(1 + r.IntN(int(ms)))
		}
	}
}

// withParams is a policy with parameters that change what it does for jobs that pause. The device
// is not kept for one that rests, so that it is never idle while others wait.
func withParams(row *policy.Row, seed uint64) string {
	r := rand.New(rand.NewPCG(seed, 12))
	if row.Name != "priority" || r.IntN(4) == 0 {
		return row.Name
	}
	return fmt.Sprintf("priority:fill=%.2f,loss=%.2f,switch=%v,pause=0s", 0.2+0.7*r.Float64(),
		0.05+0.4*r.Float64(), time.Duration(r.IntN(int(20*us))))
}

// TestRandom checks what holds for every policy and scenario. The policies take turns.
func TestRandom(t *testing.T) {
	n := uint64(runs)
	if os.Getenv("WEIR_LONG") != "" {
		n = 100_000
	}
	for seed := range n {
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

// checkRandom: the policy makes no mistake and wastes nothing that it says it does not, no unit is
// given twice unless it overlaps jobs, charges are what was held, limits hold, nobody starves, a
// new core with a new policy decides the same as is written down, which takes longer than all else,
// and what must not matter does not.
func checkRandom(t *testing.T, seed uint64) {
	rows := policy.All()
	row := rows[seed%uint64(len(rows))]
	seed /= uint64(len(rows))
	sc := random(seed)
	vary(&sc, seed)
	linger(&sc, seed)
	shorten(&sc, seed)
	pause(&sc, seed)
	spec := withParams(&row, seed)
	var record bytes.Buffer
	var written io.Writer // of every second scenario
	if seed%2 == 0 || os.Getenv("WEIR_LONG") != "" {
		written = &record
	}
	res, a := watch(t, spec, sc, written)
	checkAccounts(t, res, a)
	for i := range res.Jobs {
		if res.Jobs[i].Refused != nil {
			continue
		}
		if row.Honours.Limit {
			checkLimit(t, &row, &sc, &sc.Jobs[i], &res.Jobs[i])
		}
		if busyThroughout(&sc.Jobs[i]) && !passes(&row, &sc.Jobs[i]) {
			checkWait(t, &row, &sc, i, &res.Jobs[i])
		}
	}
	if written != nil {
		if err := coretest.Replay(core.Config{Device: "sim:0", Units: sc.Device.Units,
			Memory: sc.Device.Memory, Can: sc.Device.Can.With(needsOf(t, spec))}, spec,
			&record); err != nil {
			t.Error(err)
		}
	}
	checkMetamorphic(t, &row, spec, sc, res, seed)
	if t.Failed() {
		t.Fatalf("seed %d, policy %s: %+v", seed, spec, sc)
	}
}

// checkAccounts: every job is charged for what it held, its part where others held it too, and all
// charges together are the time in which the device was in use.
func checkAccounts(t *testing.T, res *sim.Result, a *coretest.Auditor) {
	a.Pass(res.Duration)
	sum := 0.0
	for i := range res.Jobs {
		a.Check(res.Jobs[i].Job, res.Jobs[i].Used)
		sum += float64(res.Jobs[i].Used)
	}
	if err := a.Err(); err != nil {
		t.Error(err)
	}
	if math.Abs(sum-a.InUse()) > 2*float64(len(res.Jobs))+1e-9*sum {
		t.Errorf("accounts of %.0f ns together, units in use for %.0f", sum, a.InUse())
	}
}

// checkLimit: over any window, use is at most the limit, the burst that the policy states and the
// step that ends a hold.
func checkLimit(t *testing.T, row *policy.Row, sc *sim.Scenario, j *sim.Job, r *sim.JobResult) {
	window := min(time.Second, sc.Duration)
	if row.Honours.Window > 0 {
		window = row.Honours.Window
	}
	over := row.Honours.Burst + j.Step + j.Linger + sc.Device.SwitchCost
	limit := j.Share.Cap()
	if j.Keeps > 0 { // its limit has a sixteenth back of what it held and did not use
		limit *= 16. / 15
	}
	most := limit + float64(over)/float64(window)
	if peak := r.PeakShare(window); j.Share.Cap() < 1 && peak > most+1e-6 {
		t.Errorf("%s got %.4f of some %v, limit %.4f, step %v", r.Name, peak, window,
			j.Share.Cap(), j.Step)
	}
}

// checkWait: a job with work throughout waits no longer than the policy says.
func checkWait(t *testing.T, row *policy.Row, sc *sim.Scenario, i int, r *sim.JobResult) {
	shares, steps := make([]share.Share, len(sc.Jobs)), make([]time.Duration, len(sc.Jobs))
	for k := range sc.Jobs {
		j := &sc.Jobs[k]
		slow := 1
		if row.Needs.Partition {
			slow = sc.Device.Units
		} else if row.Needs.Overlap || row.Needs.Launches {
			slow = len(sc.Jobs)
		}
		shares[k] = j.Share
		steps[k] = time.Duration(slow)*j.Step + j.Linger + sc.Device.SwitchCost
	}
	to := sc.Duration
	if j := &sc.Jobs[i]; j.Stop > 0 {
		to = min(to, j.Stop)
	}
	if r.Completion > 0 {
		to = min(to, r.Completion)
	}
	most, ok := row.Honours.Wait.Bound(shares, steps, i)
	if wait := r.LongestWait(max(r.Admitted, sc.Jobs[i].Start), to); ok && wait > most {
		t.Errorf("%s waited for %v, at most %v are stated", r.Name, wait, most)
	}
}

// checkMetamorphic: what must not matter does not matter, to the nanosecond.
func checkMetamorphic(t *testing.T, row *policy.Row, spec string, sc sim.Scenario,
	base *sim.Result, seed uint64) {
	change := func(what string, how func([]sim.Job) []sim.Job) {
		other := sc
		other.Jobs = how(slices.Clone(sc.Jobs))
		if !same(base, run(t, spec, other)) {
			t.Errorf("%s: %s", spec, what)
		}
	}
	switch seed % 3 {
	case 0:
		change("names matter", func(jobs []sim.Job) []sim.Job {
			for k := range jobs {
				jobs[k].Name = fmt.Sprint("z", 9-k)
			}
			return jobs
		})
	case 1:
		if !row.Honours.Static {
			change("a job without work matters", func(jobs []sim.Job) []sim.Job {
				return append(jobs, job("idle", share.Share{Class: share.Class(seed / 3 % 3)}, ms,
					sim.Arrival{}))
			})
		}
	case 2:
		checkScale(t, row, sc, seed)
	}
}

// checkScale: only the ratio of the weights matters where all jobs have one.
func checkScale(t *testing.T, row *policy.Row, sc sim.Scenario, seed uint64) {
	if row.Honours.Absolute {
		return
	}
	sc.Jobs = slices.Clone(sc.Jobs)
	scaled := sc
	scaled.Jobs = slices.Clone(sc.Jobs)
	for k := range sc.Jobs {
		s := &sc.Jobs[k].Share
		s.Class, s.Compute = share.Standard, 0.05*float64(1+(seed+uint64(k))%3)
		if s.Limit > 0 {
			s.Limit = max(s.Limit, s.Compute)
		}
		scaled.Jobs[k].Share = *s
		scaled.Jobs[k].Share.Compute /= 4
	}
	if !same(run(t, row.Name, sc), run(t, row.Name, scaled)) {
		t.Errorf("%s: the scale of the weights matters", row.Name)
	}
}

// same reports whether the jobs of a held the device at the same times in b.
func same(a, b *sim.Result) bool {
	for i := range a.Jobs {
		if !slices.Equal(a.Jobs[i].Holds, b.Jobs[i].Holds) {
			return false
		}
	}
	return true
}

// busyThroughout reports whether the job always has work once it has started.
func busyThroughout(j *sim.Job) bool {
	return j.Arrival.Closed > 0 && j.Arrival.Think == 0
}

// passes reports whether the job runs without holding the device.
func passes(row *policy.Row, j *sim.Job) bool {
	return row.Name == "gpushare" && j.Step < policy.DefaultGPUShare().Switch
}

// randomCases is how many random scenarios a test has.
func randomCases() int {
	if os.Getenv("WEIR_LONG") != "" {
		return 200
	}
	return cases
}

// TestGuarantees: under policies that honour guarantees, a job with work throughout gets its own
// within two points, or three where its limit leaves it little to catch up with, whatever the
// others do. A policy that parts the units can be off by one of them.
func TestGuarantees(t *testing.T) {
	rows := slices.DeleteFunc(policy.All(),
		func(r policy.Row) bool { return !r.Honours.Guarantee })
	for n := range uint64(2 * randomCases()) {
		row, seed := rows[n%uint64(len(rows))], n/uint64(len(rows))
		sc := random(seed)
		sc.Duration = 4 * time.Second
		linger(&sc, seed)
		pause(&sc, seed)
		spec := withParams(&row, seed)
		res := run(t, spec, sc)
		for i := range res.Jobs {
			j := &sc.Jobs[i]
			got := float64(res.Jobs[i].Used) / float64(sc.Duration-j.Start)
			slack := 0.02
			if j.Share.Cap() < 1 {
				slack = 0.03
			}
			if row.Needs.Partition {
				slack += 1 / float64(sc.Device.Units)
			}
			if res.Jobs[i].Refused == nil && busyThroughout(j) &&
				got < j.Share.Guarantee()-slack {
				t.Fatalf("%s, seed %d: %s got %.3f, guarantee %.3f: %+v", spec, seed, j.Name,
					got, j.Share.Guarantee(), sc)
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
	for seed := range uint64(randomCases()) {
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
