package scenario

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/feed"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/share"
)

const complete = `
device: cpu:0
policy: priority
duration: 1m30s
seed: 7
jobs:
  - name: detector
    model: det.onnx
    class: latency
    compute: 0.5
    limit: 0.75
    memory: 512MiB
    arrival: {poisson: 10}
    iterations: 100
    precision: auto
    shapes: {image: 1x3x64x64, scale: scalar}
    inputs: {mask: in/mask.npy}
  - name: batch
    model: /models/batch.onnx
    class: opportunistic
    arrival: {closed: 2, think: 5ms}
    start: 1s
    stop: 1m
  - name: described
    iteration: 80ms
    jitter: 0.1
    kernel: {time: 2ms, units: 0.5, bandwidth: 0.25}
    arrival: {trace: [0s, 90ms]}
    qos: 200ms
`

func TestParseComplete(t *testing.T) {
	const ms = time.Millisecond
	s, err := Parse(strings.NewReader(complete))
	if err != nil {
		t.Fatal(err)
	}
	want := &Scenario{Device: "cpu:0", Policy: "priority", Duration: 90 * time.Second, Seed: 7,
		Jobs: []Job{
			{Job: share.Job{Name: "detector", Iterations: 100,
				Share: share.Share{Class: share.Latency, Compute: 0.5, Limit: 0.75,
					Memory: 512 << 20}},
				Model: "det.onnx", Precision: pass.Auto, Arrival: Arrival{Poisson: 10},
				Shapes: map[string]feed.Shape{"image": {1, 3, 64, 64}, "scale": {}},
				Inputs: map[string]string{"mask": "in/mask.npy"}},
			{Job: share.Job{Name: "batch", Share: share.Share{Class: share.Opportunistic}},
				Model: "/models/batch.onnx", Arrival: Arrival{Closed: 2, Think: 5 * ms},
				Start: time.Second, Stop: time.Minute},
			{Job: share.Job{Name: "described"}, Target: 200 * ms,
				Work: Work{Iteration: 80 * ms, Jitter: 0.1,
					Kernel: Kernel{Time: 2 * ms, Units: 0.5, Bandwidth: 0.25}},
				Arrival: Arrival{Trace: []time.Duration{0, 90 * ms}}},
		}}
	if !reflect.DeepEqual(s, want) {
		t.Errorf("got %+v\nwant %+v", s, want)
	}
}

func TestParseDefaults(t *testing.T) {
	s, err := Parse(strings.NewReader("duration: 1s\njobs: [{name: a, model: a.onnx}]"))
	if err != nil {
		t.Fatal(err)
	}
	if s.Device != "cpu:0" || s.Policy != "fair" || s.Jobs[0].Class != share.Standard ||
		s.Jobs[0].Arrival.Clients() != 1 {
		t.Errorf("defaults are %+v", s)
	}
}

// TestParsePolicy: a policy is a name, a name with parameters as on the command line, or keys.
func TestParsePolicy(t *testing.T) {
	for text, want := range map[string]string{
		"fifo":                               "fifo",
		"fair:slice=10ms,burst=2ms":          "fair:slice=10ms,burst=2ms",
		"{fair: {slice: 10ms, burst: 2ms}}":  "fair:burst=2ms,slice=10ms",
		"{fifo: {}}":                         "fifo",
		"{fifo: }":                           "fifo",
		"\n  priority:\n    patience: 5ms\n": "priority:patience=5ms",
	} {
		s, err := Parse(strings.NewReader("duration: 1s\njobs: [{name: a, model: m}]\npolicy: " +
			text))
		if err != nil || s.Policy != want {
			t.Errorf("policy: %s: got %+v, %v, want %q", text, s, err, want)
		}
	}
}

// TestParseFaults holds every fault of a file, with its line where it has one, in one message of
// one line.
func TestParseFaults(t *testing.T) {
	const job = "jobs: [{name: a, model: a.onnx}]\n"
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", []string{"empty"}},
		{"comment only", "# nothing\n", []string{"empty"}},
		{"no jobs", "duration: 1s\n", []string{"no jobs"}},
		{"not YAML", "jobs: [", []string{"line 1"}},
		{"a list", "- a\n", []string{"line 1", "want keys with values"}},
		{"two documents", "duration: 1s\n" + job + "---\nduration: 2s\n",
			[]string{"more than one"}},
		{"unknown keys", "devise: cpu:0\nduration: 1s\njobs:\n  - name: a\n    modle: x\n    " +
			"arrival: {poison: 3}\n",
			[]string{`line 1: unknown key "devise"`, "want device, policy",
				`line 5: unknown key "modle"`, `line 6: unknown key "poison"`,
				"want poisson, load, closed"}},
		{"duplicate key", "duration: 1s\nduration: 2s\n" + job, []string{"line 2", "duration"}},
		{"wrong types", "duration: 20\nseed: 1.5\njobs:\n  - name: [a]\n    class: fast\n    " +
			"memory: 5XiB\n    compute: half\n    iterations: 1.5\n" +
			"    precision: half\n    arrival: 10\n    shapes: {x: 1y3}\n    inputs: [a]\n",
			[]string{"line 1: 20: want a duration such as 20s", "line 2: 1.5",
				"line 4: a list: want text", `line 5: class "fast"`, `line 6: size "5XiB"`,
				"line 7: half: want a number", "line 8: 1.5: want a whole number",
				`line 9: precision "half": want fp32, bf16 or auto`,
				"line 10: 10: want {poisson: 10}",
				`line 11: shape "1y3"`, "line 12: a list: want names with files"}},
		{"jobs of the wrong type", "duration: 1s\njobs: 3\n",
			[]string{"line 2: 3: want a list of jobs"}},
		{"class a list", "duration: 1s\njobs: [{name: a, model: m, class: [latency]}]\n",
			[]string{"line 2: want one value"}},
		{"meaningless values", "policy: nice\nduration: -1s\njobs:\n  - {name: a, model: m, " +
			"compute: 1.5, arrival: {poisson: -1}}\n" +
			"  - {name: a, limit: 2, arrival: {closed: -1, load: 2}, iterations: -4}\n",
			[]string{`"nice"`, "fair", "negative", "compute is 1.5", "poisson -1",
				`two jobs are named "a"`, "no model", "limit is 2", "closed -1", "load 2",
				"iterations is -4"}},
		{"compute above limit",
			"duration: 1s\njobs: [{name: a, model: m, compute: 0.5, limit: 0.2}]",
			[]string{"compute is 0.5", "limit 0.2"}},
		{"two arrivals", "duration: 1s\njobs: [{name: a, model: m, arrival: {poisson: 1, closed: " +
			"1}}]", []string{"more than one of"}},
		{"no requests", "duration: 1s\njobs: [{name: a, model: m, arrival: {poisson: 0}}]",
			[]string{"job a", "0 asks for no requests"}},
		{"control characters", "duration: 1s\njobs: [{name: \"a\\e[2J\", model: m}]",
			[]string{`\x1b`, "must be printable"}},
		{"a list of policies", "duration: 1s\npolicy: [fair]\n" + job,
			[]string{"line 2: policy: want a name"}},
		{"a policy named by a list", "duration: 1s\npolicy: {? [fair] : {}}\n" + job,
			[]string{"line 2: policy: want a name"}},
		{"times that overflow", "duration: 500000h\njobs:\n  - {name: a, model: m, start: " +
			"2562047h}\n  - {name: b, model: m, arrival: {trace: [0s, 2562047h]}}\n",
			[]string{"duration 500000h0m0s is", "job a: a time of 2562047h0m0s: want at most",
				"job b: a time of 2562047h0m0s: want at most"}},
		{"two policies", "duration: 1s\npolicy: {fair: {}, fifo: {}}\n" + job,
			[]string{"line 2: policy: want a name"}},
		{"parameters that are none", "duration: 1s\npolicy: {fair: {slice: [1ms]}}\n" + job,
			[]string{"line 2: policy: parameter slice: want one value"}},
		{"a parameter of another policy", "duration: 1s\npolicy: {fair: {quota: 3}}\n" + job,
			[]string{`policy fair: wrong parameter: no parameter "quota"`,
				"it has await, burst, granularity, least, slice"}},
		{"a value that is none", "duration: 1s\npolicy: {fair: {slice: soon}}\n" + job,
			[]string{`slice is "soon"`}},
		{"described work", "duration: 1s\njobs:\n  - {name: a, iteration: -1s, jitter: 2, " +
			"kernel: {units: 1.5, bandwidth: 3}}\n  - {name: b, kernel: {units: 0.5}}\n",
			[]string{"iteration -1s", "jitter 2", "kernel units 1.5: there is 1 device",
				"bandwidth 3", "job b: iteration 0s"}},
		{"no units", "duration: 1s\njobs: [{name: a, kernel: {time: 1s, units: 0}}]",
			[]string{"job a: kernel: units 0"}},
		{"work and a model", "duration: 1s\njobs: [{name: a, model: m, iteration: 1s}]",
			[]string{"job a: both a model and described work"}},
		{"times in disorder", "duration: 1s\njobs: [{name: a, model: m, start: 2s, stop: 1s, " +
			"qos: -1s, arrival: {trace: [2s, 1s]}}]",
			[]string{"start 2s, stop 1s", "qos -1s", "trace: want times that rise"}},
		{"thought without clients", "duration: 1s\njobs: [{name: a, model: m, arrival: {poisson: " +
			"1, think: 1s}}]", []string{"think is for clients"}},
		{"a trace too short", "jobs: [{name: a, model: m, iterations: 3, arrival: {trace: [1s]}}]",
			[]string{"trace of 1 for 3 iterations"}},
		{"without end", job, []string{"would never end"}},
		{"no name", "duration: 1s\njobs: [{model: m}]", []string{"name"}},
		{"not a number", "duration: 1s\njobs: [{name: a, model: m, compute: .nan, arrival: " +
			"{poisson: .inf}}]", []string{"compute is NaN", "poisson +Inf"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse(strings.NewReader(c.text))
			if !errors.Is(err, ErrScenario) {
				t.Fatalf("got %v, want an invalid scenario", err)
			}
			if strings.Contains(err.Error(), "\n") || strings.Contains(err.Error(), "scenario.") {
				t.Errorf("not one line for people: %v", err)
			}
			for _, part := range c.want {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%q is missing in: %v", part, err)
				}
			}
		})
	}
}

func TestParseTooLong(t *testing.T) {
	if _, err := Parse(
		strings.NewReader(strings.Repeat("# long\n", 1<<18))); !errors.Is(err, ErrScenario) {
		t.Errorf("got %v", err)
	}
}

// TestLoadPaths holds that paths in a file are relative to its folder, wherever the process is.
func TestLoadPaths(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(path, []byte(complete), 0o666); err != nil {
		t.Fatal(err)
	}
	s, err := Load(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := s.Jobs[0].Model, filepath.Join(dir, "det.onnx"); got != want {
		t.Errorf("model is %s, want %s", got, want)
	}
	if got, want := s.Jobs[0].Inputs["mask"], filepath.Join(dir, "in", "mask.npy"); got != want {
		t.Errorf("input is %s, want %s", got, want)
	}
	if got := s.Jobs[1].Model; got != "/models/batch.onnx" {
		t.Errorf("absolute model became %s", got)
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, []byte("devise: x\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	if _, err := Load(path); !errors.Is(err, ErrScenario) ||
		!strings.HasPrefix(err.Error(), path+": ") {
		t.Errorf("got %v", err)
	}
	if _, err := Load(path + ".missing"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// FuzzParse holds that foreign text never panics, that every error has its kind, and that what is
// accepted is valid.
func FuzzParse(f *testing.F) {
	f.Add(complete)
	f.Add("duration: 1s\njobs: [{name: a, model: m, shapes: {x: scalar}}]")
	f.Add("a: &a [*a, *a]")
	f.Add("jobs: [{<<: {name: a}}]")
	f.Add("jobs:\n- class: !!binary aGk=\n  memory: 9223372036854775807B")
	f.Add("\xff\xfe")
	f.Fuzz(func(t *testing.T, text string) {
		s, err := Parse(strings.NewReader(text))
		if err != nil {
			if !errors.Is(err, ErrScenario) {
				t.Fatalf("error without a kind: %v", err)
			}
			return
		}
		if err := s.Validate(); err != nil {
			t.Fatalf("accepted, and then: %v", err)
		}
	})
}
