package main

import (
	"fmt"
	"time"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/zoo"
)

// together: two jobs whose models gain little from a second core, under timeslice, which gives each
// all cores in turn, and under policies that let both run at once.
func together(r *results, _ time.Duration) error {
	s := &scenario.Scenario{Duration: time.Second, Seed: 1}
	for _, m := range []struct {
		arch string
		o    zoo.Options
	}{
		{"mobilenetv2", zoo.Options{Seed: 1, Width: 0.25, Resolution: 96, Classes: 10}},
		{"minilm-l6", zoo.Options{Seed: 1, Hidden: 128, Vocabulary: 1000}},
	} {
		g, err := zoo.New(m.arch, m.o)
		if err != nil {
			return err
		}
		j := scenario.Job{Job: share.Job{Name: m.arch}, Model: m.arch, Graph: g,
			Arrival: scenario.Arrival{Closed: 1}}
		if m.arch == "minilm-l6" {
			j.Shapes = map[string]feed.Shape{"input_ids": {1, 16}}
		}
		s.Jobs = append(s.Jobs, j)
	}
	names := []string{"timeslice", "mps", "steal", "pack"}
	for range throughputRounds {
		res, err := r.run(s, scenario.Options{Solo: true, Policies: names})
		if err != nil {
			return err
		}
		r.judgeTogether(res)
	}
	return nil
}

// judgeTogether compares the total throughput of each policy with that of timeslice.
func (r *results) judgeTogether(res *scenario.Result) {
	turns := 0.0
	for _, p := range res.Phases {
		switch {
		case p.Mode != scenario.Shared:
		case p.Policy == "timeslice":
			turns = p.ThroughputVsSolo
		default:
			r.Claims.Check(fmt.Sprintf("%s over timeslice, total throughput, models of one core",
				p.Policy), p.ThroughputVsSolo/turns, 1.15, false)
		}
	}
}
