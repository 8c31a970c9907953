package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestSetJobOfScenario changes the share of a job of weir share while it runs, by command; what
// does not fit is refused with both numbers, and a run that was killed is in nobody's way.
func TestSetJobOfScenario(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no runtime folder")
	}
	dir, err := os.MkdirTemp("", "weir") // a socket's path is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	t.Setenv("WEIR_RUNTIME_DIR", dir)
	stale := filepath.Join(dir, "share-1.sock")
	path := filepath.Join(t.TempDir(), "s.yaml")
	if err := os.WriteFile(path, fmt.Appendf(nil, `
device: cpu:0
policy: fair
duration: 10m
memory: 64MiB
jobs:
  - {name: reader, model: %q, memory: 8MiB, arrival: {poisson: 50}}
  - {name: other, model: %[1]q, memory: 32MiB, arrival: {closed: 1}}
`, digitsFile(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ran := make(chan string, 1)
	go func() {
		var out, talk bytes.Buffer
		code := execute(ctx, []string{"share", path, "--no-solo", "--no-cache"}, nil, &out, &talk)
		ran <- fmt.Sprint(code, talk.String())
	}()
	set := func(args ...string) (int, string) {
		var out, talk bytes.Buffer
		code := execute(t.Context(), append([]string{"set"}, args...), nil, &out, &talk)
		return code, out.String() + talk.String()
	}
	const now = "reader: memory 16MiB, compute 0.25, limit 1, class latency"
	for end := time.Now().Add(time.Minute); ; time.Sleep(5 * time.Millisecond) {
		code, got := set("reader", "--memory", "16MiB", "--compute", "0.25", "--class", "latency")
		if code == 0 && strings.Contains(got, now) {
			break
		}
		select {
		case said := <-ran:
			t.Fatalf("the run has ended: %s", said)
		default:
		}
		if time.Now().After(end) {
			t.Fatalf("exit code %d: %s", code, got)
		}
	}
	if err := os.WriteFile(stale, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args []string
		code int
		text []string
	}{
		{[]string{"reader", "--memory", "60MiB"}, 1, []string{"60MiB", "32MiB"}},
		{[]string{"reader", "--memory", "1KiB"}, 1, []string{"needs", "cap 1KiB"}},
		{[]string{"reader", "--compute", "2"}, 2, []string{"compute"}},
		{[]string{"reader", "--limit", "0.5", "--json"}, 0,
			[]string{`"limit": 0.5`, `"memory_cap_bytes": 16777216`}},
		{[]string{"nobody", "--compute", "0.5"}, 1, []string{"no agent is running"}},
	} {
		code, got := set(tc.args...)
		for _, text := range tc.text {
			if code != tc.code || !strings.Contains(got, text) {
				t.Errorf("set %q: exit code %d, want %d with %q: %s", tc.args, code, tc.code, text,
					got)
			}
		}
	}
	cancel()
	if got := <-ran; !strings.Contains(got, "130") && !strings.Contains(got, "stopped") {
		t.Errorf("the run ends with %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, scenarioSockets)); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
