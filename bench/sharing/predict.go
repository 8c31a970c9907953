package main

import (
	"context"
	"fmt"
	"math"
	"os"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/claims"
	"github.com/weirgpu/weir/internal/seat"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/policy"
	"github.com/weirgpu/weir/zoo"
)

// reduced are the architectures of the zoo at sizes whose iterations take some milliseconds, so
// that all pairs are measured in a minute.
var reduced = []struct {
	arch string
	o    zoo.Options
}{
	{"resnet50", zoo.Options{Seed: 1, Width: 0.25, Resolution: 96, Classes: 10}},
	{"mobilenetv2", zoo.Options{Seed: 1, Width: 0.5, Resolution: 96, Classes: 10}},
	{"yolov8n", zoo.Options{Seed: 1, Width: 0.5, Resolution: 128, Classes: 5}},
	{"bert-base", zoo.Options{Seed: 1, Layers: 2, Hidden: 256, Vocabulary: 1000}},
	{"minilm-l6", zoo.Options{Seed: 1, Hidden: 128, Vocabulary: 1000}},
	{"gpt2", zoo.Options{Seed: 1, Layers: 2, Hidden: 256, Vocabulary: 1000}},
}

// predict: how far the slow-down that Prophet's model predicts from profiles taken alone is off the
// slow-down of all pairs of architectures that run at once.
func predict(r *results, _ time.Duration) error {
	var jobs []scenario.Job
	var profiles []policy.Profile
	for _, m := range reduced {
		g, err := zoo.New(m.arch, m.o)
		if err != nil {
			return err
		}
		j := scenario.Job{Job: share.Job{Name: m.arch}, Model: m.arch, Graph: g,
			Arrival: scenario.Arrival{Closed: 1}}
		p, err := profile(j, r.Cores)
		if err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "    alone: %s %+v\n", m.arch, p)
		jobs, profiles = append(jobs, j), append(profiles, p)
	}
	sum, n := 0.0, 0
	for a := range jobs {
		for b := a; b < len(jobs); b++ {
			off, err := r.pair(jobs[a], jobs[b], profiles[a], profiles[b])
			if err != nil {
				return err
			}
			sum, n = sum+off, n+2
		}
	}
	r.Claims.Check("prophet: mean error of predicted slow-down, all pairs", sum/float64(n),
		0.15, true)
	return nil
}

// finer divides a core in profiles: a model 1.6 times as fast on two cores fills 1.6 of them.
const finer = 100

// Machines change their speed within a second, so that only runs that follow each other are
// compared: short ones, often, and the median of what they say.
const (
	predictRounds = 9
	predictRun    = 200 * time.Millisecond
)

// profile is what a job uses while it runs alone: as many cores as its speed on all of them is
// times that on one, and the memory traffic of its plan's steps at that speed, unless all that it
// touches stays in the caches.
func profile(j scenario.Job, units int) (policy.Profile, error) {
	const caches = 16 << 20
	var gains, speeds []float64
	for range predictRounds {
		var speed [2]float64
		for i, threads := range []int{1, units} {
			res, err := scenario.Run(context.Background(), &scenario.Scenario{Seed: 1,
				Duration: predictRun, Jobs: []scenario.Job{j}}, scenario.Options{Threads: threads})
			if err != nil {
				return policy.Profile{}, err
			}
			speed[i] = res.Jobs[0].IterationsPerS
		}
		gains, speeds = append(gains, speed[1]/speed[0]), append(speeds, speed[1])
	}
	shapes, err := feed.Shapes(j.Graph.Inputs, j.Shapes, nil)
	if err != nil {
		return policy.Profile{}, err
	}
	p, err := plan.Compile(context.Background(), j.Graph, plan.Options{Shapes: shapes,
		Target: kernels.Target(device.Info{}), Threads: units})
	if err != nil {
		return policy.Profile{}, err
	}
	out := policy.Profile{Units: max(finer, int(finer*claims.Median(gains)))}
	if p.PeakBytes(1) > caches {
		bytes := int64(0)
		for i := range p.Steps {
			bytes += p.Steps[i].Bytes
		}
		out.Bandwidth = min(1, float64(bytes)*claims.Median(speeds)/
			(seat.CoreBytes*float64(units)))
	}
	return out, nil
}

// pair runs two jobs at once and returns the sum of the errors of both predictions.
func (r *results) pair(a, b scenario.Job, pa, pb policy.Profile) (float64, error) {
	a.Name, b.Name = "a-"+a.Name, "b-"+b.Name
	var measured [2][]float64
	for range predictRounds {
		res, err := scenario.Run(context.Background(), &scenario.Scenario{Seed: 1,
			Duration: predictRun, Jobs: []scenario.Job{a, b}}, scenario.Options{Solo: true,
			SoloDuration: predictRun, Policies: []string{"mps"}})
		if err != nil {
			return 0, err
		}
		r.Phases = append(r.Phases, res.Phases...)
		for i, j := range res.Jobs {
			measured[i] = append(measured[i], j.Slowdown)
		}
	}
	var out [2]float64
	policy.Slowdowns(finer*r.Cores, []policy.Profile{pa, pb}, out[:])
	off := 0.0
	for i, name := range []string{a.Name, b.Name} {
		slowdown := claims.Median(measured[i])
		off += math.Abs(out[i]/slowdown - 1)
		fmt.Fprintf(os.Stderr, "    %s: predicted %.2f, measured %.2f\n", name, out[i], slowdown)
	}
	return off, nil
}
