package main

import (
	"slices"
	"time"

	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// p99Round is a latency job's p99 in milliseconds: alone, beside models that switch, beside the
// same with room for all, and alone again.
type p99Round struct {
	Alone    float64 `json:"alone_ms"`
	Beside   float64 `json:"beside_ms"`
	Resident float64 `json:"resident_ms"`
	Again    float64 `json:"again_ms"`
	Requests int64   `json:"requests"`
	Switches int     `json:"switches"`
}

// p99Pooled is the p99 of the requests of all rounds together, in milliseconds. Of one round it is
// by a dozen requests, and that alone over itself is then off by a third.
type p99Pooled struct {
	Alone    float64 `json:"alone_ms"`
	Beside   float64 `json:"beside_ms"`
	Resident float64 `json:"resident_ms"`
	// Noise is alone for the second time over alone for the first, ResidentRatio what the models
	// cost that do not switch.
	Noise         float64 `json:"noise"`
	ResidentRatio float64 `json:"resident_ratio"`
}

// neighbour measures a job of class latency that keeps its memory, under the policy priority, alone
// and beside ten models that have the room of three.
func (r *results) neighbour(rounds int, d time.Duration) error {
	const all, fit, perSecond = 10, 3, 6
	g, err := zoo.New("mobilenetv2", zoo.Options{Resolution: 96})
	if err != nil {
		return err
	}
	latency := scenario.Job{Model: "mobilenetv2", Graph: g,
		Job:     share.Job{Name: "latency", Share: share.Share{Class: share.Latency, Compute: 0.5}},
		Arrival: scenario.Arrival{Poisson: 40}}
	jobs, err := models(all, 0, perSecond)
	if err != nil {
		return err
	}
	memory, _, err := roomFor(fit, jobs)
	if err != nil {
		return err
	}
	memory += 64 * share.MiB // the latency job's
	jobs = append([]scenario.Job{latency}, jobs...)
	var taken [4][]time.Duration
	for n := range rounds {
		var round p99Round
		for i, p := range []struct {
			jobs   []scenario.Job
			memory share.Bytes
			p99    *float64
		}{{jobs[:1], 0, &round.Alone}, {jobs, memory, &round.Beside},
			{jobs, 0, &round.Resident}, {jobs[:1], 0, &round.Again}} {
			res, err := play(&scenario.Scenario{Policy: "priority", Duration: d,
				Seed: uint64(n + 1), Jobs: p.jobs, Memory: p.memory}, nil)
			if err != nil {
				return err
			}
			*p.p99 = res.Jobs[0].Latency.P99
			taken[i] = append(taken[i], res.Jobs[0].Latencies...)
			round.Requests = res.Jobs[0].Iterations
			round.Switches += len(res.Switches)
		}
		r.Neighbour = append(r.Neighbour, round)
	}
	r.pool(taken)
	return nil
}

// pool judges the requests of all rounds: alone, beside, resident, alone again.
func (r *results) pool(taken [4][]time.Duration) {
	first, again := p99(taken[0]), p99(taken[3])
	alone := p99(slices.Concat(taken[0], taken[3]))
	beside, resident := p99(taken[1]), p99(taken[2])
	r.Pooled = &p99Pooled{Alone: alone, Beside: beside, Resident: resident, Noise: again / first,
		ResidentRatio: resident / alone}
	r.Claims.Check("neighbour: p99 while others switch over alone, all rounds together",
		beside/alone, 1.1, true)
}

// p99 is by nearest rank, in milliseconds.
func p99(taken []time.Duration) float64 {
	s := slices.Sorted(slices.Values(taken))
	return float64(s[(99*len(s)+99)/100-1]) / float64(time.Millisecond)
}
