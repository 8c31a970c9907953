package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/scenario"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
)

// scenarioFile writes a scenario of the digits classifier beside a lookup with the given indices.
func scenarioFile(t *testing.T, memory string, indices ...int64) string {
	t.Helper()
	dir := t.TempDir()
	text := `duration: 10s
policy: priority
jobs:
  - {name: digits, model: ` + digitsFile(t) +
		`, class: latency, compute: 0.4, iterations: 20, memory: ` + memory + `}
  - {name: lookup, model: ` + modelFile(t, lookup, onnx.WriteOptions{}) +
		`, class: opportunistic, iterations: 30, inputs: {i: i.npy}}
`
	if err := writeNPY(
		filepath.Join(dir, "i.npy"),
		tensor.From(indices, len(indices)),
	); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "s.yaml")
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestShare(t *testing.T) {
	trace := filepath.Join(t.TempDir(), "trace.json")
	c := done(
		t,
		"share",
		scenarioFile(t, "64MiB", 0, 3),
		"--compare",
		"threads,processes",
		"--trace",
		trace,
		"--json",
		"--seed",
		"5",
	)
	m := c.object(t, "device", "policy", "wall_s", "jobs", "throughput_vs_solo", "phases")
	if m["policy"] != "priority" || len(m["phases"].([]any)) != 4 ||
		m["throughput_vs_solo"].(float64) <= 0 {
		t.Errorf("got %v", m)
	}
	j := m["jobs"].([]any)[0].(map[string]any)
	if _, ok := j["error"]; !ok || j["iterations"] != 20.0 || j["status"] != "done" ||
		j["memory_cap_bytes"] != float64(64<<20) ||
		j["class"] != "latency" {
		t.Errorf("the job is %v", j)
	}
	if !strings.Contains(c.talk, "alone: digits\n") ||
		!strings.Contains(c.talk, "together, policy priority\n") {
		t.Errorf("talk is %q", c.talk)
	}
	data, err := os.ReadFile(trace)
	if err != nil || !json.Valid(data) || !bytes.Contains(data, []byte("lease")) {
		t.Errorf("the trace is %.100q, %v", data, err)
	}
}

func TestShareTable(t *testing.T) {
	c := done(t, "share", scenarioFile(t, "64MiB", 0, 3), "--no-solo", "--policy", "fifo")
	if !strings.Contains(c.out, "weir, policy fifo") || strings.Contains(c.out, "alone\n") ||
		!strings.Contains(c.out, "digits") {
		t.Errorf("got %q", c.out)
	}
}

// TestShareTroubleOfOneJob holds that a refused or failing job makes exit code 1 and leaves the
// other's result.
func TestShareTroubleOfOneJob(t *testing.T) {
	for name, c := range map[string]struct {
		file   string
		job    int
		status string
		want   string
	}{
		"refused": {scenarioFile(t, "1KiB", 0, 3), 0, "refused", "1KiB"},
		"failed":  {scenarioFile(t, "64MiB", 0, 4), 1, "failed", "4"},
	} {
		t.Run(name, func(t *testing.T) {
			got := weir(t, "share", c.file, "--no-solo", "--json")
			jobs := got.object(t)["jobs"].([]any)
			bad, other := jobs[c.job].(map[string]any), jobs[1-c.job].(map[string]any)
			if got.code != 1 || bad["status"] != c.status ||
				!strings.Contains(bad["error"].(string), c.want) {
				t.Errorf("exit code %d, %v", got.code, bad)
			}
			if other["status"] != "done" || other["iterations"].(float64) < 20 {
				t.Errorf("the other job is %v", other)
			}
			if !strings.Contains(got.talk, "weir: weir, policy priority, "+c.status) {
				t.Errorf("talk is %q", got.talk)
			}
		})
	}
}

// TestDemo runs the demo on two models of the user's.
func TestDemo(t *testing.T) {
	if testing.Short() {
		t.Skip("the demo takes some seconds")
	}
	dir := filepath.Join(t.TempDir(), "report")
	c := done(
		t,
		"demo",
		"--model",
		digitsFile(t),
		"--model",
		modelFile(t, dense, onnx.WriteOptions{}),
		"--duration",
		"1s",
		"--output",
		dir,
	)
	for _, want := range []string{"latency (digits)", "batch (model)", "each job alone",
		"the OS, goroutine pools", "the OS, processes", "weir, policy fair",
		"weir, policy priority", "latency (digits) answers 99 of 100 requests within ", " alone, ",
		"batch (model) meanwhile runs, against alone, at "} {
		if !strings.Contains(strings.Join(strings.Fields(c.out), " "), want) {
			t.Errorf("no %q in %s", want, c.out)
		}
	}
	page, err := os.ReadFile(filepath.Join(dir, "report.html"))
	if err != nil || !bytes.Contains(page, []byte("latency (digits)")) ||
		!bytes.Contains(page, []byte("</html>")) {
		t.Errorf("the page has %d bytes, %v", len(page), err)
	}
	if data, err := os.ReadFile(
		filepath.Join(dir, "timeline.json"),
	); err != nil ||
		!json.Valid(data) {
		t.Errorf("the timeline has %d bytes, %v", len(data), err)
	}
	if !strings.Contains(c.talk, filepath.Join(dir, "report.html")) {
		t.Errorf("talk is %q", c.talk)
	}
}

// TestDemoScenario holds the built-in jobs without running them.
func TestDemoScenario(t *testing.T) {
	s, closeModels, err := demoScenario(nil, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer closeModels()
	if err := s.Validate(); err != nil {
		t.Error(err)
	}
	if len(s.Jobs) != 3 || s.Jobs[0].Given["image"].Shape[0] != 512 ||
		s.Jobs[2].Class != share.Opportunistic {
		t.Errorf("jobs are %+v", s.Jobs)
	}
}

// TestTable holds the table and the words below it against a result made by hand.
func TestTable(t *testing.T) {
	job := func(name string, c share.Class, perS, p99, got float64) scenario.JobResult {
		return scenario.JobResult{
			Name:           name,
			Class:          c,
			Compute:        0.4,
			Limit:          1,
			DeviceShare:    got,
			Iterations:     9,
			IterationsPerS: perS,
			SoloPerS:       100,
			Latency: scenario.Latency{
				P50: 1.5,
				P99: p99,
			},
			MemoryPeakBytes: 5 << 20,
			Status:          scenario.StatusDone,
		}
	}
	refused := scenario.JobResult{
		Name:    "big",
		Class:   share.Standard,
		Limit:   0.5,
		Compute: 0.25,
		Status:  scenario.StatusRefused,
		Error:   "too big",
	}
	phase := func(m scenario.Mode, p string, a, b scenario.JobResult) scenario.Phase {
		return scenario.Phase{
			Mode:       m,
			Policy:     p,
			Comparison: scenario.Comparison{ThroughputVsSolo: 0.97},
			Jobs:       []scenario.JobResult{a, refused, b},
		}
	}
	res := &scenario.Result{Phases: []scenario.Phase{
		phase(
			scenario.Solo,
			"",
			job("web", share.Latency, 100, 12.14, 0.3),
			job("batch", share.Opportunistic, 100, 3, 1),
		),
		phase(
			scenario.Threads,
			"",
			job("web", share.Latency, 90, 80, 0),
			job("batch", share.Opportunistic, 42, 300, 0),
		),
		phase(
			scenario.Shared,
			"priority",
			job("web", share.Latency, 99.5, 13, 0.31),
			job("batch", share.Opportunistic, 66, 4.5, 0.66),
		),
	}}
	res.Phases[2].Jobs[0].ForecastError = 0.123
	var b bytes.Buffer
	printResult(&b, res)
	want := `         class          promised  device  per s  of alone  p50 ms  p99 ms  memory  forecast
each job alone
  web    latency            40 %    30 %    100              1.50    12.1   5 MiB
  big    standard        25-50 %                                                    refused
  batch  opportunistic             100 %    100              1.50    3.00   5 MiB
the OS, goroutine pools: total throughput 0.97 of alone
  web    latency            40 %           90.0      90 %    1.50    80.0   5 MiB
  big    standard        25-50 %                                                    refused
  batch  opportunistic                     42.0      42 %    1.50     300   5 MiB
weir, policy priority: total throughput 0.97 of alone
  web    latency            40 %    31 %   99.5     100 %    1.50    13.0   5 MiB  12 % off
  big    standard        25-50 %                                                    refused
  batch  opportunistic              66 %   66.0      66 %    1.50    4.50   5 MiB

web answers 99 of 100 requests within 12.1 ms alone, 80.0 ms as goroutine pools under the OS,
13.0 ms under weir's priority.

batch meanwhile runs, against alone, at 42 % as goroutine pools under the OS, 66 % under weir's
priority.
`
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	for line := range strings.Lines(b.String()) {
		if len(line) > 101 {
			t.Errorf("%d characters: %q", len(line), line)
		}
	}
}

// TestSharePrecision holds that every job has the precision that the file, or in its place the
// command line, gives it, as processes of their own too.
func TestSharePrecision(t *testing.T) {
	model := filepath.Join(t.TempDir(), "mobilenetv2.onnx")
	if c := weir(t, "model", "new", "mobilenetv2", model); c.code != 0 {
		t.Fatal(c.talk)
	}
	path := filepath.Join(t.TempDir(), "s.yaml")
	text := "duration: 20s\njobs:\n"
	for _, job := range []string{"name: a", "name: b, precision: auto",
		"name: c, precision: fp32"} {
		text += "  - {" + job + ", model: " + model + ", iterations: 1}\n"
	}
	if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
		t.Fatal(err)
	}
	half := "fp32"
	if kernels.Target(device.Info{}).Features().BF16 {
		half = "bf16"
	}
	for name, tc := range map[string]struct {
		args []string
		want [3]string
	}{
		"file": {[]string{"--compare", "processes"}, [3]string{"fp32", half, "fp32"}},
		"all":  {[]string{"--precision", "auto"}, [3]string{half, half, half}},
		"one each": {[]string{"--precision", "a=auto", "--precision", "b=fp32"},
			[3]string{half, "fp32", "fp32"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := done(
				t,
				append([]string{"share", path, "--no-solo", "--json"}, tc.args...)...).object(t)
			for _, phase := range m["phases"].([]any) {
				for i, j := range phase.(map[string]any)["jobs"].([]any) {
					if got := j.(map[string]any)["precision"]; got != tc.want[i] {
						t.Errorf("job %d has precision %v, want %s", i, got, tc.want[i])
					}
				}
			}
		})
	}
	for flag, want := range map[string]string{"int4": "want fp32, bf16 or auto",
		"x=auto": `no job "x"`, "a=": "want fp32"} {
		if c := weir(
			t,
			"share",
			path,
			"--precision",
			flag,
		); c.code != 2 ||
			!strings.Contains(c.talk, want) {
			t.Errorf("--precision %s: exit code %d, %q", flag, c.code, c.talk)
		}
	}
}
