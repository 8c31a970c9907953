package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/agent"
)

// freezing is a stage with a program that checks its memory by value until its input ends.
type freezing struct {
	*stage
	driver string
	cmd    *exec.Cmd
	out    *bytes.Buffer
	in     io.Closer
}

// newFreezing starts one of two threads of 40 MiB each, on a device of 256 MiB.
func newFreezing(t *testing.T, agentFlags ...string) *freezing {
	return newFreezingWith(t, agentFlags)
}

// newFreezingWith is newFreezing with further flags of exec.
func newFreezingWith(t *testing.T, agentFlags []string, execFlags ...string) *freezing {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_MEMORY", "256MiB")
	t.Setenv("WEIR_FAKE_CONTEXT", "16MiB")
	if len(agentFlags) > 0 {
		a, _ := s.command(append([]string{"agent", "--fake-gpu"}, agentFlags...)...)
		if err := a.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			s.killAgent(syscall.SIGTERM)
			_ = a.Wait()
		})
		s.eventually("the agent answers", func() bool { return s.snapshot() != nil })
	}
	driver, _, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := &freezing{stage: s, driver: driver}
	args := append([]string{"exec", "--fake-gpu", "--oversubscribe", "--name", "moved", "--memory",
		"200MiB"}, execFlags...)
	f.cmd, f.out = s.command(append(args, "--", f.program("moved"), "2", "40")...)
	in, err := f.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.in = in
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		jobs := s.jobs()
		_ = f.cmd.Process.Kill()
		_ = f.cmd.Wait()
		if t.Failed() {
			t.Logf("the program, of jobs %+v: %s", jobs, f.out)
		}
	})
	s.eventually("the program launches", func() bool {
		j := s.jobs()
		return len(j) > 0 && j[0].Launches > 4
	})
	return f
}

func (f *freezing) program(name string) string { return filepath.Join(f.driver, "bin", name) }

// weir runs a command and returns what it prints.
func (f *freezing) weir(code int, args ...string) string {
	f.t.Helper()
	cmd, out := f.command(args...)
	if _ = cmd.Run(); cmd.ProcessState.ExitCode() != code {
		f.t.Errorf("weir %v: exit code %d, want %d: %s", args, cmd.ProcessState.ExitCode(), code,
			out)
	}
	return out.String()
}

// freeze freezes the program and returns what was moved.
func (f *freezing) freeze() agent.FreezeReport {
	f.t.Helper()
	var r agent.FreezeReport
	out := f.weir(0, "freeze", "moved", "--json")
	if err := json.Unmarshal([]byte(out), &r); err != nil || r.State != "frozen" ||
		r.AwayBytes < 80<<20 || r.AwayBytes != r.MovedBytes {
		f.t.Fatalf("freeze says %s, %v", out, err)
	}
	return r
}

// ends ends the program, which must have found nothing wrong.
func (f *freezing) ends() {
	f.t.Helper()
	_ = f.in.Close()
	if err := f.cmd.Wait(); err != nil || !strings.Contains(f.out.String(), `"wrong": 0}`) {
		f.t.Errorf("%v: %s", err, f.out)
	}
}

func (f *freezing) says(got string, want ...string) {
	f.t.Helper()
	for _, w := range want {
		if !strings.Contains(got, w) {
			f.t.Errorf("%q does not say %q", got, w)
		}
	}
}

// TestFreezeAndThaw moves a program's memory away by command, has another job use the room, and
// brings it back when that has ended.
func TestFreezeAndThaw(t *testing.T) {
	f := newFreezing(t)
	r := f.freeze()
	if len(r.Stays) != 1 || r.Stays[0].What != "contexts and modules" || r.Device != "cuda:0" {
		t.Errorf("freeze says %+v", r)
	}
	j := f.jobs()[0]
	if j.State != "frozen" || j.MemoryAwayBytes != r.AwayBytes || j.MemoryUsedBytes > 20<<20 {
		t.Errorf("a frozen job is %+v", j)
	}
	launched := j.Launches
	f.says(f.weir(1, "freeze", "moved"), "is frozen already", "weir thaw moved")
	f.says(f.weir(1, "set", "moved", "--compute", "0.5"), "is frozen")
	f.says(f.weir(1, "thaw", "other"), "there is none")
	f.says(f.weir(2, "thaw", "moved", "--device", "gpu0"), "want cuda:N")
	// 120 MiB were not to be had beside 200 of 256.
	other, out := f.command("exec", "--fake-gpu", "--name", "other", "--memory", "120MiB", "--",
		f.program("hold"), "90")
	in, err := other.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := other.Start(); err != nil {
		t.Fatal(err)
	}
	fmt.Fprintln(in, "begin")
	f.eventually("the other job has its memory", func() bool {
		j := f.jobs()
		return len(j) > 1 && j[1].MemoryUsedBytes >= 90<<20
	})
	f.says(f.weir(1, "thaw", "moved"), "stays frozen", "256MiB")
	f.says(f.weir(1, "freeze", "other"), "--oversubscribe")
	if now := f.jobs()[0]; now.State != "frozen" || now.Launches != launched {
		t.Errorf("a job that stays frozen is %+v", now)
	}
	thaw, said := f.command("thaw", "moved", "--wait")
	if err := thaw.Start(); err != nil {
		t.Fatal(err)
	}
	_ = in.Close()
	if err := other.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
	if err := thaw.Wait(); err != nil {
		t.Errorf("%v: %s", err, said)
	}
	f.says(said.String(), "moved: running", "0B away")
	f.says(f.weir(1, "thaw", "moved"), "is not frozen")
	f.eventually("the job goes on", func() bool { return f.jobs()[0].Launches > launched+4 })
	f.freeze()
	f.says(f.weir(0, "thaw", "moved"), "moved: running")
	f.ends()
}

// TestFreezeBesidePeers freezes a program that has opened memory of another process: that stays on
// the device and is named. The other one is killed while the program is frozen, and all bytes are
// right after the thaw, of the memory of the process that is gone too.
func TestFreezeBesidePeers(t *testing.T) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_CONTEXT", "16MiB")
	driver, _, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f := &freezing{stage: s, driver: driver}
	f.cmd, f.out = s.command("exec", "--fake-gpu", "--oversubscribe", "--name", "moved",
		"--memory", "200MiB", "--", f.program("inherit"))
	in, err := f.cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	f.in = in
	if err := f.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	processes := func(n int, least uint64) func() bool {
		return func() bool {
			j := s.jobs()
			return len(j) == 1 && len(j[0].Processes) == n && j[0].MemoryUsedBytes >= least
		}
	}
	// two contexts, and what both have allocated
	s.eventually("both processes have their memory", processes(2, 41<<20))
	var r agent.FreezeReport
	s.eventually("the memory is opened and the rest is moved", func() bool {
		out := f.weir(0, "freeze", "moved", "--json")
		if err := json.Unmarshal([]byte(out), &r); err != nil {
			t.Fatal(err)
		}
		for _, stays := range r.Stays {
			if stays.What == "memory of other processes" {
				return true
			}
		}
		f.weir(0, "thaw", "moved")
		return false
	})
	if r.AwayBytes != 8<<20 {
		t.Errorf("freeze says %+v", r)
	}
	for _, stays := range r.Stays {
		if stays.What == "memory of other processes" && stays.Bytes != 1<<20 {
			t.Errorf("freeze says %+v", r)
		}
	}
	fmt.Fprintln(in, "alone")
	s.eventually("the other process is gone", processes(1, 1))
	f.says(f.weir(0, "thaw", "moved"), "moved: running")
	f.ends()
}

// TestFreezeWithoutRoomOnTheHost holds that a freeze that does not fit moves nothing.
func TestFreezeWithoutRoomOnTheHost(t *testing.T) {
	f := newFreezing(t, "--host-memory", "30MiB")
	f.says(f.weir(1, "freeze", "moved"), "stays where it is", "of the host's memory",
		"--host-memory")
	if j := f.jobs()[0]; j.State == "frozen" || j.MemoryAwayBytes != 0 {
		t.Errorf("a job that was not frozen is %+v", j)
	}
	f.ends()
}

// TestFreezeSpills freezes a program whose memory the host has no room for into a folder.
func TestFreezeSpills(t *testing.T) {
	folder := t.TempDir()
	f := newFreezingWith(t, []string{"--host-memory", "70MiB"}, "--spill", folder)
	if r := f.freeze(); r.SpilledBytes == 0 || r.SpilledBytes >= r.AwayBytes {
		t.Errorf("freeze says %+v", r)
	}
	if left, err := os.ReadDir(folder); err != nil || len(left) > 0 {
		t.Errorf("in the folder by name: %v, %v", left, err)
	}
	f.says(f.weir(0, "thaw", "moved"), "moved: running")
	f.says(f.weir(0, "freeze", "moved"), "on disk: ")
	f.says(f.weir(0, "thaw", "moved"), "moved: running")
	f.ends()
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"--spill", folder}, "--oversubscribe"},
		{[]string{"--oversubscribe", "--spill", filepath.Join(folder, "none")}, "no such file"},
		{[]string{"--oversubscribe", "--spill", os.Args[0]}, "not a directory"},
	} {
		code, out := f.exec(append(c.args, "--", "true")...)
		if code != 125 {
			t.Errorf("%v: exit code %d", c.args, code)
		}
		f.says(out, c.says)
	}
}

// TestFreezeSurvivesDeaths kills the agent, and then the program, of a frozen job: the memory comes
// back with the agent's death, and is free with the program's.
func TestFreezeSurvivesDeaths(t *testing.T) {
	f := newFreezing(t)
	f.freeze()
	launched := f.jobs()[0].Launches
	f.killAgent(syscall.SIGKILL)
	f.eventually("the job goes on under the next agent", func() bool {
		j := f.jobs()
		return len(j) == 1 && j[0].State != "frozen" && j[0].Launches > launched+4 &&
			j[0].MemoryUsedBytes > 80<<20
	})
	f.freeze()
	if err := syscall.Kill(int(f.jobs()[0].Processes[0].PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := f.cmd.Wait(); err == nil {
		t.Error("a program that was killed ends well")
	}
	f.eventually("the job ends", func() bool { return len(f.jobs()) == 0 })
	code, out := f.exec("--memory", "250MiB", "--", "true")
	if code != 0 {
		t.Errorf("a job after it: exit code %d: %s", code, out)
	}
}
