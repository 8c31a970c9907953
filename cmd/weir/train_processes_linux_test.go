package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// children are the processes that any thread of a process has started.
func children(t *testing.T, pid int) (pids []int) {
	t.Helper()
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		t.Fatal(err)
	}
	for _, list := range lists {
		text, err := os.ReadFile(list)
		if err != nil && !os.IsNotExist(err) && !errors.Is(err, syscall.ESRCH) {
			t.Fatal(err)
		}
		for _, word := range strings.Fields(string(text)) {
			child, err := strconv.Atoi(word)
			if err != nil {
				t.Fatal(err)
			}
			pids = append(pids, child)
		}
	}
	return pids
}

// gone waits until a process is, and reaps nothing.
func gone(t *testing.T, pid int) {
	t.Helper()
	for range 4000 {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || strings.Contains(string(stat), ") Z ") {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Errorf("process %d is still there", pid)
}

// TestTrainProcesses: several processes train to the digest of one. When a worker or the leader is
// killed, the others end by themselves, what was made is kept, an error says who is gone, and
// --resume comes to the digest of a run that nobody killed, also by another number of processes.
func TestTrainProcesses(t *testing.T) {
	shards := []string{"steps: 40", "shards: 4\nsteps: 40"}
	want := done(t, "train", trainFolder(t, shards...), "--json", "--threads", "1").
		object(t, "digest")
	recipe := trainFolder(t, shards...)
	for i, n := range []int{2, 3, 2, 4} {
		cmd, talk := apart(t, nil, "train", recipe, "--resume", "--processes", strconv.Itoa(n),
			"--threads", "1")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for before := len(checkpoints(t, recipe)); ; time.Sleep(time.Millisecond) {
			if list := checkpoints(t, recipe); len(list) > 0 && (before == 0 || changed(list, i)) {
				break
			}
			if cmd.Process.Signal(syscall.Signal(0)) != nil {
				t.Fatal(talk)
			}
		}
		others := children(t, cmd.Process.Pid)
		if len(others) != n-1 {
			t.Fatalf("%d processes have a leader with %d workers", n, len(others))
		}
		victim := cmd.Process.Pid
		if i%2 == 0 {
			victim = others[len(others)-1]
		}
		if err := syscall.Kill(victim, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if cmd.Wait() == nil {
			t.Fatalf("the run ended before process %d was killed:\n%s", victim, talk)
		}
		for _, pid := range others {
			gone(t, pid)
		}
		if i%2 == 0 && (!strings.Contains(talk.String(), "is gone") || !strings.Contains(
			talk.String(), fmt.Sprintf("(process %d): signal: killed", victim))) {
			t.Errorf("worker %d was killed, and the run says:\n%s", victim, talk)
		}
	}
	cmd, talk := apart(t, nil, "train", recipe, "--resume", "--processes", "2", "--json",
		"--trace", filepath.Join(filepath.Dir(recipe), "trace.json"))
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %s", err, talk)
	}
	got := called{out: string(out)}.object(t, "digest", "processes", "overlap_share")
	if got["digest"] != want["digest"] || got["processes"] != 2. {
		t.Errorf("killed four times it comes to %v, undisturbed to %v", got["digest"],
			want["digest"])
	}
	text, err := os.ReadFile(filepath.Join(filepath.Dir(recipe), "trace.json"))
	for _, part := range []string{"process 1", "shard 3", "all-reduce"} {
		if err != nil || !strings.Contains(string(text), part) {
			t.Errorf("the trace has no %q: %v", part, err)
		}
	}
}

// TestTrainProcessesRefused: processes that the shards are too few for, and workers that nobody
// started, are errors that say what to do.
func TestTrainProcessesRefused(t *testing.T) {
	for says, args := range map[string][]string{
		"shards: 2":               {"--processes", "2"},
		"want 1 to 64":            {"--processes", "65"},
		"it is for weir to start": {"--processes", "2", "--rank", "1"},
		"before their number":     {"--processes", "2", "--rank", "2"},
	} {
		cmd, talk := apart(t, nil, append([]string{"train", trainFolder(t)}, args...)...)
		if cmd.Run() == nil || !strings.Contains(talk.String(), says) {
			t.Errorf("%v: %s, want %q", args, talk, says)
		}
	}
}
