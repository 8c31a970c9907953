package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// trainingScenario writes a scenario of requests beside a job that trains, in its recipe's folder.
func trainingScenario(t *testing.T, duration, count string, change ...string) (path string) {
	t.Helper()
	dir := filepath.Dir(trainFolder(t, change...))
	path = filepath.Join(dir, "scenario.yaml")
	text := fmt.Sprintf(`device: cpu:0
policy: priority
%s
jobs:
  - {name: reader, model: digits.onnx, class: latency, compute: 0.5, arrival: {poisson: 50}%s}
  - {name: learner, train: recipe.yaml, class: opportunistic%[2]s}
`, duration, count)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestShareTraining: weir share runs a training beside serving, under a policy and as processes,
// with the memory that its plan says; nothing of it is kept, and one that has ended is done.
func TestShareTraining(t *testing.T) {
	path := trainingScenario(t, "duration: 600ms", "", "steps: 40", "steps: 5000")
	c := done(t, "share", path, "--json", "--compare", "processes", "--threads", "2")
	all := c.object(t, "phases")
	var jobs []any
	for _, v := range all["phases"].([]any) {
		p := v.(map[string]any)
		jobs = p["jobs"].([]any)
		for _, j := range jobs {
			job := j.(map[string]any)
			if job["status"] != "done" || job["iterations"].(float64) < 1 {
				t.Errorf("%v: %v", p["mode"], job)
			}
		}
	}
	learner := jobs[1].(map[string]any)
	plan := done(t, "train", "plan", filepath.Join(filepath.Dir(path), "recipe.yaml"), "--threads",
		"2", "--json").object(t, "arena_bytes", "state_bytes")
	want := plan["arena_bytes"].(float64) + plan["state_bytes"].(float64)
	if learner["plan_bytes"] != want || learner["memory_peak_bytes"] != want {
		t.Errorf("a training of %v bytes is planned with %v and holds %v", want,
			learner["plan_bytes"], learner["memory_peak_bytes"])
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(path), "run")); err == nil {
		t.Error("a scenario keeps what it trains")
	}
}

// TestShareTrainingEnds: a job whose recipe has come to its end is done, with as many requests as
// it had updates; recipes that cannot be followed, and keys beside them, are told by the job.
func TestShareTrainingEnds(t *testing.T) {
	path := trainingScenario(t, "", ", iterations: 9", "steps: 40", "steps: 3")
	all := done(t, "share", path, "--json", "--no-solo", "--threads", "2").object(t, "phases")
	jobs := all["phases"].([]any)[0].(map[string]any)["jobs"].([]any)
	if j := jobs[1].(map[string]any); j["iterations"] != 2. ||
		j["status"] != "done" { // one of three updates is made before anything is measured
		t.Errorf("%v", j)
	}
	for more, says := range map[string]string{
		"precision: bf16":                 "leave shapes, inputs and precision out",
		"model: digits.onnx":              "train: beside a model",
		"arrival: {load: 0.3}":            "arrival: load",
		"memory: {cap: 1GiB, keep: 1MiB}": "a training keeps",
	} {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(filepath.Dir(path), "other.yaml")
		text = []byte(strings.Replace(string(text), "recipe.yaml", "recipe.yaml, "+more, 1))
		if err := os.WriteFile(other, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c := weir(t, "share", other, "--no-solo", "--threads", "2")
		if c.code == 0 || !strings.Contains(c.talk, says) {
			t.Errorf("%s: code %d, %s, want %q", more, c.code, c.talk, says)
		}
	}
	c := weir(t, "simulate", path, "--device", "h100")
	if c.code == 0 || !strings.Contains(c.talk, "nothing here trains") {
		t.Errorf("simulate: code %d, %s", c.code, c.talk)
	}
}
