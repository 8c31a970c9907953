package shim

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestUnderSanitizers links the library into the test program, since a sanitizer's runtime must come before
// anything preloaded, and runs what is hardest on memory and on the order of threads.
func TestUnderSanitizers(t *testing.T) {
	b := compiled(t)
	if testing.Short() {
		t.Skip("skipped with -short: compiles the library twice more")
	}
	for _, s := range []struct{ name, flag, report string }{
		{"address and undefined behaviour", "address,undefined", "ERROR: AddressSanitizer"}, {"threads", "thread", "WARNING: ThreadSanitizer"},
	} {
		t.Run(s.name, func(t *testing.T) {
			sources, err := filepath.Glob("src/*.c")
			if err != nil {
				t.Fatal(err)
			}
			program := filepath.Join(t.TempDir(), "program")
			args := append([]string{"-std=gnu11", "-g", "-O1", "-fsanitize=" + s.flag, "-fno-sanitize-recover=undefined", "-fno-omit-frame-pointer",
				"-DWEIR_WITHOUT_DLSYM", "-rdynamic", "-I", ".", "-o", program, "testdata/program.c"}, sources...)
			if err := compileC(append(args, "-ldl", "-lpthread")...); err != nil {
				t.Skipf("skipped: this compiler has no such sanitizer: %v", err)
			}
			for _, run := range [][]string{{"memory", "400", "65536"}, {"launches", "400", "50000", "1"}, {"threads", "8"}, {"forks"}} {
				w := newWarden(t, testCap, 2*time.Millisecond)
				w.gate(true)
				r := b.command(w, run...)
				r.Cmd.Path, r.Cmd.Args[0] = program, program
				r.Env = append(r.Env, "LD_PRELOAD=", "PROGRAM_LINKED=1", "TSAN_OPTIONS=die_after_fork=0", "ASAN_OPTIONS=detect_leaks=0")
				stop := churnGate(w)
				err := r.Run()
				close(stop)
				if _, failed := err.(*exec.ExitError); failed || strings.Contains(r.err.String(), s.report) {
					t.Errorf("%v: %v\n%s%s", run, err, r.out.String(), r.err.String())
				}
			}
		})
	}
}

// churnGate closes and opens the gate until the channel is closed.
func churnGate(w *warden) chan<- struct{} {
	stop := make(chan struct{})
	w.wg.Add(1)
	go func() {
		defer w.wg.Done()
		for {
			select {
			case <-stop:
				w.gate(true)
				return
			case <-time.After(3 * time.Millisecond):
				w.gate(false)
				time.Sleep(time.Millisecond)
				w.gate(true)
			}
		}
	}()
	return stop
}
