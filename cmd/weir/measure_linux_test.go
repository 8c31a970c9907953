package main

import (
	"context"
	"path/filepath"
	"testing"
)

// TestAgentFindsMemory runs a program whose kernels take memory as they are first launched, and
// whose own management library does not see it: the agent finds what it holds.
func TestAgentFindsMemory(t *testing.T) {
	s := newStage(t)
	driver, _, err := fakeDriver(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("WEIR_FAKE_LAZY_BYTES", "8MiB")
	t.Setenv("WEIR_FAKE_CONTEXT", "16MiB")
	cmd, out := s.command("exec", "--fake-gpu", "--memory", "256MiB", "--", "env",
		"WEIR_FAKE_NVML_BLIND=1", filepath.Join(driver, "bin", "grow"), "launch", "4")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	s.eventually("all that the device holds is counted", func() bool {
		for _, j := range s.jobs() {
			for _, p := range j.Processes {
				if p.MemoryMeasuredBytes != nil && *p.MemoryMeasuredBytes == 48<<20 &&
					p.MemoryFoundBytes == 32<<20 && j.MemoryUsedBytes == 48<<20 {
					return true
				}
			}
		}
		return false
	})
	_ = in.Close()
	if err := cmd.Wait(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}
