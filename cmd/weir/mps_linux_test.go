package main

import (
	"bufio"
	"encoding/json"
	"math"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// mpsStage is a stage whose fake driver can have a control daemon.
type mpsStage struct {
	*stage
	bin string // folder of the fake driver's programs
}

func newMPSStage(t *testing.T) mpsStage {
	s := newStage(t)
	driver, _, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return mpsStage{s, filepath.Join(driver, "bin")}
}

// startMPS starts the control daemon, which ends with the test.
func (s mpsStage) startMPS() {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, fakecuda.Control), "-f")
	out, err := cmd.StdoutPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		s.t.Fatalf("the daemon said %q: %v", line, err)
	}
}

// weir runs a command to its end and returns all that it said.
func (s mpsStage) weir(want int, args ...string) string {
	s.t.Helper()
	cmd, out := s.command(args...)
	if _ = cmd.Run(); cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != want {
		s.t.Errorf("weir %q: %v, want exit code %d: %s", args, cmd.ProcessState, want, out)
	}
	return out.String()
}

// train starts a job that always has work.
func (s mpsStage) train(name, compute string) {
	s.t.Helper()
	cmd, out := s.command("exec", "--fake-gpu", "--name", name, "--memory", "2GiB", "--compute",
		compute, "--", filepath.Join(s.bin, "train"), "0", "10000", "64")
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("%s: %s", name, out)
		}
	})
}

// ledger is what the device says of the time that it spent.
type ledger struct {
	NowNS     uint64 `json:"now_ns"`
	Switches  uint64
	Processes []struct {
		PID      int
		DeviceNS uint64 `json:"device_ns"`
		Finished uint64
	}
}

func (s mpsStage) ledger() (l ledger) {
	s.t.Helper()
	out, err := exec.Command(filepath.Join(s.bin, "smi")).Output()
	if err == nil {
		err = json.Unmarshal(out, &l)
	}
	if err != nil {
		s.t.Fatalf("%v: %s", err, out)
	}
	return l
}

// multiprocessors is how many of 64 a program may use that begins under a share of a quarter, with
// more in its environment.
func (s mpsStage) multiprocessors(env ...string) (int, string) {
	s.t.Helper()
	args := slices.Concat([]string{"--memory", "1GiB", "--name", "part", "--compute", "0.25", "--",
		"env"}, env, []string{filepath.Join(s.bin, "clients"), "1", "1"})
	code, out := s.exec(args...)
	var got struct{ Context int }
	last := out[strings.LastIndexByte(strings.TrimSpace(out), '\n')+1:]
	if code == 0 && json.Unmarshal([]byte(last), &got) != nil {
		s.t.Errorf("%q: %s", env, out)
	}
	return got.Context, out
}

func says(t *testing.T, got string, want ...string) {
	t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			t.Errorf("%q does not say %q", got, w)
		}
	}
}

// TestExecUnderMPS: under the policy mps two programs run at once, each on its part of the device
// and no faster, whatever they say themselves; a program that is no client has no share; what a
// change does not reach is said.
func TestExecUnderMPS(t *testing.T) {
	s := newMPSStage(t)
	says(t, s.weir(1, "agent", "--fake-gpu", "--policy", "mps"), "needs limit, overlap",
		"nvidia-cuda-mps-control")
	s.startMPS()
	cmd, out := s.command("agent", "--fake-gpu", "--policy", "mps")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Cancel()
		_ = cmd.Wait()
		if t.Failed() {
			t.Logf("agent: %s", out)
		}
	})
	s.eventually("the agent serves", func() bool { return s.snapshot() != nil })
	for _, env := range [][]string{{"A=b"}, {"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE=100"},
		{"-u", "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"}} {
		n, said := s.multiprocessors(env...)
		if says(t, said, "at most 25 % of the GPU"); n != 16 {
			t.Errorf("%q: a quarter of the device is %d multiprocessors: %s", env, n, said)
		}
	}
	n, said := s.multiprocessors("CUDA_MPS_PIPE_DIRECTORY=" + t.TempDir())
	if says(t, said, "needs MPS"); n != 0 {
		t.Errorf("a program without MPS has %d multiprocessors", n)
	}
	says(t, s.weir(1, "policy", "--fake-gpu", "fgpu"), "needs partition")
	s.train("quarter", "0.25")
	s.train("rest", "0.75")
	var before ledger
	s.eventually("both have their part, at once", func() bool {
		now := s.ledger()
		if len(now.Processes) != 2 || len(before.Processes) != 2 {
			before = now
			return false
		}
		window := float64(now.NowNS - before.NowNS)
		if window < 400e6 {
			return false
		}
		var parts []float64
		for i, p := range now.Processes {
			parts = append(parts, float64(p.DeviceNS-before.Processes[i].DeviceNS)/window)
		}
		switches := now.Switches - before.Switches
		before = now
		slices.Sort(parts)
		t.Logf("parts %.4f of the device (fake)", parts)
		return switches == 0 && math.Abs(parts[0]-0.25) < 0.01 && math.Abs(parts[1]-0.75) < 0.03
	})
	says(t, s.weir(0, "top", "--fake-gpu"), "(25 %)", "(75 %)", "policy mps")
	says(t, s.weir(0, "set", "quarter", "--fake-gpu", "--compute", "0.2"), "compute 0.2",
		"keeps the 25 % of the GPU", "20 % hold for those that begin")
	says(t, s.weir(0, "policy", "--fake-gpu", "mps:percent=50"), "keeps the 25 % of the GPU")
	if said := s.weir(0, "policy", "--fake-gpu", "priority"); strings.Contains(said, "keeps") {
		t.Errorf("under priority %s", said)
	}
}
