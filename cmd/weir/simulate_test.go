package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const simulated = `
device: v100
duration: 5s
policy: {fair: {slice: 10ms}}
jobs:
  - {name: web, class: latency, compute: 0.4, iteration: 4ms, kernel: {time: 1ms}, qos: 20ms,
     arrival: {load: 0.3}}
  - {name: batch, class: opportunistic, iteration: 50ms, kernel: {time: 1ms}}
`

// TestSimulate: one policy with parameters from the file, several from the flag, all of them, on
// another device, as a table, an object and a page.
func TestSimulate(t *testing.T) {
	dir := t.TempDir()
	file, page := filepath.Join(dir, "mix.yaml"), filepath.Join(dir, "mix.html")
	if err := os.WriteFile(file, []byte(simulated), 0o666); err != nil {
		t.Fatal(err)
	}
	one := done(t, "simulate", file, "--json").object(t, "device", "policy", "jobs", "phases",
		"results", "jain", "makespan_s", "targets_met", "events", "events_per_s", "virtual_s",
		"throughput_vs_solo")
	if one["device"] != "v100" || one["policy"] != "fair:slice=10ms" || one["virtual_s"] != 5.0 {
		t.Errorf("simulated %v under %v for %v s", one["device"], one["policy"], one["virtual_s"])
	}
	several := done(t, "simulate", file, "--json", "--device", "h200", "--policy",
		"fifo,fair:slice=5ms,burst=1ms,priority").object(t)
	results := several["results"].([]any)
	if len(results) != 3 || several["device"] != "h200" {
		t.Fatalf("%d results on %v", len(results), several["device"])
	}
	met := func(i int) float64 { return results[i].(map[string]any)["targets_met"].(float64) }
	if met(2) < 0.99 || met(0) > 0.5 {
		t.Errorf("in time: %v under priority, %v under fifo", met(2), met(0))
	}
	text := done(t, "simulate", file, "--policy", "all", "--html", page).out
	for _, want := range []string{"each job alone", "weir, policy priority", "\npolicy ",
		"p99 of alone", "\nfifo "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in %s", want, text)
		}
	}
	if data, err := os.ReadFile(page); err != nil ||
		!strings.Contains(string(data), "mix in virtual") {
		t.Errorf("the page is %.80q, %v", data, err)
	}
	for _, args := range [][]string{{"--device", "h999"}, {"--policy", "fair,nice"},
		{"--policy", "fair:quota=1"}} {
		if c := weir(t, append([]string{"simulate", file}, args...)...); c.code != 2 {
			t.Errorf("%v: exit code %d, %s", args, c.code, c.talk)
		}
	}
	if c := weir(t, "share", file, "--device", "cpu:0"); c.code != 2 ||
		!strings.Contains(c.talk, "weir simulate") {
		t.Errorf("exit code %d, %s", c.code, c.talk)
	}
}

// TestSharePolicies runs two policies live, with the jobs alone in between.
func TestSharePolicies(t *testing.T) {
	c := done(t, "share", scenarioFile(t, "64MiB", 0, 3), "--json", "--policy",
		"fifo,timeslice:slice=5ms")
	m := c.object(t, "jain", "makespan_s", "targets_met")
	var names []string
	for _, r := range m["results"].([]any) {
		names = append(names, r.(map[string]any)["policy"].(string))
	}
	if strings.Join(names, " ") != "fifo timeslice:slice=5ms" || len(m["phases"].([]any)) != 3 {
		t.Errorf("results are those of %v", names)
	}
	if n := strings.Count(c.talk, "alone: digits\n"); n != 3 {
		t.Errorf("alone %d times, want before, between and after:\n%s", n, c.talk)
	}
	if m["makespan_s"].(float64) <= 0 || m["jain"].(float64) <= 0 {
		t.Errorf("makespan %v, Jain's index %v", m["makespan_s"], m["jain"])
	}
}
