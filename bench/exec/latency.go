package main

import (
	"fmt"
	"slices"
	"strconv"
)

// served is what the program serve tells of its requests, in microseconds.
type served struct {
	Requests  int
	P50       float64 `json:"p50_us"`
	P90       float64 `json:"p90_us"`
	P99       float64 `json:"p99_us"`
	Max       float64 `json:"max_us"`
	P50Launch float64 `json:"p50_launch_us"`
	P99Launch float64 `json:"p99_launch_us"`
}

// latency: requests of 0.2 ms that come at random, alone and beside an opportunistic program that
// floods the device with kernels of 0.25 ms, in turn. What is added beside it is the difference of
// the two p99s of neighbouring phases.
func latency(r *results, h *host, round int) error {
	seconds, phases := pick(r, "4", "2"), pick(r, 3, 1)
	serve := func(seed int, flags ...string) (s served, err error) {
		err = h.run(&s, flags, "serve", seconds, "200", "5000", strconv.Itoa(seed))
		if err == nil && s.Requests < 100 {
			err = fmt.Errorf("%d requests: %w", s.Requests, errMeasure)
		}
		return s, err
	}
	share := []string{"--memory", "1GiB", "--compute", "0.5", "--class", "latency"}
	var added, half []float64
	for i := range phases {
		seed := 100*round + i
		alone, err := serve(seed, share...)
		if err != nil {
			return err
		}
		flood, err := h.start([]string{"--memory", "1GiB", "--class", "opportunistic"},
			"launch_storm", "60", "250", "250", "eager", "256")
		if err != nil {
			return err
		}
		beside, err := serve(seed, share...)
		flood.kill()
		if err != nil {
			return err
		}
		added = append(added, (beside.P99-alone.P99)/1000)
		half = append(half, (beside.P50-alone.P50)/1000)
		r.note("request alone, p50, ms", alone.P50/1000)
		r.note("request alone, p99, ms", alone.P99/1000)
		r.note("request beside the flood, p50, ms", beside.P50/1000)
		r.note("request beside the flood, p99, ms", beside.P99/1000)
		r.note("waited at the gate beside the flood, p50, ms", beside.P50Launch/1000)
	}
	slices.Sort(added)
	slices.Sort(half)
	r.note("added beside a flood, p50, ms", half[len(half)/2])
	r.Claims.Check("added beside a flood of 0.25 ms kernels: p99, ms", added[len(added)/2], 1, true)
	return nil
}
