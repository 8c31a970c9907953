package main

import (
	"bytes"
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

// turning is a program that checks its memory by value until its input ends, on a device whose
// memory it has in turn with others.
type turning struct {
	name string
	cmd  *exec.Cmd
	out  *bytes.Buffer
	in   io.Closer
}

// newTurns sets the stage with a device of 80 MiB, contexts of 1 MiB, and an agent that may move
// memory for half of the time: where a move takes long, turns are not ten times as long.
func newTurns(t *testing.T, agentFlags ...string) (*stage, string) {
	return newTurnsOn(t, "80MiB", agentFlags...)
}

// newTurnsOn is newTurns on a device of another size.
func newTurnsOn(t *testing.T, memory string, agentFlags ...string) (*stage, string) {
	s := newStage(t)
	t.Setenv("WEIR_FAKE_MEMORY", memory)
	t.Setenv("WEIR_FAKE_CONTEXT", "1MiB")
	driver, _, err := fakeDriver(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s.startAgent(append([]string{"--moving", "0.5"}, agentFlags...)...)
	return s, filepath.Join(driver, "bin")
}

// startAgent starts an agent, and ends it with the test.
func (s *stage) startAgent(flags ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), os.Args[0],
		append([]string{"agent", "--fake-gpu"}, flags...)...)
	out := &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = out, out, time.Second
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		s.killAgent(syscall.SIGTERM)
		if _ = cmd.Wait(); s.t.Failed() {
			s.t.Log(out)
		}
	})
	s.eventually("the agent answers", func() bool { return s.snapshot() != nil })
}

// turns starts a program that may have 0.9 of the device.
func (s *stage) turns(name string, program ...string) *turning {
	s.t.Helper()
	return s.turnsOf(name, "72MiB", program...)
}

// turnsOf starts a program that may have so much.
func (s *stage) turnsOf(name, memory string, program ...string) *turning {
	s.t.Helper()
	// for longer than the minute that others have
	cmd := exec.CommandContext(s.t.Context(), os.Args[0], append([]string{"exec", "--fake-gpu",
		"--oversubscribe", "--name", name, "--memory", memory, "--"}, program...)...)
	p := &turning{name: name, cmd: cmd, out: &bytes.Buffer{}}
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = p.out, p.out, time.Second
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	p.in = in
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = cmd.Process.Kill() })
	s.eventually(name+" is a job", func() bool { return s.job(name) != nil })
	return p
}

// job is the job of this name; nil: there is none.
func (s *stage) job(name string) *agent.JobSnapshot {
	for _, j := range s.jobs() {
		if j.Name == name {
			return &j
		}
	}
	return nil
}

// ends ends the program, which must have found nothing wrong.
func (p *turning) ends(t *testing.T) {
	t.Helper()
	_ = p.in.Close()
	if err := p.cmd.Wait(); err != nil || !strings.Contains(p.out.String(), `"wrong": 0}`) {
		t.Errorf("%s: %v: %s", p.name, err, p.out)
	}
	t.Logf("%s: %s (fake)", p.name, lastOf(p.out.String()))
}

func lastOf(out string) string {
	lines := strings.Split(strings.TrimSpace(out), "\n")
	return lines[len(lines)-1]
}

// swaps waits until the memory of the jobs has come back so often together, and returns how often
// it has, and how long that took: a turn is as long as it takes.
func (s *stage) swaps(times int64) (n int64, seconds float64) {
	s.t.Helper()
	for more := int64(0); n < times; {
		s.eventually(fmt.Sprintf("%d of %d turns", n+1, times), func() bool {
			more, seconds = 0, 0
			for _, j := range s.jobs() {
				more += j.Swaps
				seconds += j.SwapSeconds
			}
			return more > n
		})
		if more/1000 > n/1000 {
			s.t.Logf("%d swaps, %.0f s moving (fake)", more, seconds)
		}
		n = more
	}
	return n, seconds
}

// TestTurns has two programs of eight threads each, which may have 0.9 of the device's memory each
// and allocate and free all the time, take turns: all bytes are right.
func TestTurns(t *testing.T) { takeTurns(t, 80, 72, "8", "2") }

// TestFullTurns is TestTurns of programs that hold 0.9 of the device's memory all the time: eight
// times 8 MiB, and a context.
func TestFullTurns(t *testing.T) { takeTurns(t, 72, 65, "8", "8", "steady") }

// takeTurns has two programs that may have so many MiB of a device take turns, with WEIR_LONG
// 10,000 times.
func takeTurns(t *testing.T, device, most int, args ...string) {
	times := int64(6)
	if os.Getenv("WEIR_LONG") != "" {
		times = 10000
	}
	s, bin := newTurnsOn(t, fmt.Sprint(device, "MiB"))
	program := append([]string{filepath.Join(bin, "moved")}, args...)
	began, memory := time.Now(), fmt.Sprint(most, "MiB")
	a, b := s.turnsOf("a", memory, program...), s.turnsOf("b", memory, program...)
	n, seconds := s.swaps(times)
	t.Logf("%d swaps, %.3f s of %.3f s moving (fake)", n, seconds, time.Since(began).Seconds())
	for _, name := range []string{"a", "b"} {
		if j := s.job(name); j == nil || j.Launches == 0 || j.MemoryCapBytes != int64(most)<<20 {
			t.Errorf("%s is %+v", name, j)
		}
	}
	a.ends(t)
	b.ends(t)
}

// TestManagedMemoryInTurns has a program with managed memory, which stays where it is, take turns.
func TestManagedMemoryInTurns(t *testing.T) {
	s, bin := newTurns(t)
	a := s.turns("a", filepath.Join(bin, "managed"))
	b := s.turns("b", filepath.Join(bin, "moved"), "2", "12")
	s.swaps(4)
	a.ends(t)
	b.ends(t)
}

// TestTurnsSurviveDeaths kills the agent, and then one of the programs: the others go on, with all
// bytes right, and what is kept for the dead one is free. The programs fit the device together as
// they are, and do not grow: while no agent runs, nobody would have one of them give way.
func TestTurnsSurviveDeaths(t *testing.T) {
	s, bin := newTurns(t)
	program := []string{filepath.Join(bin, "moved"), "2", "12", "steady"}
	a, b := s.turns("a", program...), s.turns("b", program...)
	s.swaps(3)
	s.killAgent(syscall.SIGKILL)
	s.startAgent("--moving", "0.5") // nobody else restarts one that runs as a service
	s.eventually("both are jobs of the next agent", func() bool {
		return s.job("a") != nil && s.job("b") != nil
	})
	s.swaps(2)
	var pid int
	s.eventually("a has a process", func() bool {
		if j := s.job("a"); j != nil && len(j.Processes) > 0 {
			pid = int(j.Processes[0].PID)
		}
		return pid > 0
	})
	if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if err := a.cmd.Wait(); err == nil {
		t.Error("a program that was killed ends well")
	}
	before := s.job("b").Launches
	s.eventually("b goes on", func() bool {
		j := s.job("b")
		return j != nil && j.MemoryAwayBytes == 0 && j.Launches > before+20
	})
	b.ends(t)
}

// TestTurnsAreFrozen freezes a program that takes turns, whichever has the device: the other has it
// alone until the thaw.
func TestTurnsAreFrozen(t *testing.T) {
	s, bin := newTurns(t)
	program := []string{filepath.Join(bin, "moved"), "2", "12"}
	a, b := s.turns("a", program...), s.turns("b", program...)
	for range 2 {
		s.swaps(3)
		if code, out := s.weir("freeze", "a"); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
		before := s.job("a").Launches
		n := s.job("b").Launches
		s.eventually("b goes on", func() bool { return s.job("b").Launches > n+20 })
		if j := s.job("a"); j.State != "frozen" || j.Launches != before || j.MemoryAwayBytes == 0 {
			t.Errorf("a frozen job is %+v", j)
		}
		if code, out := s.weir("thaw", "a"); code != 0 {
			t.Fatalf("exit code %d: %s", code, out)
		}
		s.eventually("a goes on", func() bool { return s.job("a").Launches > before+20 })
	}
	a.ends(t)
	b.ends(t)
}

// weir runs a command and returns its exit code and what it prints.
func (s *stage) weir(args ...string) (int, string) {
	cmd, out := s.command(args...)
	_ = cmd.Run()
	return cmd.ProcessState.ExitCode(), out.String()
}

// TestTurnsNeedTheHost refuses, before it starts, a program for whose turns the host has no room,
// and one that leaves none on the device for what others keep there.
func TestTurnsNeedTheHost(t *testing.T) {
	s, bin := newTurns(t, "--host-memory", "100MiB")
	a := s.turns("a", filepath.Join(bin, "moved"), "1", "12")
	for _, tc := range []struct {
		args []string
		says string
	}{
		{[]string{"--oversubscribe", "--memory", "72MiB"}, "144MiB of the host's memory"},
		{[]string{"--memory", "9MiB"}, "that jobs use in turn"},
		{[]string{"--oversubscribe", "--memory", "81MiB"}, "the device has 80MiB"},
	} {
		code, said := s.exec(append(tc.args, "--", "true")...)
		if code != 125 || !strings.Contains(said, tc.says) {
			t.Errorf("%v: exit code %d: %s", tc.args, code, said)
		}
	}
	if code, said := s.exec("--oversubscribe", "--memory", "7MiB", "--", "true"); code != 0 {
		t.Errorf("a job that fits: exit code %d: %s", code, said)
	}
	if code, said := s.weir("set", "a", "--memory", "60MiB"); code == 0 ||
		!strings.Contains(said, "comes and goes with its turns") {
		t.Errorf("exit code %d: %s", code, said)
	}
	a.ends(t)
}
