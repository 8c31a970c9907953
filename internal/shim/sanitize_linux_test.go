package shim

import (
	"context"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// TestUnderSanitizers builds the library, the drivers and the programs with a sanitizer each and
// runs what is hardest on memory and on the order of threads, as clients of MPS, with the gate
// opened and closed under them.
func TestUnderSanitizers(t *testing.T) {
	b := compiled(t)
	if testing.Short() {
		t.Skip("skipped with -short: compiles everything twice more")
	}
	for _, s := range []struct {
		name,
		flag string
	}{{"address and undefined behaviour", "address,undefined"}, {"threads", "thread"}} {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			dir, err := kept()
			if err != nil {
				t.Fatal(err)
			}
			how := []string{"-g", "-O1", "-fsanitize=" + s.flag, "-fno-sanitize-recover=undefined",
				"-fno-omit-frame-pointer"}
			sources, err := filepath.Glob("src/*.c")
			if err != nil {
				t.Fatal(err)
			}
			library, err := keptC(Library,
				append([]string{"-std=c11", "-fPIC", "-shared", "-fvisibility=hidden", "-I", "."},
					how...), sources...)
			if err != nil {
				t.Skipf("skipped: this compiler has no such sanitizer: %v", err)
			}
			program, err := keptC("program", how, "testdata/program.c")
			if err != nil {
				t.Fatal(err)
			}
			libs, err := fakecuda.Build(context.Background(), dir, "", how...)
			if err != nil {
				t.Fatal(err)
			}
			gpu := t.TempDir()
			startMPS(t, gpu)
			for _, run := range [][]string{
				{program, "memory", "200", "65536"}, {program, "launches", "200", "50000", "1"},
				{program, "threads", "4"}, {program, "forks"},
				{"alloc_storm", "400", "4", "1", "2"},
				{"launch_storm", "0.3", "10", "1000", "both"}, {"threads", "8", "3"},
				{"fork_storm", "4", "2"}, {"clients", "2", "2"}, {"waits", "receive", "10"},
				{"waits", "threads", "10"}, {"waits", "callback", "20"},
				{"capture_beside", "1", "joined"}, {"capture_beside", "1", "default"},
				{"green", "20", "default"}, {"fault", "50"},
			} {
				w := newWarden(t, 64<<20, 2*time.Millisecond)
				w.setThreads(50)
				w.gate(true)
				r := b.command(w, run[1:]...)
				r.Path = run[0]
				if run[0] != program {
					r.Path = filepath.Join(libs, "bin", run[0])
					r.Env = append(r.Env, "LD_LIBRARY_PATH="+libs, "WEIR_FAKE_DIR="+gpu,
						"WEIR_FAKE_CONTEXT=1MiB")
				}
				r.Args[0] = r.Path
				r.Env = append(r.Env, "LD_PRELOAD="+library, "TSAN_OPTIONS=die_after_fork=0",
					"ASAN_OPTIONS=verify_asan_link_order=0:detect_leaks=0")
				stop := churnGate(w)
				err := r.Run()
				close(stop)
				if _, failed := err.(*exec.ExitError); failed ||
					strings.Contains(r.err.String(), "Sanitizer") {
					t.Errorf("%v: %v\n%s%s", run, err, r.out.String(), clip(r.err.String()))
				}
			}
		})
	}
}

func clip(s string) string { return s[:min(len(s), 6000)] }

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
