package policy_test

import (
	"errors"
	"maps"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// mean is the mean of the first n latencies.
func mean(r *sim.JobResult, n int) float64 {
	sum := 0.0
	for _, l := range r.Latencies[:n] {
		sum += float64(l)
	}
	return sum / float64(n)
}

// TestAntManPauses: beside an opportunistic job, the iterations of a guaranteed one take at most 1
// percent longer, its wait for the device counted, whatever its pauses and the other's kernels; and
// pauses are filled where kernels fit in. Priority, which ends a hold only when the pause does,
// costs up to 17 percent.
func TestAntManPauses(t *testing.T) {
	worst := 0.0
	for _, kernel := range []time.Duration{ms / 2, 3 * ms, 11 * ms, 40 * ms} {
		for _, pause := range []time.Duration{0, 23 * ms, 67 * ms, 97 * ms} {
			train := job("train", share.Share{}, 2*ms, sim.Arrival{Closed: 1, Think: pause})
			train.Iteration = sim.Spread{Mean: 100 * ms, Jitter: 0.05}
			sc := sim.Scenario{Duration: 60 * time.Second, Seed: 1, Jobs: []sim.Job{train}}
			alone := run(t, "antman", sc).Jobs[0]
			gaps := job("gaps", share.Share{Class: share.Opportunistic}, kernel, always)
			sc.Jobs = append(sc.Jobs, gaps)
			slower := func(r *sim.Result) float64 {
				n := min(len(alone.Latencies), len(r.Jobs[0].Latencies))
				return mean(&r.Jobs[0], n) / mean(&alone, n)
			}
			res := run(t, "antman", sc)
			if x := slower(res); x > 1.01 {
				t.Errorf("kernels of %v, pauses of %v: iterations take %.4f of alone", kernel,
					pause, x)
			}
			filled := res.Jobs[1].Share / (1 - alone.Share)
			if pause > 3*kernel && filled < 0.9 {
				t.Errorf("kernels of %v, pauses of %v: %.3f of them filled", kernel, pause, filled)
			}
			worst = max(worst, slower(run(t, "priority", sc)))
		}
	}
	if worst < 1.1 {
		t.Errorf("under priority iterations take %.4f at most: want harder cases", worst)
	}
}

// TestAntManIrregular: where pauses are of any length, requests are delayed by no more than what
// the head of the policy says, and a part of the pauses is used that depends on the kernels.
func TestAntManIrregular(t *testing.T) {
	for _, tc := range []struct {
		kernel time.Duration
		filled float64
	}{{ms, 0.6}, {10 * ms, 0.2}} {
		kernel := tc.kernel
		served := job("served", share.Share{Class: share.Latency}, 2*ms, sim.Arrival{Poisson: 5})
		gaps := job("gaps", share.Share{Class: share.Opportunistic}, kernel, always)
		sc := sim.Scenario{Duration: 60 * time.Second, Seed: 4, Jobs: []sim.Job{served}}
		alone := run(t, "antman", sc).Jobs[0]
		sc.Jobs = append(sc.Jobs, gaps)
		res := run(t, "antman", sc)
		n := min(len(alone.Latencies), len(res.Jobs[0].Latencies))
		delay := time.Duration((mean(&res.Jobs[0], n) - mean(&alone, n)) * float64(n))
		if most := sc.Duration/250 + kernel + 2*200*ms; delay > most {
			t.Errorf("kernels of %v: delayed by %v in all, want at most %v", kernel, delay, most)
		}
		if filled := res.Jobs[1].Share / (1 - alone.Share); filled < tc.filled {
			t.Errorf("kernels of %v: %.3f of the pauses used", kernel, filled)
		}
	}
}

// TestAntManEnd: once the guaranteed job has no more work, all is lent.
func TestAntManEnd(t *testing.T) {
	train := job("train", share.Share{}, ms, sim.Arrival{Closed: 1, Think: 10 * ms})
	train.Iterations = 100
	gaps := job("gaps", share.Share{Class: share.Opportunistic}, 7*ms, always)
	res := run(t, "antman", sim.Scenario{Duration: 10 * time.Second, Jobs: []sim.Job{train, gaps}})
	done := res.Jobs[0].Completion
	if done == 0 {
		t.Fatal("the guaranteed job did not complete")
	}
	if wait := res.Jobs[1].LongestWait(done, 10*time.Second); wait > 5*time.Second {
		t.Errorf("nothing lent for %v after the end of the guaranteed job", wait)
	}
}

// TestAntManMemory: opportunistic jobs keep what guaranteed ones with work leave, and get it back;
// they are promised none where memory can be spilled.
func TestAntManMemory(t *testing.T) {
	p, err := policy.NewAntMan(policy.DefaultAntMan())
	if err != nil {
		t.Fatal(err)
	}
	s := share.Snapshot{Units: 1, Memory: 10 * share.GiB, Can: share.Can{Spill: true}}
	add := func(class share.Class, most, held share.Bytes) {
		s.Jobs = append(s.Jobs, share.JobState{ID: share.JobID(len(s.Jobs) + 1),
			Share: share.Share{Class: class}, State: p.NewJobState(),
			Memory: share.Memory{Cap: most, Persistent: held}})
	}
	add(share.Standard, 6*share.GiB, 2*share.GiB)
	for range 2 {
		other := share.JobState{Share: share.Share{Class: share.Opportunistic},
			Memory: share.Memory{Cap: 5 * share.GiB}}
		if err := p.Admit(&s, &other); err != nil {
			t.Errorf("opportunistic job not admitted: %v", err)
		}
		add(share.Opportunistic, 5*share.GiB, 3*share.GiB)
	}
	firm := share.JobState{Memory: share.Memory{Cap: 5 * share.GiB}}
	if err := p.Admit(&s, &firm); !errors.Is(err, share.ErrNoMemory) {
		t.Errorf("5 GiB more promised of 10 GiB, 6 GiB of it taken: %v", err)
	}
	bounds := func() map[share.JobID]share.Bytes {
		all := map[share.JobID]share.Bytes{}
		for _, t := range p.Decide(&s).Set {
			all[t.Job] = t.Resident
		}
		return all
	}
	for _, step := range []struct {
		what string
		busy bool
		want map[share.JobID]share.Bytes
	}{
		{"2 GiB of 10 held", false, map[share.JobID]share.Bytes{3: 3 * share.GiB}},
		{"6 GiB of 10 may be", true,
			map[share.JobID]share.Bytes{2: 4 * share.GiB, 3: share.Nothing}},
		{"nothing has changed", true, map[share.JobID]share.Bytes{}},
		{"2 GiB held again", false,
			map[share.JobID]share.Bytes{2: share.Keep, 3: 3 * share.GiB}},
	} {
		s.Jobs[0].HasWork = step.busy
		if got := bounds(); !maps.Equal(got, step.want) {
			t.Errorf("%s: bounds %v, want %v", step.what, got, step.want)
		}
	}
}

// TestAntManBoundsPastTheEnd: the memory of an opportunistic job is bounded anew while its kernel
// runs on past what was lent to it, and while it rests, without an unsound instruction.
func TestAntManBoundsPastTheEnd(t *testing.T) {
	owner := job("owner", share.Share{Memory: 3 * share.GiB / 2}, ms, sim.Arrival{Closed: 1,
		Think: 15 * ms})
	long := job("long", share.Share{Class: share.Opportunistic, Memory: share.GiB}, 7*ms, always)
	rests := job("rests", share.Share{Class: share.Opportunistic, Memory: share.GiB}, ms/10,
		sim.Arrival{Poisson: 50})
	rests.Rests = true
	for _, other := range []sim.Job{long, rests} {
		run(t, "antman", sim.Scenario{Duration: 4 * time.Second, Seed: 1,
			Jobs: []sim.Job{owner, other}, Device: sim.Device{Memory: 2 * share.GiB,
				Can: share.Can{Spill: true}}})
	}
}
