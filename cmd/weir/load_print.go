package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/server/traffic"
)

// print shows what was measured of a server.
func (r *loadResult) print(c *cobra.Command) {
	w := c.OutOrStdout()
	say(w, "%s for %.1f s", r.traffic(), r.Seconds)
	say(w, "%d sent, %d answered, %.1f a second", r.Sent, r.Answered, r.PerSecond)
	if r.DeadlineMS > 0 {
		say(w, "%d in %g ms, goodput %.1f a second", r.InTime, r.DeadlineMS, r.Goodput)
	}
	say(w, "latency %s", spread(r.Latency))
	if r.Refused > 0 {
		say(w, "%d refused, after %s", r.Refused, spread(r.Refusal))
	}
	for _, kind := range slices.Sorted(maps.Keys(r.Errors)) {
		say(w, "error %s: %d", kind, r.Errors[kind])
	}
	if r.Held > 0 {
		say(w, "%d waited for a connection: more --connections show the server's own queue",
			r.Held)
	}
	if r.Rate == 0 {
		say(c.ErrOrStderr(), "slow answers kept requests from being sent: latencies of a --rate "+
			"have them")
		return
	}
	say(w, "sent late by %s", spread(r.Late))
	if r.Disturbed {
		say(c.ErrOrStderr(), "this command was late itself, by more than a tenth of the "+
			"latencies: they are partly its own")
	}
}

// traffic says how requests were sent.
func (r *loadResult) traffic() string {
	how := fmt.Sprintf("%g requests a second", r.Rate)
	if r.Rate == 0 {
		how = "requests one after another"
	}
	on := "1 connection"
	if r.Connections > 1 {
		on = fmt.Sprintf("%d connections", r.Connections)
	}
	return fmt.Sprintf("%s over %s, %s,", how, r.Protocol, on)
}

// spread are percentiles as they are shown.
func spread(t traffic.Times) string {
	var b strings.Builder
	for _, p := range []struct {
		name  string
		value float64
	}{{"p50", t.P50}, {"p90", t.P90}, {"p99", t.P99}, {"p99.9", t.P999}} {
		fmt.Fprintf(&b, "%s %.3f ms, ", p.name, p.value)
	}
	fmt.Fprintf(&b, "most %.3f ms", t.Max)
	return b.String()
}
