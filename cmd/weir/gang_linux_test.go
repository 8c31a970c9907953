package main

import (
	"encoding/json"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestExecGangs runs two programs of two ranks each on two GPUs, crossing: the ranks of each wait
// for each other on their devices in each step, and the first of one program shares a GPU with the
// second of the other. Where the ranks take turns by themselves, each pair of turns that cross ends
// with a drain of 30 s.
func TestExecGangs(t *testing.T) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_GPUS", "2")
	_, example, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rendezvous := filepath.Join(filepath.Dir(example), "rendezvous")
	const steps = 100
	var all []*exec.Cmd
	var outs []fmt.Stringer
	for who, gang := range []string{"one", "other"} {
		words := filepath.Join(t.TempDir(), gang)
		for rank := range 2 {
			cmd, out := s.command("exec", "--fake-gpu", "--memory", "1GiB", "--gang", gang,
				"--ranks", "2", "--device", fmt.Sprint("cuda:", (who+rank)%2), "--", rendezvous,
				words, fmt.Sprint(rank), "2", fmt.Sprint(steps))
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			all, outs = append(all, cmd), append(outs, out)
		}
	}
	for i, cmd := range all {
		err := cmd.Wait()
		out := outs[i].String()
		var result struct {
			Steps int
			Worst float64 `json:"worst_ms"`
		}
		if at := strings.Index(out, "{"); err != nil || at < 0 ||
			json.Unmarshal([]byte(out[at:]), &result) != nil || result.Steps != steps {
			t.Fatalf("rank %d: %v: %s", i, err, out)
		}
		t.Logf("rank %d: longest step %.1f ms", i, result.Worst)
		if longest := time.Duration(result.Worst * 1e6); longest > 20*time.Second {
			t.Errorf("rank %d: a step took %v", i, longest)
		}
	}
}

// TestExecGangAllOrNone has a rank not fit: the one that fits is not started, and both say why.
func TestExecGangAllOrNone(t *testing.T) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_GPUS", "2")
	first, out := s.command("exec", "--fake-gpu", "--memory", "1GiB", "--gang", "big", "--ranks",
		"2", "--", "echo", "started")
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the first rank waits", func() bool { return len(s.jobs()) == 1 })
	code, why := s.exec("--memory", "1TiB", "--gang", "big", "--ranks", "2", "--device", "cuda:1",
		"--", "echo", "started")
	_ = first.Wait()
	for i, said := range []string{why, out.String()} {
		if strings.Contains(said, "started") ||
			!strings.Contains(said, "not enough device memory") {
			t.Errorf("rank %d said %q", 1-i, said)
		}
	}
	if a := first.ProcessState.ExitCode(); code != exitNotStarted || a != exitNotStarted {
		t.Errorf("exit codes %d and %d", a, code)
	}
	s.eventually("both are gone", func() bool { return len(s.jobs()) == 0 })
	if code, said := s.exec("--gang", "big/2", "--", "echo", "started"); code == 0 {
		t.Errorf("a gang with a slash in its name: %s", said)
	}
	if code, said := s.exec("--ranks", "2", "--", "echo", "started"); code == 0 {
		t.Errorf("ranks without a gang: %s", said)
	}
}
