package shim

import (
	"bufio"
	"encoding/json"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// threads is a warden whose processes are to be clients of MPS with this percentage.
func threads(t *testing.T, percent uint32) *warden {
	t.Helper()
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.setThreads(percent)
	w.gate(true)
	return w
}

func (w *warden) setThreads(percent uint32) {
	terms, err := w.page.Terms()
	if err != nil {
		w.t.Fatal(err)
	}
	terms.ThreadPercent = percent
	w.page.SetTerms(terms)
}

// startMPS starts the fake control daemon for the devices in the folder.
func startMPS(t *testing.T, dir string) {
	t.Helper()
	r := onFake(t, nil, dir, fakecuda.Control, "-f")
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.start(t)
	if line, err := bufio.NewReader(out).ReadString('\n'); err != nil {
		t.Fatalf("the daemon said %q: %v: %s", line, err, r.err.String())
	}
}

// parts is what the program clients says that it may use: multiprocessors of 64.
func parts(t *testing.T, r *running) (context int) {
	t.Helper()
	var got struct{ Before, After, Context, Later int }
	out := strings.TrimSpace(r.run(t))
	if err := json.Unmarshal([]byte(out), &got); err != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if got.Before != got.Context || got.After != got.Context || got.Later != got.Context {
		t.Errorf("the device and its contexts differ: %s", out)
	}
	return got.Context
}

// TestThreadPercentage: a process begins with the percentage on the page, whatever its environment
// says, and keeps it; the next one begins with what is there then.
func TestThreadPercentage(t *testing.T) {
	t.Parallel()
	compiled(t)
	const name = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE="
	dir := t.TempDir()
	startMPS(t, dir)
	for _, c := range []struct {
		page uint32
		env  string
		want int    // multiprocessors
		said uint32 // on the page
	}{
		{25, "", 16, 25}, {25, name + "100", 16, 25}, {25, name + "10", 16, 25},
		{25, name + "25", 16, 25}, {75, name + "25", 48, 75}, {100, name + "25", 64, 100},
		{0, "", 64, 100}, {0, name + "50", 32, 100}, {101, name + "50", 32, 100},
	} {
		w := newWarden(t, fakeCap, 2*time.Millisecond)
		w.page.Header().ThreadPercent.Store(c.page)
		w.gate(true)
		r := onFake(t, w, dir, "clients", "1", "1", "100")
		r.Env = append(r.Env, c.env)
		if got := parts(t, r); got != c.want {
			t.Errorf("%d on the page, %q: %d multiprocessors, want %d", c.page, c.env, got, c.want)
		}
		if got := w.page.Slot(0).ThreadPercent.Load(); got != c.said {
			t.Errorf("%d on the page, %q: the process says %d, want %d", c.page, c.env, got, c.said)
		}
	}
	w := threads(t, 25)
	first := onFake(t, w, dir, "clients", "1", "1")
	if got := parts(t, first); got != 16 {
		t.Errorf("%d multiprocessors at 25 percent", got)
	}
	w.setThreads(50)
	if got := parts(t, onFake(t, w, dir, "clients", "1", "1")); got != 32 {
		t.Errorf("%d multiprocessors after the percentage was raised to 50", got)
	}
}

// TestNoClientOfMPS: a process that must be a client and is none gets no share, and is told why;
// where it need not be one it runs.
func TestNoClientOfMPS(t *testing.T) {
	t.Parallel()
	compiled(t)
	dir := t.TempDir()
	startMPS(t, dir)
	w := threads(t, 50)
	for _, env := range []string{"WEIR_FAKE_DIR=" + t.TempDir(),
		"CUDA_MPS_PIPE_DIRECTORY=" + t.TempDir()} {
		r := onFake(t, w, dir, "clients", "1", "1")
		r.Env = append(r.Env, env)
		err := r.Run()
		if _, failed := err.(*exec.ExitError); !failed ||
			!strings.Contains(r.err.String(), "needs MPS") ||
			!strings.Contains(r.err.String(), "SYSTEM_NOT_READY") {
			t.Errorf("%s: %v, %s", filepath.Base(env), err, r.err.String())
		}
		r = onFake(t, w, dir, "clients", "1", "1", "100", "anyway")
		r.Env = append(r.Env, env)
		if got := r.run(t); got != "802\n" {
			t.Errorf("%s: a program that goes on has %q for a context", filepath.Base(env), got)
		}
	}
	w.setThreads(0)
	r := onFake(t, w, t.TempDir(), "clients", "1", "1")
	if got := parts(t, r); got != 64 {
		t.Errorf("%d multiprocessors of a process without MPS", got)
	}
	for i := range uint32(4) {
		if got := w.page.Slot(i).ThreadPercent.Load(); got != 0 {
			t.Errorf("slot %d: the process says that it began at %d percent", i, got)
		}
	}
}
