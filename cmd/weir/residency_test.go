package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/scenario"
)

// TestResidencyTable holds the table of what was on the device when against a result made by hand.
func TestResidencyTable(t *testing.T) {
	at := func(parts ...float64) (r []scenario.Residency) {
		for i, f := range parts {
			r = append(r, scenario.Residency{From: time.Duration(i) * time.Second, Fraction: f})
		}
		return r
	}
	p := scenario.Phase{Mode: scenario.Shared, Policy: "fair", Wall: 4 * time.Second,
		Jobs: []scenario.JobResult{
			{Name: "a", WeightBytes: 40 << 20, MemoryKeptBytes: 1 << 20, Resident: 0.5,
				Evictions: 2, Iterations: 9, Latency: scenario.Latency{P50: 2}, Missed: 3,
				ReturnedBytes: 80 << 20,
				MissedLatency: scenario.Latency{P50: 30}, Residency: at(1, 0, 0.5, 0.5)},
			{Name: "b", WeightBytes: 8 << 20, MemoryKeptBytes: 2 << 20, Residency: at(0, 0.1, 1)},
			{Name: "c", WeightBytes: 4 << 20, ReturnedBytes: 4 << 20, SharedWeights: "of d"},
			{Name: "d", WeightBytes: 4 << 20, ReturnedBytes: 4 << 20, SharedWeights: "of d"},
			{Name: "all of it stays", Iterations: 3},
		}}
	want := `
on the device when                                    weights   kept  on device  evicted  requests  ` +
		`found away  p50 ms  away p50 ms
weir, policy fair: weights of 52 MiB, 3 of 12 requests found some away, 84 MiB came back
  a                 ████████········▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒▒   40 MiB  1 MiB       50 %        2         9  ` +
		`         3    2.00         30.0
  b                 ········░░░░░░░░████████████████    8 MiB  2 MiB        0 %        0         0  ` +
		`         0
  c                 ████████████████████████████████    4 MiB    0 B        0 %        0         0  ` +
		`         0
  d                 ████████████████████████████████    4 MiB    0 B        0 %        0         0  ` +
		`         0
`
	var b bytes.Buffer
	printResidency(&b, []scenario.Phase{p})
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
	b.Reset()
	printResidency(&b, []scenario.Phase{{Jobs: p.Jobs[4:]}})
	if b.Len() > 0 {
		t.Errorf("a phase in which all stays says %q", b.String())
	}
}

// TestDemoMemory: more models than the memory is for are all served, and the page shows which of
// them were there when.
func TestDemoMemory(t *testing.T) {
	dir := t.TempDir()
	args := []string{"demo", "--output", dir, "--duration", "1s", "--eviction", "greedydual"}
	const models = 6
	for range models {
		args = append(args, "--model", digitsFile(t))
	}
	all := done(t, append(args, "--memory", "1GiB", "--json")...).object(t, "jobs", "eviction")
	var keeps, weights float64
	for _, j := range all["jobs"].([]any) {
		j := j.(map[string]any)
		keeps += j["memory_kept_bytes"].(float64)
		weights = j["weight_bytes"].(float64)
	}
	if all["eviction"] != "greedydual" || all["switches"] != nil {
		t.Errorf("where all fit: eviction %v, switches %v", all["eviction"], all["switches"])
	}
	c := done(t, append(args, "--memory", fmt.Sprintf("%.0fB", keeps+2*weights))...)
	for _, want := range []string{"on the device when", "1-digits", "6-digits", "found some away"} {
		if !strings.Contains(c.out, want) {
			t.Errorf("no %q in %s", want, c.out)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("What was on the device when")) ||
		!bytes.Contains(page, []byte("switches by the rule greedydual")) {
		t.Errorf("the page has %d bytes, %v", len(page), err)
	}
}

// TestCrowdScenario holds the built-in models without running them.
func TestCrowdScenario(t *testing.T) {
	s, err := crowdScenario(nil, 300<<20, "", time.Second)
	if err == nil {
		err = s.Validate()
	}
	if err != nil {
		t.Fatal(err)
	}
	rate := 0.0
	for i := range s.Jobs {
		rate += s.Jobs[i].Arrival.Poisson
		if !s.Jobs[i].Elastic {
			t.Errorf("%s keeps its memory", s.Jobs[i].Name)
		}
	}
	if len(s.Jobs) != crowdModels || rate < 0.999*crowdRate || rate > 1.001*crowdRate {
		t.Errorf("%d jobs, %g requests a second", len(s.Jobs), rate)
	}
}
