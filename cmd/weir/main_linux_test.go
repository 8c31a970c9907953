package main

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/internal/terminal"
)

// apart is a command line in a process of its own, with more in its environment.
func apart(t *testing.T, env []string, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, args...)
	cmd.Env = append(append(os.Environ(), commandEnv+"=1"), env...)
	var out bytes.Buffer
	cmd.Stderr = &out
	return cmd, &out
}

// TestSecondSignal holds that a command which takes long to end after a signal ends at another one
// as programs do that know nothing of signals.
func TestSecondSignal(t *testing.T) {
	cmd, talk := apart(t, nil, "up", "--http", "localhost:0", "--metrics", "", "--grpc", "",
		"--grace", "1h")
	cmd.Dir = t.TempDir()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatalf("%v: %s", err, talk)
	}
	ended := make(chan struct{})
	go func() { // until the first one was seen, another is the same one
		for {
			_ = cmd.Process.Signal(syscall.SIGTERM)
			select {
			case <-ended:
				return
			case <-time.After(10 * time.Millisecond):
			}
		}
	}()
	_ = cmd.Wait()
	close(ended)
	how := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if !how.Signaled() || how.Signal() != syscall.SIGTERM {
		t.Errorf("%v: %s", cmd.ProcessState, talk)
	}
}

// TestProcessors holds that a command has two of Go's processors more than there are cores, for
// timers and requests while all of them compute.
func TestProcessors(t *testing.T) {
	cmd, talk := apart(t, []string{"GODEBUG=schedtrace=1", "GOMAXPROCS="}, "bench",
		digitsFile(t), "--runs", "300")
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, talk)
	}
	most := 0
	for _, m := range regexp.MustCompile(`gomaxprocs=(\d+)`).FindAllStringSubmatch(talk.String(),
		-1) {
		n, _ := strconv.Atoi(m[1])
		most = max(most, n)
	}
	if want := cpu.Cores() + 2; most != want {
		t.Errorf("at most %d processors, want %d", most, want)
	}
}

// TestWrongInstructions holds that a WEIR_ISA that is none keeps every command from running.
func TestWrongInstructions(t *testing.T) {
	cmd, talk := apart(t, []string{"WEIR_ISA=avx9000"}, "version")
	_ = cmd.Run()
	if code := cmd.ProcessState.ExitCode(); code != 2 || !bytes.Contains(talk.Bytes(),
		[]byte("avx9000")) {
		t.Errorf("exit code %d, %q", code, talk)
	}
}

// TestBrokenInput holds that an error of standard input is not taken for its end.
func TestBrokenInput(t *testing.T) {
	var out, talk bytes.Buffer
	broken := iotest.ErrReader(errors.New("the tape is torn"))
	if code := execute(t.Context(), []string{"simulate", "-"}, broken, &out, &talk); code != 2 ||
		!bytes.Contains(talk.Bytes(), []byte("torn")) {
		t.Errorf("exit code %d, %q", code, talk.String())
	}
}

// once is an output whose first write fails.
type once struct{ failed bool }

func (w *once) Write(p []byte) (int, error) {
	if w.failed {
		return len(p), nil
	}
	w.failed = true
	return 0, errors.New("no space left")
}

// TestFirstErrorOfOutput holds that a write which failed is heard of when those after it do not.
func TestFirstErrorOfOutput(t *testing.T) {
	w, n := &checked{Writer: &once{}}, 0
	for range 2 {
		k, _ := w.Write([]byte("text"))
		n += k
	}
	if n != 4 || w.err == nil {
		t.Errorf("%d bytes written, %v", n, w.err)
	}
}

// TestMessages holds that an error is one line, but that of a bug has its stack.
func TestMessages(t *testing.T) {
	several := errors.Join(errors.New("one\n\n"), errors.New(" two"))
	if got := message(several); got != "one; two" {
		t.Errorf("got %q", got)
	}
	bug := fault.Do(func() error { panic("a bug") })
	if got := message(bug); got != strings.TrimSpace(bug.Error()) {
		t.Errorf("got %q, want %q", got, bug)
	}
}

// TestCheckedTerminal holds that the text of a terminal is as wide as that, though what is written
// to it is checked.
func TestCheckedTerminal(t *testing.T) {
	tty, err := os.OpenFile("/dev/ptmx", os.O_RDWR, 0)
	if err != nil {
		t.Skip("no terminals here:", err)
	}
	defer tty.Close()
	if !terminal.Is(&checked{Writer: tty}) {
		t.Error("it is not known as a terminal")
	}
}
