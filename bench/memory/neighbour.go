package main

import (
	"time"

	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// p99Round is a latency job's p99 in milliseconds, alone and beside models that switch.
type p99Round struct {
	Alone    float64 `json:"alone_ms"`
	Beside   float64 `json:"beside_ms"`
	Ratio    float64 `json:"ratio"`
	Requests int64   `json:"requests"`
	Switches int     `json:"switches"`
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
	jobs, err := models(all, perSecond)
	if err != nil {
		return err
	}
	memory, err := roomFor(fit, jobs)
	if err != nil {
		return err
	}
	memory += 64 * share.MiB // the latency job's
	var ratios []float64
	for n := range rounds {
		s := scenario.Scenario{Policy: "priority", Duration: d, Seed: uint64(n + 1),
			Jobs: []scenario.Job{latency}}
		alone, err := play(&s)
		if err != nil {
			return err
		}
		s.Memory, s.Jobs = memory, append(s.Jobs, jobs...)
		beside, err := play(&s)
		if err != nil {
			return err
		}
		a, b := &alone.Jobs[0], &beside.Jobs[0]
		r.Neighbour = append(r.Neighbour, p99Round{a.Latency.P99, b.Latency.P99,
			b.Latency.P99 / a.Latency.P99, b.Iterations, len(beside.Switches)})
		ratios = append(ratios, b.Latency.P99/a.Latency.P99)
	}
	r.Claims.Check("neighbour: p99 while others switch over alone", claims.Median(ratios), 1.1,
		true)
	return nil
}
