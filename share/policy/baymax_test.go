package policy_test

import (
	"maps"
	"testing"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/share/sim"
)

// broken is the part of a job's requests that took longer than its target.
func broken(j *sim.Job, r *sim.JobResult) float64 {
	late := 0
	for _, l := range r.Latencies {
		if l > j.Target {
			late++
		}
	}
	return float64(late) / float64(max(1, len(r.Latencies)))
}

// useful is the part of the time that went into completed iterations, not into changes of hands.
func useful(sc *sim.Scenario, res *sim.Result) float64 {
	done := 0.0
	for i := range res.Jobs {
		done += float64(res.Jobs[i].Iterations) * float64(sc.Jobs[i].Iteration.Mean)
	}
	return done / float64(sc.Duration)
}

// baymaxMix is two services of which the one with the longer requests has the tighter target, and
// two batch jobs with long kernels, on a device that takes half a millisecond to change hands.
func baymaxMix(seed uint64) sim.Scenario {
	tight := job("tight", share.Share{Class: share.Latency}, 2*ms, sim.Arrival{Poisson: 5})
	tight.Target = 80 * ms
	loose := job("loose", share.Share{Class: share.Latency}, ms, sim.Arrival{Poisson: 40})
	loose.Target = 150 * ms
	sc := sim.Scenario{Duration: 120 * time.Second, Seed: seed,
		Device: sim.Device{SwitchCost: ms / 2}, Jobs: []sim.Job{tight, loose,
			job("batch", share.Share{}, 4*ms, always), job("train", share.Share{}, 8*ms, always)}}
	for i := range sc.Jobs {
		sc.Jobs[i].Foreknown = true
		sc.Jobs[i].Iteration.Jitter = 0.1
	}
	return sc
}

// TestBaymaxTargets: at least 99 of 100 requests of each service meet their target while 90 percent
// of the device does work, whether the jobs know their durations beforehand or are measured. Other
// policies break more of them: by order of arrival nearly all, and by shares and by classes those
// of the service that needs to go before another.
func TestBaymaxTargets(t *testing.T) {
	for seed := range uint64(4) {
		sc := baymaxMix(seed)
		for i := range sc.Jobs {
			sc.Jobs[i].Foreknown = seed%2 == 0
		}
		res := run(t, "baymax", sc)
		for i := range 2 {
			if b := broken(&sc.Jobs[i], &res.Jobs[i]); b > 0.01 {
				t.Errorf("seed %d: %s: %.2f%% of its requests were late", seed, sc.Jobs[i].Name,
					100*b)
			}
		}
		if u := useful(&sc, res); u < 0.97 {
			t.Errorf("seed %d: %.3f of the device did work", seed, u)
		}
		for _, other := range []string{"fifo", "fair", "priority"} {
			res := run(t, other, sc)
			late := max(broken(&sc.Jobs[0], &res.Jobs[0]), broken(&sc.Jobs[1], &res.Jobs[1]))
			if late <= 0.01 {
				t.Errorf("seed %d: under %s only %.2f%% were late", seed, other, 100*late)
			}
		}
	}
}

// TestBaymaxHeadroom: batch work runs on until the headroom of the request that waits is used up,
// less the longest kernel that it was seen to run: by then an iteration of 10 ms that is due 100 ms
// after its arrival, of which a tenth is kept back, begins 80 ms after it.
func TestBaymaxHeadroom(t *testing.T) {
	const second = time.Second
	served := job("served", share.Share{Class: share.Latency}, ms,
		sim.Arrival{Trace: []time.Duration{second, 2 * second, 3 * second}})
	served.Foreknown = true
	batch := job("batch", share.Share{}, 7*ms, always)
	batch.Iteration.Mean = 700 * ms
	res := run(t, "baymax", sim.Scenario{Duration: 4 * second, Jobs: []sim.Job{served, batch}})
	for i, l := range res.Jobs[0].Latencies {
		// The first request also waits for the kernel, whose length nobody knew.
		if l < 90*ms-7*ms || l > 90*ms+7*ms || i > 0 && l > 90*ms {
			t.Errorf("request %d took %v, want its target of 90 ms or up to a kernel less", i, l)
		}
	}
	if n := len(res.Jobs[0].Latencies); n != 3 {
		t.Errorf("%d requests completed, want 3", n)
	}
}

// TestBaymaxCopies: of the jobs that copy, the one that runs and those with the least headroom may,
// up to two; a job whose turn to copy comes is let go.
func TestBaymaxCopies(t *testing.T) {
	p, err := policy.NewBaymax(policy.DefaultBaymax())
	if err != nil {
		t.Fatal(err)
	}
	s := share.Snapshot{Units: 1, Can: share.Can{Copies: true}}
	for i, target := range []time.Duration{0, 300 * ms, 100 * ms, 200 * ms} {
		s.Jobs = append(s.Jobs, share.JobState{ID: share.JobID(i + 1), Phase: share.Waiting,
			Next: share.Forecast{Target: target, Copied: share.MiB}, State: p.NewJobState()})
	}
	bounds := func() map[share.JobID]share.Bytes {
		all := map[share.JobID]share.Bytes{}
		for _, t := range p.Decide(&s).Set {
			all[t.Job] = t.Copy
		}
		return all
	}
	got, want := bounds(), map[share.JobID]share.Bytes{3: 0, 2: 1, 1: 1}
	if !maps.Equal(got, want) {
		t.Errorf("bounds %v, want %v: job 3 runs, job 4 has the least headroom", got, want)
	}
	s.Jobs[2].Phase = share.Idle
	got, want = bounds(), map[share.JobID]share.Bytes{4: 0, 2: 0}
	if !maps.Equal(got, want) {
		t.Errorf("bounds %v, want %v: with job 3 gone job 4 runs and job 2 is next", got, want)
	}
	s.Can.Copies = false
	s.Jobs[3].Phase, s.Jobs[3].Units = share.Running, share.UnitRange(0, 1)
	if got = bounds(); len(got) != 0 {
		t.Errorf("bounds %v on a device that has none", got)
	}
}
