package shim

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"testing"
	"time"
)

// TestCaptureBeside holds that what the library does of its own leaves captures alone that go on
// meanwhile: also those that it did not see begin, and streams that join one.
func TestCaptureBeside(t *testing.T) {
	t.Parallel()
	compiled(t)
	for how, captures := range map[string]int{"seen": 5, "hidden": 5, "joined": 5, "default": 5,
		"brief": 2000} {
		onProfiles(t, how, func(t *testing.T, profile string) {
			t.Parallel()
			w := newWarden(t, 1<<30, 2*time.Millisecond)
			w.gate(true)
			r := onFake(t, w, t.TempDir(), "capture_beside", fmt.Sprint(min(captures, 5)), how)
			// what is short is measured as such beside what is long
			r.Env = append(r.Env, profile, "WEIR_FAKE_CONCURRENT=2")
			if how == "brief" {
				r.Args[1] = fmt.Sprint(captures / 1000)
			}
			if got, want := r.run(t), fmt.Sprintf("{\"captures\":%d}\n", captures); got != want {
				t.Errorf("got %q, want %q", got, want)
			}
		})
	}
}

// talking starts a program whose standard output is read by lines while it runs; its standard input
// stays open until the test closes it.
func (r *running) talking(t *testing.T) (said func(line string), stop func() error) {
	t.Helper()
	in, err := r.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	r.Stdout = nil
	out, err := r.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	r.start(t)
	said = func(line string) {
		t.Helper()
		kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
		defer kill.Stop()
		for lines.Scan() {
			if lines.Text() == line {
				return
			}
		}
		t.Fatalf("%v did not say %q: %s", r.Args[1:], line, r.err.String())
	}
	return said, func() error {
		kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
		defer kill.Stop()
		_ = in.Close()
		for lines.Scan() {
			r.out.WriteString(lines.Text())
		}
		return r.Wait()
	}
}

// drains closes the gate and holds that the process says that nothing of it is in flight.
func (w *warden) drains(slot uint32) {
	w.t.Helper()
	closed, from := w.gate(false), time.Now()
	s := w.page.Slot(slot)
	for s.DrainedSeq.Load() != closed || s.InflightNS.Load() != 0 {
		if time.Since(from) > patience {
			w.t.Fatalf("not drained after %v: %d ns in flight", time.Since(from),
				s.InflightNS.Load())
		}
		time.Sleep(50 * time.Microsecond)
	}
	w.t.Logf("drained after %v", time.Since(from))
}

// TestFault holds that a process whose context a kernel has brought into an error keeps the device
// from nobody: nothing of it is in flight, its calls fail at once though the gate is closed, and it
// is charged for nothing more.
func TestFault(t *testing.T) {
	t.Parallel()
	compiled(t)
	onProfiles(t, "at rest", func(t *testing.T, profile string) {
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.gate(true)
		r := onFake(t, w, t.TempDir(), "fault")
		r.Env = append(r.Env, profile)
		said, stop := r.talking(t)
		said("fault")
		w.drains(0)
		if err := stop(); err != nil {
			t.Error(err)
		}
	})
	onProfiles(t, "launching on", func(t *testing.T, profile string) {
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.gate(true)
		r := onFake(t, w, t.TempDir(), "fault", "1")
		r.Env = append(r.Env, profile)
		said, stop := r.talking(t)
		said("fault")
		w.drains(0)
		s := w.page.Slot(0)
		before := s.DeviceNSTotal.Load()
		if err := stop(); err != nil {
			t.Errorf("%v: %s", err, r.err.String())
		}
		var got struct{ Failed int }
		if err := json.Unmarshal(r.out.Bytes(), &got); err != nil || got.Failed < 2 {
			t.Errorf("%q: no launches at the closed gate", r.out.String())
		}
		if after := s.DeviceNSTotal.Load(); after != before || s.InflightNS.Load() != 0 {
			t.Errorf("charged for %d ns after the fault, %d in flight", after-before,
				s.InflightNS.Load())
		}
	})
}

// TestGreenContexts holds that the program's green context is current in no thread but its own, and
// that what it launches there is seen to end all the same.
func TestGreenContexts(t *testing.T) {
	t.Parallel()
	compiled(t)
	for how, rounds := range map[string]int{"current": 1, "stream": 50, "default": 50} {
		onProfiles(t, how, func(t *testing.T, profile string) {
			w := newWarden(t, 1<<30, 2*time.Millisecond)
			w.gate(true)
			r := onFake(t, w, t.TempDir(), "green", fmt.Sprint(rounds), how)
			// for so long a thread has the context that it puts an event in
			r.Env = append(r.Env, profile, "WEIR_FAKE_EVENT_NS=200000")
			said, stop := r.talking(t)
			said("launched")
			w.drains(0)
			w.gate(true)
			want := time.Duration(rounds) * 7 * 20 * time.Microsecond
			if got := time.Duration(w.page.Slot(0).DeviceNSTotal.Load()); got < want/2 {
				t.Errorf("charged for %v of %v", got, want)
			}
			if err := stop(); err != nil {
				t.Errorf("%v: %s", err, r.err.String())
			}
		})
	}
}

// TestExit holds that programs end with their own exit code while the library watches a busy
// device: nothing of the library is in the driver while that takes itself down.
func TestExit(t *testing.T) {
	t.Parallel()
	compiled(t)
	ways := []string{"return", "exit", "thread", "_exit", "quick", "child", "destructor",
		"launching"}
	times := 40
	if long {
		times = 1000
	}
	// the driver's own handler comes with cuInit, or with the first context; each on both profiles
	devices := [2][2]string{{t.TempDir(), t.TempDir()}, {t.TempDir(), t.TempDir()}}
	profiles := [2]string{"plain", "hardware"}
	for _, how := range ways {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			w := newWarden(t, 4<<30, 2*time.Millisecond)
			w.gate(true)
			failed := 0
			for i := range times {
				late, costs := i/4%2, i/8%2
				r := onFake(t, w, devices[late][costs], "exits", how, fmt.Sprint(20+100*(i%4)))
				r.Env = append(r.Env, "WEIR_FAKE_PROFILE="+profiles[costs],
					"WEIR_FAKE_EXIT_US=2000", fmt.Sprint("WEIR_FAKE_EXIT_LATE=", late))
				exits(t, r, &failed)
				w.release(r.Process.Pid)
			}
			if failed > 0 {
				t.Errorf("%d of %d failed", failed, times)
			}
		})
	}
}

func exits(t *testing.T, r *running, failed *int) {
	t.Helper()
	r.start(t)
	kill := time.AfterFunc(patience, func() { _ = r.Process.Kill() })
	defer kill.Stop()
	err, exit := r.Wait(), (*exec.ExitError)(nil)
	if !errors.As(err, &exit) || exit.ExitCode() != 7 || r.err.Len() > 0 {
		*failed++
		t.Logf("%v: %v, want exit code 7: %s", r.Args[1:], err, r.err.String())
	}
}

// TestSlowExit holds that a process whose handlers of exit take long, with work in flight when they
// began, keeps the device from nobody.
func TestSlowExit(t *testing.T) {
	t.Parallel()
	compiled(t)
	onProfiles(t, "", func(t *testing.T, profile string) {
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.gate(true)
		r := onFake(t, w, t.TempDir(), "exits", "slow", "2000")
		r.Env = append(r.Env, profile)
		said, stop := r.talking(t)
		said("leaving")
		w.drains(0)
		var exit *exec.ExitError
		if err := stop(); !errors.As(err, &exit) || exit.ExitCode() != 7 {
			t.Errorf("%v: %s", err, r.err.String())
		}
	})
}

// finalised is a program in an interpreter, which runs handlers of its own before those of the C
// library, and leaves the driver's objects as they are.
const finalised = `
import ctypes, sys
cu = ctypes.CDLL("libcuda.so.1")
def check(r):
    if r: raise SystemExit("error %d" % r)
ctx, module, f, s = (ctypes.c_void_p() for _ in range(4))
check(cu.cuInit(0))
check(cu.cuDevicePrimaryCtxRetain(ctypes.byref(ctx), 0))
check(cu.cuCtxSetCurrent(ctx))
check(cu.cuModuleLoadData(ctypes.byref(module), b"kernel busy us=200\n"))
check(cu.cuModuleGetFunction(ctypes.byref(f), module, b"busy"))
check(cu.cuStreamCreate(ctypes.byref(s), 1))
for i in range(50):
    check(cu.cuLaunchKernel(f, 1, 1, 1, 32, 1, 1, 0, s, None, None))
sys.exit(7)
`

// TestExitOfAnInterpreter is TestExit for Python.
func TestExitOfAnInterpreter(t *testing.T) {
	t.Parallel()
	compiled(t)
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skipf("skipped: %v", err)
	}
	w := newWarden(t, 4<<30, 2*time.Millisecond)
	w.gate(true)
	dir, failed := t.TempDir(), 0
	for range 5 {
		r := onFake(t, w, dir, "exits")
		r.Path, r.Args = python, []string{python, "-c", finalised}
		r.Env = append(r.Env, "WEIR_FAKE_EXIT_US=2000")
		exits(t, r, &failed)
	}
	if failed > 0 {
		t.Errorf("%d of 5 failed", failed)
	}
}
