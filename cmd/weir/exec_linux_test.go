package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/weirgpu/weir/agent"
)

// commandVariable makes the test binary the command weir, for the processes that exec starts.
const commandVariable = "WEIR_TEST_COMMAND"

// It is looked at before TestMain, which belongs to the commands that run in the tests' own
// process.
var _ = func() bool {
	if os.Getenv(commandVariable) != "" {
		main()
	}
	return true
}()

// stage is a runtime folder with an agent of the fake driver, which weir exec starts.
type stage struct {
	t   *testing.T
	dir string
}

func newStage(t *testing.T) *stage {
	t.Helper()
	if testing.Short() {
		t.Skip("compiles C")
	}
	if _, err := exec.LookPath("cc"); err != nil {
		t.Skip("no C compiler")
	}
	// A socket's path is short.
	dir, err := os.MkdirTemp("", "weir")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_RUNTIME_DIR", dir)
	t.Setenv("WEIR_FAKE_DIR", filepath.Join(dir, "gpu"))
	t.Setenv(commandVariable, "1")
	s := &stage{t, dir}
	t.Cleanup(func() {
		s.killAgent(syscall.SIGTERM)
		_ = os.RemoveAll(dir)
	})
	compiledDriver(t) // before any command, whose time is limited, has to
	return s
}

// patience is how long tests wait for what is to come at last, on a host that does much else.
const patience = 5 * time.Minute

// command makes a weir command that runs in a process of its own.
func (s *stage) command(args ...string) (*exec.Cmd, *bytes.Buffer) {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	s.t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, os.Args[0], args...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.WaitDelay = time.Second
	return cmd, &out
}

// exec runs a program on the fake GPU and returns the exit code and all that was printed.
func (s *stage) exec(args ...string) (int, string) {
	s.t.Helper()
	cmd, out := s.command(append([]string{"exec", "--fake-gpu"}, args...)...)
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		s.t.Fatalf("%v: %s", err, out)
	}
	return cmd.ProcessState.ExitCode(), out.String()
}

// snapshot is what the agent says; nil if there is none.
func (s *stage) snapshot() *agent.Snapshot {
	c, err := agent.Dial(s.dir)
	if err != nil {
		return nil
	}
	defer c.Close()
	var last *agent.Snapshot
	if err := c.Watch(s.t.Context(), 0, func(x agent.Snapshot) error {
		last = &x
		return nil
	}); err != nil {
		return nil
	}
	return last
}

func (s *stage) jobs() []agent.JobSnapshot {
	if x := s.snapshot(); x != nil {
		return x.Devices[0].Jobs
	}
	return nil
}

// killAgent ends the agent, which is found by the lock that it holds.
func (s *stage) killAgent(sig syscall.Signal) {
	for _, j := range s.agents() {
		_ = syscall.Kill(j, sig)
	}
}

// agents finds the agents of this stage by their open lock.
func (s *stage) agents() []int {
	var pids []int
	links, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, l := range links {
		if to, err := os.Readlink(l); err == nil && to == filepath.Join(s.dir, "agent.lock") {
			var pid int
			if _, err := fmt.Sscanf(l, "/proc/%d/", &pid); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	return pids
}

func (s *stage) eventually(what string, f func() bool) {
	s.t.Helper()
	const pause = 10 * time.Millisecond
	// by its own pauses: whoever stops the test and all that it started gives nobody less time
	for waited := time.Duration(0); !f(); waited += pause {
		if time.Sleep(pause); waited > patience {
			now, err := json.Marshal(s.snapshot())
			s.t.Fatalf("not in %v: %s; now %s, %v", patience, what, now, err)
		}
	}
}

// lasting is the command line of an exec of the bundled example, which goes on until it is ended.
func (s *stage) lasting(flags ...string) []string {
	s.t.Helper()
	_, example, err := fakeDriver(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	return append(append([]string{"exec", "--fake-gpu"}, flags...), "--", example, "600")
}

func TestExecExitCodes(t *testing.T) {
	s := newStage(t)
	static := filepath.Join(t.TempDir(), "static")
	src := static + ".c"
	if err := os.WriteFile(src, []byte("int main(void) { return 0; }\n"), 0o666); err != nil {
		t.Fatal(err)
	}
	hasStatic := exec.Command("cc", "-static", "-o", static, src).Run() == nil
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"--memory", "1GiB", "--", "sh", "-c", "exit 7"}, 7, ""},
		{[]string{"--memory", "1GiB", "--", "sh", "-c", "kill -9 $$"}, 137, ""},
		{[]string{"--memory", "1GiB", "--", "sh", "-c", "echo $WEIR_JOB $LD_PRELOAD"}, 0,
			"libweir-cuda.so"},
		{[]string{"--", "no-such-program"}, 127, "no-such-program"},
		{[]string{"--memory", "1TiB", "--", "true"}, 125, "16GiB"},
		{[]string{"--compute", "2", "--", "true"}, 125, "compute"},
		{[]string{"--memory", "8", "--", "true"}, 125, "8GiB"},
		{[]string{"--memroy", "8GiB", "--", "true"}, 125, "--memroy"},
		{[]string{"--device", "cuda:9", "--", "true"}, 125, "cuda:9"},
		{[]string{"--", t.TempDir()}, 126, "directory"},
		{[]string{"--", static}, 126, "static"},
	} {
		if c.args[len(c.args)-1] == static && !hasStatic {
			continue
		}
		code, out := s.exec(c.args...)
		if code != c.code || !strings.Contains(out, c.says) {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, code, c.code, out)
		}
	}
}

func TestExecWithoutGPU(t *testing.T) {
	if _, err := gpus(false); err == nil {
		t.Skip("there is a GPU")
	}
	c := weir(t, "exec", "--", "true")
	if c.code != exitNotStarted || strings.Count(c.talk, "\n") != 1 ||
		!strings.Contains(c.talk, "--fake-gpu") {
		t.Errorf("exit code %d: %q", c.code, c.talk)
	}
}

// TestExecExample runs the bundled example: it sees its cap as the device's memory, and top shows
// it.
func TestExecExample(t *testing.T) {
	s := newStage(t)
	var cmd *exec.Cmd
	var out *bytes.Buffer
	var snapshot agent.Snapshot
	// The example lasts for 10 s, in which a busy machine may come to look at it too late.
	s.eventually("top shows the job", func() bool {
		if cmd != nil {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
			s.eventually("the job ends", func() bool { return len(s.jobs()) == 0 })
		}
		cmd, out = s.command("exec", "--fake-gpu", "--memory", "2GiB", "--compute", "0.3",
			"--class", "latency")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		began := false
		s.eventually("the example launches", func() bool {
			j := s.jobs()
			over := began && len(j) == 0
			began = began || len(j) == 1
			return over || len(j) == 1 && j[0].Launches > 100
		})
		top, text := s.command("top", "--json")
		if err := top.Run(); err != nil {
			t.Fatalf("%v %s", err, text)
		}
		snapshot = agent.Snapshot{}
		if err := json.Unmarshal(text.Bytes(), &snapshot); err != nil {
			t.Fatal(err)
		}
		return len(snapshot.Devices[0].Jobs) == 1 && len(s.jobs()) == 1
	})
	j := snapshot.Devices[0].Jobs[0]
	if !snapshot.Devices[0].Fake || j.MemoryCapBytes != 2<<30 || j.MemoryUsedBytes < 1<<30 ||
		j.Compute != 0.3 ||
		len(j.Processes) != 1 {
		t.Errorf("%+v", snapshot)
	}
	if !strings.Contains(topText(&snapshot, 0), "FAKE") {
		t.Error("the table does not say that the GPU is fake")
	}
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("ended by %v", cmd.ProcessState)
	}
	if !strings.Contains(out.String(), "2048 MiB") {
		t.Errorf("the example saw: %s", out)
	}
	s.eventually("the job ends", func() bool { return s.snapshot() != nil && len(s.jobs()) == 0 })
}

// TestExecStartsOneAgent starts several programs at once where no agent runs.
func TestExecStartsOneAgent(t *testing.T) {
	s := newStage(t)
	s.exec("--", "true") // compiles
	s.killAgent(syscall.SIGKILL)
	s.eventually("the agent is gone", func() bool { return len(s.agents()) == 0 })
	var all []*exec.Cmd
	var ends []io.Closer // with its standard input each program ends
	for range 6 {
		cmd, _ := s.command("exec", "--fake-gpu", "--memory", "1GiB", "--", "cat")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, in)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, cmd)
	}
	s.eventually("all have a job", func() bool { return len(s.jobs()) == len(all) })
	if pids := s.agents(); len(pids) != 1 {
		t.Errorf("agents %v", pids)
	}
	for i, cmd := range all {
		_ = ends[i].Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, cmd.Stdout)
		}
	}
}

// TestExecSurvivesTheAgent kills the agent: the program goes on, and weir exec starts another and
// brings the job to it.
func TestExecSurvivesTheAgent(t *testing.T) {
	s := newStage(t)
	cmd, out := s.command(s.lasting("--memory", "2GiB", "--name", "survivor")...)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the example launches",
		func() bool { j := s.jobs(); return len(j) == 1 && j[0].Launches > 100 })
	first := s.agents()
	s.killAgent(syscall.SIGKILL)
	s.eventually("the program is with another agent", func() bool {
		j := s.jobs()
		return len(j) == 1 && j[0].Name == "survivor" && len(j[0].Processes) == 1 &&
			j[0].Processes[0].Attached &&
			j[0].MemoryUsedBytes >= 1<<30
	})
	if second := s.agents(); len(first) != 1 || len(second) != 1 || first[0] == second[0] {
		t.Errorf("agents %v, then %v", first, second)
	}
	before := s.jobs()[0]
	s.eventually("it launches under it", func() bool {
		j := s.jobs()
		return len(j) == 1 && j[0].Launches > before.Launches+100 && j[0].DeviceSeconds > 0.05
	})
	// Killed at once, the program is forgotten at once.
	if err := syscall.Kill(int(before.Processes[0].PID), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _ = cmd.Wait(); cmd.ProcessState.ExitCode() != 137 {
		t.Errorf("ended by %v: %s", cmd.ProcessState, out)
	}
	s.eventually("the job ends", func() bool { return len(s.jobs()) == 0 })
}

// TestExecWithAStoppedAgent stops the agent while two programs share: by the device's own record
// both go on, as if alone, and rules hold again when it goes on.
func TestExecWithAStoppedAgent(t *testing.T) {
	s := newStage(t)
	driver := compiledDriver(t)
	for _, name := range []string{"one", "other"} {
		cmd, _ := s.command(s.lasting("--memory", "2GiB", "--name", name)...)
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = cmd.Process.Signal(syscall.SIGTERM); _ = cmd.Wait() })
	}
	s.eventually("both launch", func() bool {
		j := s.jobs()
		return len(j) == 2 && j[0].Launches > 50 && j[1].Launches > 50
	})
	s.killAgent(syscall.SIGSTOP)
	before := lanes(t, driver)
	s.eventually("both launch while the agent is stopped", func() bool {
		now := lanes(t, driver)
		for pid, was := range before {
			if now[pid].Finished < was.Finished+300 {
				return false
			}
		}
		return len(before) == 2
	})
	s.killAgent(syscall.SIGCONT)
	s.eventually("the agent goes on with both", func() bool { return len(s.jobs()) == 2 })
	if pids := s.agents(); len(pids) != 1 {
		t.Errorf("agents %v", pids)
	}
}

// TestExecOnAnotherGPU runs a program on the second of two GPUs: that is the only one that it sees,
// by whatever number.
func TestExecOnAnotherGPU(t *testing.T) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_GPUS", "2")
	_, example, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"--device", "cuda:1", "--memory", "1GiB", "--"}
	if code, out := s.exec(
		append(args, example, "0.2", "100", "64")...); code != 0 ||
		!strings.Contains(out, "1024 MiB") {
		t.Errorf("exit code %d: %s", code, out)
	}
	if code, out := s.exec(
		append(args, "env", "CUDA_VISIBLE_DEVICES=0", example, "0.2", "100", "64")...); code == 0 ||
		!strings.Contains(out, "is not the GPU of this job") {
		t.Errorf("on a GPU that it has no share of: exit code %d: %s", code, out)
	}
	// Programs take the variable for a number.
	args = append(args, "sh", "-c", "echo $CUDA_DEVICE_ORDER $CUDA_VISIBLE_DEVICES")
	if code, out := s.exec(args...); code != 0 || !strings.HasSuffix(out, "\nPCI_BUS_ID 1\n") {
		t.Errorf("exit code %d, the program sees %q", code, out)
	}
	// What a scheduler leaves visible is what is run on.
	t.Setenv("CUDA_VISIBLE_DEVICES", "1")
	if code, out := s.exec(args[2:]...); code != 0 || !strings.HasSuffix(out, "\nPCI_BUS_ID 1\n") {
		t.Errorf("with one GPU visible: exit code %d, the program sees %q", code, out)
	}
}
