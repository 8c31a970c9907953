package main

import (
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestExitCodes holds what a process of weir ends with, and that /dev/full, a disk without room, is
// heard of.
func TestExitCodes(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	model := digitsFile(t)
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	for _, c := range []struct {
		code int
		out  *os.File
		args []string
	}{
		{0, nil, []string{"run", model}},
		{0, nil, []string{"help", "run"}},
		{1, full, []string{"run", model}},
		{1, full, []string{"bench", model, "--runs", "1", "--json"}},
		{1, nil, []string{"share", "--trace", "/dev/full", scenarioFile(t, "64MiB", 0, 3)}},
		{1, nil, []string{"optimize", model, "/dev/full"}},
		{2, nil, []string{"nope"}},
		{2, nil, []string{"help", "nope"}},
		{2, nil, []string{"run", filepath.Join(t.TempDir(), "none.onnx")}},
		{125, nil, []string{"exec", "--memory", "8", "--", "true"}},
	} {
		cmd := exec.CommandContext(t.Context(), exe, c.args...)
		cmd.Env = append(os.Environ(), commandEnv+"=1")
		var talk strings.Builder
		cmd.Stderr = &talk
		if c.out != nil {
			cmd.Stdout = c.out
		}
		_ = cmd.Run()
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%v: exit code %d, want %d: %s", c.args, got, c.code, talk.String())
		}
	}
}

// TestCodesOfBinary holds what the program that people run ends with: what exec passes on or cannot
// start, and signals, also while it waits for standard input.
func TestCodesOfBinary(t *testing.T) {
	s := newStage(t)
	exe := filepath.Join(s.dir, "weir")
	if out, err := exec.Command("go", "build", "-o", exe, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	fake := func(args ...string) []string {
		return append([]string{"exec", "--fake-gpu", "--memory", "1GiB", "--"}, args...)
	}
	waits := fake("sh", "-c", "exec cat >/dev/null")
	for _, c := range []struct {
		code   int
		signal syscall.Signal // sent once it waits for standard input; 0: none
		args   []string
	}{
		{7, 0, fake("sh", "-c", "exit 7")},
		{126, 0, fake(t.TempDir())},
		{127, 0, fake("no-such-program")},
		{137, 0, fake("sh", "-c", "kill -9 $$")},
		{130, syscall.SIGINT, waits},
		{143, syscall.SIGTERM, waits},
		{130, syscall.SIGINT, []string{"simulate", "-"}},
		{143, syscall.SIGTERM, []string{"simulate", "-"}},
	} {
		cmd, out := s.command(c.args...)
		cmd.Path = exe
		if err := signalled(cmd, c.signal); err != nil {
			t.Fatalf("%v: %v: %s", c.args, err, out)
		}
		if got := cmd.ProcessState.ExitCode(); got != c.code {
			t.Errorf("%v, signal %v: exit code %d, want %d: %s", c.args, c.signal, got, c.code, out)
		}
	}
}

// TestServicesEndInOrder holds that a server and an agent that a signal ends are done: it is how
// they are to end.
func TestServicesEndInOrder(t *testing.T) {
	s := newStage(t)
	for _, signal := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		for _, args := range [][]string{
			{"up", "--http", "localhost:0", "--metrics", "", "--grpc", "", "--grace", "0s"},
			{"agent", "--fake-gpu"},
		} {
			cmd, _ := s.command(args...)
			cmd.Dir, cmd.Stdout = t.TempDir(), nil
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Fatal(err)
			}
			if args[0] == "up" {
				_, err = out.Read(make([]byte, 1))
			} else {
				s.eventually("the agent answers", func() bool { return s.snapshot() != nil })
			}
			err = errors.Join(err, cmd.Process.Signal(signal))
			_, _ = io.Copy(io.Discard, out)
			if err := errors.Join(err, cmd.Wait()); err != nil {
				t.Errorf("%s after %v: %v: %s", args[0], signal, err, cmd.Stderr)
			}
		}
	}
}

// signalled runs a command to its end. A signal is sent once it has read more than a pipe holds (64
// KiB, pipe(7)), so that it waits for more.
func signalled(cmd *exec.Cmd, signal syscall.Signal) error {
	if signal == 0 {
		_ = cmd.Run()
		return nil
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	_, err = in.Write([]byte(strings.Repeat("# a comment of YAML\n", 20_000)))
	err = errors.Join(err, cmd.Process.Signal(signal))
	_ = cmd.Wait()
	return err
}

// TestFullDisk holds that writers leave nothing on a disk that has become full, and what was there
// before.
func TestFullDisk(t *testing.T) {
	dir := t.TempDir()
	err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=16k")
	if errors.Is(err, syscall.EPERM) || errors.Is(err, syscall.EACCES) {
		t.Skip("a small disk needs root:", err)
	} else if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	}()
	model, scenario := digitsFile(t), scenarioFile(t, "64MiB", 0, 3)
	at := func(name string) string { return filepath.Join(dir, name) }
	for _, args := range [][]string{
		{"optimize", model, at("file")},
		{"model", "new", "mobilenetv2", at("file")},
		{"run", model, "--shape", "image=4096x1x8x8", "--output", dir},
		{"share", scenario, "--html", at("file")},
		{"bench", model, "--runs", "3", "--profile", "--html", at("file")},
	} {
		if c := weir(t, args...); c.code != 1 || !strings.Contains(c.talk, "no space left") {
			t.Errorf("%v: exit code %d, %s", args, c.code, c.talk)
		}
		if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
			t.Errorf("%v: %v is left, %v", args, left, err)
		}
		os.Remove(at("file"))
	}
}
