package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/onnx"
)

// piped runs a command line with text on standard input.
func piped(t *testing.T, in string, args ...string) called {
	t.Helper()
	var out, talk bytes.Buffer
	code := execute(t.Context(), args, strings.NewReader(in), &out, &talk)
	return called{code, out.String(), talk.String(), nil}
}

// TestStandardStreams holds that - stands for standard input and output where a command reads or
// writes one file, with nothing else on standard output.
func TestStandardStreams(t *testing.T) {
	model := digitsFile(t)
	for mode, device := range map[string]string{"share": "cpu:0", "simulate": "h100"} {
		c := piped(t, "duration: 10s\njobs: [{name: a, model: "+model+", iterations: 3}]\n", mode,
			"-", "--no-solo", "--json", "--device", device)
		if c.code != 0 || c.object(t, "jobs")["jobs"].([]any)[0].(map[string]any)["name"] != "a" {
			t.Errorf("%s -: exit code %d, %s%s", mode, c.code, c.out, c.talk)
		}
		if c := piped(t, "jobs: 7", mode, "-"); c.code != 2 ||
			!strings.Contains(c.talk, "standard input: ") {
			t.Errorf("%s -: exit code %d, %s", mode, c.code, c.talk)
		}
	}
	page := filepath.Join(t.TempDir(), "page.html")
	c := piped(t, simulated, "simulate", "-", "--html", page)
	if text, err := os.ReadFile(page); c.code != 0 || err != nil ||
		!strings.Contains(string(text), "standard input in virtual time") {
		t.Errorf("exit code %d, %v, %s, %.200q", c.code, err, c.talk, text)
	}
	c = piped(t, string(digits.Model), "optimize", "-", "-")
	m, err := onnx.Decode([]byte(c.out), "", onnx.Options{})
	if c.code != 0 || err != nil || !strings.Contains(c.talk, "nodes: ") {
		t.Fatalf("optimize - -: exit code %d, %v, %s", c.code, err, c.talk)
	}
	defer m.Close()
	if c := piped(t, string(digits.Model), "optimize", "-", "-", "--json"); c.code != 2 ||
		c.out != "" {
		t.Errorf("optimize - - --json: exit code %d, %.80q", c.code, c.out)
	}
}

// TestOldTraceStays holds that a run which fails leaves the trace of the one before.
func TestOldTraceStays(t *testing.T) {
	path := filepath.Join(t.TempDir(), "trace.json")
	if err := os.WriteFile(path, []byte("old"), 0o666); err != nil {
		t.Fatal(err)
	}
	for _, flag := range []string{"--trace", "--html"} {
		c := weir(t, "share", flag, path, "--policy", "nice", scenarioFile(t, "64MiB", 0, 3))
		if text, err := os.ReadFile(path); c.code != 2 || err != nil || string(text) != "old" {
			t.Errorf("exit code %d; %s has %q, %v", c.code, flag, text, err)
		}
	}
}

// linked makes a file under two names and returns what holds, at the end, that the second still has
// what it had: that the first was replaced as a whole, not written in place.
func linked(t *testing.T, path string) (held func()) {
	t.Helper()
	other := path + ".linked"
	err := os.WriteFile(path, []byte("old"), 0o666)
	if err = errors.Join(err, os.Link(path, other)); err != nil {
		t.Skip(err)
	}
	return func() {
		t.Helper()
		if text, err := os.ReadFile(other); err != nil || string(text) != "old" {
			t.Errorf("%s was written in place: %d bytes, %v", path, len(text), err)
		}
	}
}

// TestPagesAreWhole holds that report pages replace what was there as a whole.
func TestPagesAreWhole(t *testing.T) {
	for _, command := range []string{"share", "simulate"} {
		page := filepath.Join(t.TempDir(), "page.html")
		old := linked(t, page)
		file := scenarioFile(t, "64MiB", 0, 3)
		if command == "simulate" {
			file = filepath.Join(t.TempDir(), "mix.yaml")
			if err := os.WriteFile(file, []byte(simulated), 0o666); err != nil {
				t.Fatal(err)
			}
		}
		done(t, command, file, "--html", page)
		text, err := os.ReadFile(page)
		if err != nil || !strings.HasSuffix(strings.TrimSpace(string(text)), "</html>") ||
			!strings.Contains(string(text), "weir "+command+" --html") {
			t.Errorf("%s: the page has %d bytes, %v", command, len(text), err)
		}
		old()
	}
}
