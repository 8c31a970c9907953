package main

import (
	"bytes"
	"context"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestJudge holds the verdict, its interval and its p against tables of the binomial distribution.
func TestJudge(t *testing.T) {
	ones := func(n int) []float64 {
		s := make([]float64, n)
		for i := range s {
			s[i] = 1
		}
		return s
	}
	many := ones(5000) // of which no float64 has 2^n; a third below, the others above
	for i := range many {
		many[i] = 0.9
		if i >= len(many)/3 {
			many[i] = 1.1
		}
	}
	fifteen := []float64{0.98, 1.03, 0.91, 1.08, 0.95, 1.01, 0.99, 1.02, 0.97, 1.05, 0.93, 1.04,
		0.94, 1.06, 0.96}
	six := []float64{0.8, 0.85, 0.81, 0.84, 0.82, 0.83}
	for _, c := range []struct {
		first, second []float64
		want          judgement
	}{
		{six, ones(6), judgement{faster, 0.825, 0.8, 0.85, 0.96875, 0.03125}},
		{ones(6), six, judgement{slower, 1 / 0.825, 1 / 0.85, 1 / 0.8, 0.96875, 0.03125}},
		{six[:5], ones(5), judgement{Verdict: tooFew, Ratio: 0.82}},
		// n = 15: the 4th and the 12th, 1 - 2 x 0.017578; 8 below and 7 above
		{fifteen, ones(15), judgement{noDifference, 0.99, 0.95, 1.04, 0.964844, 1}},
		{ones(8), ones(8), judgement{noDifference, 1, 1, 1, 1 - 2.0/256, 1}},
		{many, ones(5000), judgement{slower, 1.1, 1.1, 1.1, 0.9505, 0}},
		// 2500 of each: the interval is between numbers 2431 and 2570
		{append(rising(2500, 0.5), rising(2500, 1)...), ones(5000), judgement{noDifference, 1,
			0.5 + 0.5*2430/2500, 1 + 0.5*69/2500, 0.9506, 1}},
	} {
		got := judge(c.first, c.second)
		near := func(a, b float64) bool { return math.Abs(a-b) < 0.002 }
		if got.Verdict != c.want.Verdict || !near(got.Ratio, c.want.Ratio) ||
			!near(got.Low, c.want.Low) || !near(got.High, c.want.High) ||
			!near(got.Confidence, c.want.Confidence) || !near(got.P, c.want.P) {
			t.Errorf("%v against %v: %+v, want %+v", c.first, c.second, got, c.want)
		}
	}
}

// rising are n numbers from lo on, evenly up to 0.5 more.
func rising(n int, lo float64) []float64 {
	s := make([]float64, n)
	for i := range s {
		s[i] = lo + 0.5*(float64(i)+0.5)/float64(n)
	}
	return s
}

// TestCompare compares with a precision and with another program: both have all turns, and the
// figures are those of the rounds.
func TestCompare(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv(commandEnv, "1") // which turns this program into the command
	model := digitsFile(t)
	t.Setenv("TMPDIR", t.TempDir())
	for _, with := range []string{"fp32", exe} {
		res := done(t, "bench", model, "--compare", with, "--rounds", "6", "--runs", "11",
			"--warmup", "1", "--json").object(t, "name", "threads", "precision", "device",
			"confidence", "ratio_low", "ratio_high", "p")
		other := res["other"].(map[string]any)
		for _, side := range []map[string]any{res, other} {
			if rounds := side["rounds_ms"].([]any); len(rounds) != 6 ||
				side["min_ms"].(float64) <= 0 ||
				side["median_ms"].(float64) < side["min_ms"].(float64) {
				t.Errorf("%s: %v", with, side)
			}
		}
		if res["rounds"] != 6.0 || res["runs_per_round"] != 2.0 || res["confidence"] != 0.96875 {
			t.Errorf("%s: %v", with, res)
		}
		if left, _ := os.ReadDir(os.TempDir()); len(left) > 0 {
			t.Errorf("%s: %v is left", with, left)
		}
	}
	text := done(t, "bench", model, "--compare", "fp32", "--rounds", "2", "--runs", "2").out
	if !strings.Contains(text, "weir in fp32") || !strings.Contains(text, "Too few rounds") {
		t.Errorf("got %s", text)
	}
}

// TestCompareRuntime compares with ONNX Runtime, where conformance/peer has installed it.
func TestCompareRuntime(t *testing.T) {
	find := exec.Command("python3", "-c", "import environment; "+
		"print(environment.environment_directory())")
	find.Dir = filepath.Join(root, "internal", "conformance", "peer")
	where, err := find.Output()
	dir := strings.TrimSpace(string(where))
	if err != nil {
		t.Skip("no python3:", err)
	}
	if _, err := os.Stat(filepath.Join(dir, "complete")); err != nil {
		t.Skip("the peer is not installed:", err)
	}
	t.Setenv("PATH", filepath.Join(dir, "bin")+":"+os.Getenv("PATH"))
	res := done(t, "bench", digitsFile(t), "--compare", onnxRuntime, "--rounds", "6", "--json").
		object(t)
	other := res["other"].(map[string]any)
	if !strings.HasPrefix(other["name"].(string), "onnxruntime 1.") ||
		len(other["rounds_ms"].([]any)) != 6 || other["min_ms"].(float64) <= 0 {
		t.Errorf("got %v", res)
	}
}

// TestCompareNeeds holds that what is missing for a comparison is said with the next step.
func TestCompareNeeds(t *testing.T) {
	model := digitsFile(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip(err)
	}
	bare := t.TempDir() // a python3 without packages
	if err := os.WriteFile(filepath.Join(bare, "python3"),
		[]byte("#!/bin/sh\nexec "+python+" -I -S \"$@\"\n"), 0o777); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path string
		args []string
		want string
	}{
		{bare + ":" + os.Getenv("PATH"), []string{"--compare", openVINO},
			"python3 -m pip install openvino"},
		{t.TempDir(), []string{"--compare", onnxRuntime}, "needs python3"},
		{"", []string{"--compare", "nonesuch"}, "another weir"},
		{"", []string{"--compare", ""}, "--compare is empty"},
		{"", []string{"--compare", "bf17x"}, "bf16"},
		{"", []string{"--rounds", "3"}, "--compare"},
		{"", []string{"--compare", "fp32", "--rounds", "0"}, "--rounds 0"},
		{"", []string{"--compare", "fp32", "--profile"}, "choose one"},
	} {
		t.Setenv("PATH", c.path)
		got := weir(t, append([]string{"bench", model}, c.args...)...)
		if got.code != 2 || !strings.Contains(got.talk, c.want) || got.out != "" {
			t.Errorf("%v: exit code %d, %q, want %q", c.args, got.code, got.talk, c.want)
		}
	}
	if c := weir(t, "bench", "-", "--compare", "fp32"); c.code != 2 ||
		!strings.Contains(c.talk, "give a file") {
		t.Errorf("bench -: exit code %d, %q", c.code, c.talk)
	}
}

// TestCompareEnded holds that what a runtime says before it ends is shown, also what it says last.
func TestCompareEnded(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "python3"), []byte("#!/bin/sh\n"+
		"exec >&-\nwhile read -r line; do :; done\necho no such instruction >&2\n"),
		0o777); err != nil {
		t.Fatal(err)
	}
	model := digitsFile(t)
	t.Setenv("PATH", dir)
	c := weir(t, "bench", model, "--compare", openVINO)
	if c.code != 1 || !strings.Contains(c.talk, "python3 ended: no such instruction") {
		t.Errorf("exit code %d, %q", c.code, c.talk)
	}
}

// interrupted runs a command line whose context a signal ends after so many looks at it.
func interrupted(t *testing.T, looks int64, args ...string) (c called, left int64) {
	t.Helper()
	inner, end := context.WithCancelCause(t.Context())
	ctx := &fewLooks{Context: inner, end: end}
	ctx.left.Store(looks)
	var out, talk bytes.Buffer
	code := execute(ctx, args, nil, &out, &talk)
	return called{code, out.String(), talk.String(), nil}, ctx.left.Load()
}

// TestInterruptedCompare holds that the rounds until Ctrl-C are shown.
func TestInterruptedCompare(t *testing.T) {
	const many = 1 << 30
	args := []string{"bench", digitsFile(t), "--compare", "fp32", "--warmup", "0", "--json",
		"--rounds"}
	_, left := interrupted(t, many, append(args, "1")...)
	c, _ := interrupted(t, many-left+100, append(args, "1000000")...)
	m := c.object(t)
	n := m["rounds"].(float64)
	if c.code != 130 || n < 1 || n > 100 || m["median_ms"].(float64) <= 0 ||
		len(m["other"].(map[string]any)["rounds_ms"].([]any)) != int(n) {
		t.Errorf("exit code %d, %v, %q", c.code, m, c.talk)
	}
}

// TestInterruptedProfile holds that Ctrl-C in the middle of a profile does not lose the runs before
// it.
func TestInterruptedProfile(t *testing.T) {
	const many = 1 << 30
	args := []string{"bench", digitsFile(t), "--runs", "3", "--warmup", "0", "--json"}
	_, left := interrupted(t, many, args...)
	c, _ := interrupted(t, many-left+5, append(args, "--profile")...)
	if m := c.object(t); c.code != 130 || m["runs"] != 3.0 || m["profile"] != nil {
		t.Errorf("exit code %d, %v, %q", c.code, m, c.talk)
	}
}
