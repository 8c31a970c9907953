package main

import (
	"fmt"
	"strconv"
)

// cost: what a launch costs its caller more than the bare call. The same program without weir,
// alone under weir, where the gate stays open, and beside another program, where leases come and
// go; in turn, so that what drifts meets all.
func cost(r *results, h *host, _ int) error {
	seconds := strconv.FormatFloat(pick(r, 1.5, 0.4), 'f', -1, 64)
	one := func(flags ...string) (float64, error) {
		var got struct {
			Runs int
			P50  float64 `json:"p50_ns"`
		}
		err := h.run(&got, flags, "launch_cost", seconds)
		if err == nil && got.Runs < 100 {
			err = fmt.Errorf("launch cost: %d runs: %w", got.Runs, errMeasure)
		}
		return got.P50, err
	}
	bare, err := one()
	if err != nil {
		return err
	}
	alone, err := one("--memory", "1GiB", "--compute", "0.5")
	if err != nil {
		return err
	}
	other, err := h.start([]string{"--memory", "1GiB", "--compute", "0.5"}, "launch_storm", "60",
		"50", "200", "eager")
	if err != nil {
		return err
	}
	leased, err := one("--memory", "1GiB", "--compute", "0.5")
	other.kill()
	if err != nil {
		return err
	}
	again, err := one()
	if err != nil {
		return err
	}
	bare = (bare + again) / 2
	r.note("bare launch p50, ns", bare)
	r.Claims.Check("added to a launch, alone: p50, ns", alone-bare, 100, true)
	r.Claims.Check("added to a launch, leases in turn with another: p50, ns", leased-bare,
		r.work(300), true)
	return nil
}

// work is a bound on processor time that a launch's own thread spends beside another program. One
// that has half of a processor's time takes twice as long for the same work, whatever that is: on a
// machine that is made slow the bound is 600 ns and not 300. A run of launches takes one of the
// parts of 40 us that others have there, or two, and the median lies between: it moves by more than
// what is added.
func (r *results) work(ns float64) float64 {
	if r.slowed {
		return 2 * ns
	}
	return ns
}

// pick chooses the quick run's number.
func pick[T any](r *results, full, quick T) T {
	if r.quick {
		return quick
	}
	return full
}
