package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// compiledDriver is the fake driver's folder, once all is compiled that weir exec would compile
// while the test waits for it.
func compiledDriver(t *testing.T) string {
	t.Helper()
	driver, _, err := fakeDriver(context.Background())
	if err == nil {
		_, err = shimLibrary(context.Background(), "")
	}
	if err != nil {
		t.Fatal(err)
	}
	return driver
}

// TestAgentFindsMemory runs a program whose kernels take memory as they are first launched, and
// whose own management library does not see it: the agent finds what it holds. On a busy machine
// the program may have had reason to look anew before it did, with the agent's answer: of several
// programs, all of whose memory is counted, one must have left it to the agent.
func TestAgentFindsMemory(t *testing.T) {
	s := newStage(t)
	driver := compiledDriver(t)
	t.Setenv("WEIR_FAKE_LAZY_BYTES", "8MiB")
	t.Setenv("WEIR_FAKE_CONTEXT", "16MiB")
	const tries = 5
	var found uint64
	for n := 0; n < tries && found != 32<<20; n++ {
		found = s.foundMemory(driver)
		t.Logf("the agent found %d bytes", found)
	}
	if found != 32<<20 {
		t.Errorf("in %d programs the agent never found what four kernels take", tries)
	}
}

// foundMemory runs one such program until all of its memory is counted, and returns what of that
// the agent found.
func (s *stage) foundMemory(driver string) (found uint64) {
	cmd, out := s.command("exec", "--fake-gpu", "--memory", "256MiB", "--", "env",
		"WEIR_FAKE_NVML_BLIND=1", filepath.Join(driver, "bin", "grow"), "launch", "4")
	in, err := cmd.StdinPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if s.t.Failed() {
			s.t.Logf("the program: %v: %s", cmd.ProcessState, out)
		}
	})
	s.eventually("all that the device holds is counted", func() bool {
		for _, j := range s.jobs() {
			for _, p := range j.Processes {
				if p.MemoryMeasuredBytes != nil && *p.MemoryMeasuredBytes == 48<<20 &&
					j.MemoryUsedBytes == 48<<20 {
					found = p.MemoryFoundBytes
					return true
				}
			}
		}
		return false
	})
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		s.t.Errorf("%v: %s", err, out)
	}
	s.eventually("the job ends", func() bool { return len(s.jobs()) == 0 })
	return found
}

// TestChildrenKeepMemory kills a process of which a forked child lives on: the driver has not its
// memory back before the child ends, so it counts until then.
func TestChildrenKeepMemory(t *testing.T) {
	s := newStage(t)
	driver := compiledDriver(t)
	t.Setenv("WEIR_FAKE_CONTEXT", "16MiB")
	t.Setenv("WEIR_FAKE_FORKS", "1")
	read, write, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer write.Close()
	cmd, out := s.command("exec", "--fake-gpu", "--memory", "256MiB", "--",
		filepath.Join(driver, "bin", "grow"), "orphan", fmt.Sprint(32<<20))
	cmd.Stdin = read
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = read.Close()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 128+9 {
		t.Fatalf("%v: %s", err, out)
	}
	// The agent has been told by now that the process has ended, or is at any moment.
	s.eventually("the process has ended", func() bool {
		jobs := s.jobs()
		return len(jobs) == 1 && len(jobs[0].Processes) == 1 && jobs[0].Processes[0].Ended
	})
	if j := s.jobs()[0]; j.MemoryUsedBytes != 48<<20 || j.Processes[0].Attached {
		t.Errorf("while a child lives: %+v", j)
	}
	if err := write.Close(); err != nil {
		t.Fatal(err)
	}
	s.eventually("the job has ended", func() bool { return len(s.jobs()) == 0 })
}
