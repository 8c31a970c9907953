package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/agent"
)

// lane is what the fake device has recorded of one process.
type lane struct {
	PID      uint32
	DeviceNS int64 `json:"device_ns"`
	WaitedNS int64 `json:"waited_ns"`
	Finished int64
}

// lanes asks the fake device, by process.
func lanes(t *testing.T, driver string) map[uint32]lane {
	t.Helper()
	out, err := exec.Command(filepath.Join(driver, "bin", "smi")).Output()
	var all struct{ Processes []lane }
	if err == nil {
		err = json.Unmarshal(out, &all)
	}
	if err != nil {
		t.Fatalf("smi: %v: %s", err, out)
	}
	of := map[uint32]lane{}
	for _, l := range all.Processes {
		of[l.PID] = l
	}
	return of
}

// TestExecFillsGaps runs a program with kernels of 100 us and pauses of 200 us, and an
// opportunistic flood of kernels of 10 us beside it. By the device's own record the program waits
// for the flood for less than a twentieth of the time that it holds the device, so that it keeps
// 95 percent of its pace, and the flood has some of the pauses. How much of them hangs on the host,
// at whose pace its kernels follow one another there, and on how often the program seemed slower
// for it: between a hundredth and a third. With WEIR_LONG it is to be a tenth.
func TestExecFillsGaps(t *testing.T) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_SWITCH_US", "1")
	driver := compiledDriver(t)
	start := func(args ...string) {
		t.Helper()
		cmd, out := s.command(args...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			if t.Failed() {
				t.Logf("%s", out)
			}
		})
	}
	start("agent", "--fake-gpu", "--policy", "priority:fill=0.5,switch=1us")
	s.eventually("the agent answers", func() bool { return s.snapshot() != nil })
	for i, argv := range [][]string{{"latency", "pauses", "60"},
		{"opportunistic", "launch_storm", "60", "10", "10", "eager"}} {
		argv[1] = filepath.Join(driver, "bin", argv[1])
		start(append([]string{"exec", "--fake-gpu", "--memory", "1GiB", "--class", argv[0], "--"},
			argv[1:]...)...)
		s.eventually("it launches", func() bool {
			j := s.jobs()
			return len(j) == i+1 && j[i].Launches > 100
		})
	}
	const enough = 500 * time.Millisecond
	part := 0.002
	if os.Getenv("WEIR_LONG") != "" {
		part = 0.1
	}
	var from []agent.JobSnapshot
	var was map[uint32]lane
	s.eventually("pauses are filled", func() bool {
		jobs, now := s.jobs(), lanes(t, driver)
		if len(jobs) < 2 {
			return false
		}
		if from == nil {
			from, was = jobs, now
			return false
		}
		held := jobs[0].DeviceSeconds - from[0].DeviceSeconds
		gaps := held - (jobs[0].UsedSeconds - from[0].UsedSeconds)
		passed := jobs[1].PassedSeconds - from[1].PassedSeconds
		if held < enough.Seconds() {
			return false
		}
		holder, filler := jobs[0].Processes[0].PID, jobs[1].Processes[0].PID
		waited := float64(now[holder].WaitedNS-was[holder].WaitedNS) / 1e9
		filled := min(passed, float64(now[filler].DeviceNS-was[filler].DeviceNS)/1e9)
		t.Logf("of %.3f s held the program waited %.4f s, and %.3f s of %.3f s are filled", held,
			waited, filled, gaps)
		if waited > held/20 {
			t.Errorf("the program waits for the device for %.3f s of %.3f s", waited, held)
		}
		from, was = jobs, now
		return filled >= part*gaps
	})
}
