package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// training writes a scenario of requests beside a job that trains, in the folder of its recipe.
func trainingScenario(t *testing.T, change ...string) (path string) {
	t.Helper()
	dir := filepath.Dir(trainFolder(t, change...))
	path = filepath.Join(dir, "scenario.yaml")
	text := `device: cpu:0
policy: priority
duration: 600ms
jobs:
  - {name: reader, model: digits.onnx, class: latency, compute: 0.5, arrival: {poisson: 50}}
  - {name: learner, train: recipe.yaml, class: opportunistic}
`
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestShareTraining: weir share runs a training beside serving, under a policy and as processes,
// with the memory that its plan says; nothing of it is kept, and one that has ended is done.
func TestShareTraining(t *testing.T) {
	path := trainingScenario(t, "steps: 40", "steps: 5000")
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
	path := trainingScenario(t, "steps: 40", "steps: 3")
	all := done(t, "share", path, "--json", "--no-solo", "--threads", "2").object(t, "phases")
	jobs := all["phases"].([]any)[0].(map[string]any)["jobs"].([]any)
	if j := jobs[1].(map[string]any); j["iterations"] != 2. ||
		j["status"] != "done" { // one of three updates is made before anything is measured
		t.Errorf("%v", j)
	}
	for change, says := range map[string]string{
		"digits.onnx":                                  "job learner",
		"recipe.yaml, precision: bf16":                 "leave shapes, inputs and prec",
		"recipe.yaml, model: digits.onnx":              "train: beside a model",
		"recipe.yaml, memory: 10KiB":                   "learner",
		"recipe.yaml, arrival: {load: .3}":             "arrival: load",
		"recipe.yaml, memory: {cap: 1GiB, keep: 1MiB}": "a training keeps",
	} {
		change = "train: recipe.yaml|train: " + change
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		from, to, _ := strings.Cut(change, "|")
		other := filepath.Join(filepath.Dir(path), "other.yaml")
		if err := os.WriteFile(other, []byte(strings.Replace(string(text), from, to, 1)),
			0o600); err != nil {
			t.Fatal(err)
		}
		c := weir(t, "share", other, "--no-solo", "--threads", "2")
		if !strings.Contains(c.talk+c.out, says) ||
			strings.Contains(to, "10KiB") != (c.code == 0) && !strings.Contains(to, "10KiB") {
			t.Errorf("%s: code %d, %s%s, want %q", to, c.code, c.talk, c.out, says)
		}
	}
	c := weir(t, "simulate", path, "--device", "h100")
	if c.code == 0 || !strings.Contains(c.talk, "nothing here trains") {
		t.Errorf("simulate: code %d, %s", c.code, c.talk)
	}
}
