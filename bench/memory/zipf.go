package main

import (
	"bytes"
	"fmt"
	"os"
	"time"

	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
)

// zipfRound is what one run gave.
type zipfRound struct {
	Rule     string  `json:"rule"`
	Memory   int64   `json:"memory_bytes"`
	Weights  int64   `json:"weight_bytes"`
	Requests int64   `json:"requests"`
	Hits     int64   `json:"hits"`
	HitRate  float64 `json:"hit_rate"`
	// Textbook is the hit rate of demand paging on the same iterations.
	Textbook float64 `json:"textbook_lru_hit_rate"`
	Returned int64   `json:"returned_bytes"`
	Worst    float64 `json:"worst_p99_ms"`
}

// zipf has the rules run in turn on the same requests.
func (r *results) zipf(rounds int, d time.Duration) error {
	const all, fit, perSecond = 20, 5, 10
	var z zipfs
	for n := range rounds {
		jobs, err := models(all, 3*n, perSecond) // 3 and the number of networks have no factor
		if err != nil {
			return err
		}
		memory, room, err := roomFor(fit, jobs)
		if err != nil {
			return err
		}
		for _, rule := range []string{"lru", "greedydual"} {
			round, err := z.run(&scenario.Scenario{Jobs: jobs, Duration: d, Seed: uint64(n + 1),
				Memory: memory, Eviction: rule}, room)
			if err != nil {
				return err
			}
			r.Zipf = append(r.Zipf, round)
		}
	}
	r.Claims.Check("zipf: runs with an error", z.failed, 0, true)
	ours := z.rules["greedydual"].rate()
	r.Claims.Check("zipf: hit rate of greedydual over that of lru, all rounds together",
		ours/z.rules["lru"].rate(), 1, false)
	r.Claims.Check("zipf: hit rate of greedydual over that of demand paging, all rounds together",
		ours/z.textbook.rate(), 1, false)
	return nil
}

// counted are requests, and those of them that found all there.
type counted struct{ hits, requests int64 }

func (c *counted) add(hits, requests int64) {
	c.hits, c.requests = c.hits+hits, c.requests+requests
}

func (c *counted) rate() float64 { return float64(c.hits) / float64(max(1, c.requests)) }

// zipfs are all rounds together.
type zipfs struct {
	rules    map[string]*counted
	textbook counted // on what either rule was asked
	failed   float64 // runs
}

// run has one rule serve one round. Demand paging has the room that is beside what is kept.
func (z *zipfs) run(s *scenario.Scenario, room int64) (round zipfRound, err error) {
	var record bytes.Buffer
	res, err := play(s, &record)
	if err != nil {
		if z.failed++; res == nil {
			return round, err
		}
		fmt.Fprintln(os.Stderr, err)
	}
	p, err := readPlayed(&record)
	if err != nil {
		return round, err
	}
	round = served(res)
	round.Rule, round.Memory = s.Eviction, int64(s.Memory)
	if z.rules == nil {
		z.rules = map[string]*counted{}
	}
	if z.rules[s.Eviction] == nil {
		z.rules[s.Eviction] = &counted{}
	}
	z.rules[s.Eviction].add(round.Hits, round.Requests)
	b := paged(p, res, room)
	z.textbook.add(b.hits, b.n)
	round.Textbook = float64(b.hits) / float64(max(1, b.n))
	return round, nil
}

// paged has demand paging serve what a run was asked.
func paged(p played, res *scenario.Result, room int64) *textbook {
	byName := map[string]int64{}
	for i := range res.Jobs {
		byName[res.Jobs[i].Name] = res.Jobs[i].WeightBytes
	}
	size := map[share.JobID]int64{}
	for _, j := range p.jobs {
		size[j] = byName[p.names[j]]
	}
	b := newTextbook(room, p.jobs, size)
	for _, j := range p.begins {
		b.ask(j)
	}
	return b
}

// served adds the jobs of a run up.
func served(res *scenario.Result) (z zipfRound) {
	for i := range res.Jobs {
		j := &res.Jobs[i]
		z.Requests, z.Hits = z.Requests+j.Iterations, z.Hits+j.Iterations-j.Missed
		z.Worst = max(z.Worst, j.Latency.P99)
	}
	z.Weights, z.Returned = scenario.Weights(res.Jobs)
	z.HitRate = float64(z.Hits) / float64(max(1, z.Requests))
	return z
}
