package shim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// fake is the fake driver with the device model, compiled once.
var fake = sync.OnceValues(func() (string, error) {
	dir, err := kept()
	if err != nil {
		return "", err
	}
	return fakecuda.Build(context.Background(), dir, "")
})

// onFake prepares one of the fake driver's programs under the library.
func onFake(t testing.TB, w *warden, dir, program string, args ...string) *running {
	t.Helper()
	b := compiled(t)
	libs, err := fake()
	if err != nil {
		t.Fatal(err)
	}
	r := b.command(w, args...)
	r.Path = filepath.Join(libs, "bin", program)
	r.Args[0] = r.Path
	r.Env = append(r.Env, "LD_LIBRARY_PATH="+libs, "WEIR_FAKE_DIR="+dir, "WEIR_FAKE_CONTEXT=16MiB")
	return r
}

const fakeCap = 128 << 20

// TestAllFamiliesOnTheFakeDriver allocates and frees over all families of calls, in several
// processes, against a cap far below what they ask for.
func TestAllFamiliesOnTheFakeDriver(t *testing.T) {
	onProfiles(t, "", allFamilies)
}

func allFamilies(t *testing.T, profile string) {
	compiled(t)
	processes, operations := 4, 4000
	if long {
		processes, operations = 8, 100000
	}
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	dir := t.TempDir()
	var all []*running
	for i := range processes {
		r := onFake(t, w, dir, "alloc_storm", fmt.Sprint(operations), "16", fmt.Sprint(i+1), "2")
		r.Env = append(r.Env, profile)
		r.start(t)
		all = append(all, r)
	}
	refused := 0
	for _, r := range all {
		var result struct{ Operations, Allocations, Refused int }
		lines := strings.Split(strings.TrimSpace(r.finish(t)), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &result); err != nil ||
			result.Allocations == 0 {
			t.Errorf("%q: %v", lines, err)
		}
		refused += result.Refused
	}
	for i := range uint32(processes) {
		if s := w.page.Slot(i); s.MemUsedBytes.Load() != 0 || s.MemPendingBytes.Load() != 0 {
			t.Errorf("slot %d holds %d bytes, %d pending at the end", i,
				int64(s.MemUsedBytes.Load()), s.MemPendingBytes.Load())
		}
	}
	device := fakeDevice(t, dir)
	for end := time.Now().Add(patience); device.Used != 0 && time.Now().Before(end); {
		device = fakeDevice(t, dir) // what processes held is free some time after their end
	}
	if device.Used != 0 || device.Peak > fakeCap || device.Peak < fakeCap/2 {
		t.Errorf("the device held %d bytes at most, of %d, and %d at the end", device.Peak,
			fakeCap, device.Used)
	}
	t.Logf("%d requests refused (fake)", refused)
	if refused == 0 {
		t.Error("the cap was never met")
	}
}

// fakeDevice is what the device itself holds and has held at most.
func fakeDevice(t *testing.T, dir string) (d struct{ Used, Peak uint64 }) {
	t.Helper()
	if err := json.Unmarshal([]byte(onFake(t, nil, dir, "smi").run(t)), &d); err != nil {
		t.Fatal(err)
	}
	return d
}

// fakeMeter gives a function that says what the device holds, as fakeDevice does, for who answers a
// program that waits: also on a busy machine it takes no longer than the device's lock. The
// function is called once the device is there, by one goroutine at a time.
func fakeMeter(t *testing.T, dir string) func() uint64 {
	t.Helper()
	r := onFake(t, nil, dir, "smi", "used")
	r.Stdout = nil
	in, err1 := r.StdinPipe()
	out, err2 := r.StdoutPipe()
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	start := sync.OnceValue(r.Start)
	t.Cleanup(func() { _ = in.Close(); _ = r.Wait() })
	return func() (used uint64) {
		err := start()
		if err == nil {
			_, err = fmt.Fprintln(in)
		}
		if err == nil {
			_, err = fmt.Fscanln(out, &used)
		}
		if err != nil {
			t.Errorf("%v: %v", r.Args, err)
		}
		return used
	}
}

// TestProgramsOnTheFakeDriver runs programs that launch, capture, fork and use many threads, with
// the gate opened and closed under them.
func TestProgramsOnTheFakeDriver(t *testing.T) {
	compiled(t)
	for _, c := range [][]string{
		{"launch_storm", "1", "10", "2000", "eager"}, {"launch_storm", "1", "10", "2000", "graph"},
		{"launch_storm", "1", "10", "2000", "both"},
		{"threads", "64", "10"}, {"fork_storm", "20", "4"}, {"long_kernel", "0.5"}, {"future"},
		{"ipc"}, {"train", "1", "250", "64"}, {"waits", "value", "50", "4"},
		{"waits", "receive", "50"}, {"waits", "threads", "50"}, {"waits", "callback", "50"},
		{"contents"}, {"copies"},
	} {
		onProfiles(t, strings.Join(c, " "), func(t *testing.T, profile string) {
			w := newWarden(t, 12<<30, 2*time.Millisecond)
			w.gate(true)
			stop := churnGate(w)
			defer close(stop)
			r := onFake(t, w, t.TempDir(), c[0], c[1:]...)
			r.Env = append(r.Env, profile)
			t.Log(strings.TrimSpace(r.run(t)))
		})
	}
}

// onProfiles runs a test on both profiles of the fake device; profile is the setting.
func onProfiles(t *testing.T, name string, test func(t *testing.T, profile string)) {
	for _, profile := range []string{"plain", "hardware"} {
		t.Run(strings.TrimSpace(name+" "+profile), func(t *testing.T) {
			test(t, "WEIR_FAKE_PROFILE="+profile)
		})
	}
}

// TestRandomKernelsKeepTheDeviceBusy runs kernels of one function whose lengths differ by a factor
// of thousands, alone: waiting for what was predicted, and not for what is, would leave the device
// idle most of the time.
func TestRandomKernelsKeepTheDeviceBusy(t *testing.T) {
	w := newWarden(t, 1<<30, 2*time.Millisecond)
	w.gate(true)
	r := onFake(t, w, t.TempDir(), "launch_storm", "4", "10", "20000", "eager").virtual(t)
	var got struct {
		Device float64 `json:"device_us"`
		Wall   float64 `json:"wall_us"`
	}
	if out := strings.TrimSpace(r.run(t)); json.Unmarshal([]byte(out), &got) != nil {
		t.Fatalf("%q", out)
	}
	if busy := got.Device / got.Wall; busy < 0.95 {
		t.Errorf("the device was busy for %.3f of the time", busy)
	}
}

func TestKillsOnTheFakeDriver(t *testing.T) {
	onProfiles(t, "", killsOnTheFake)
}

func killsOnTheFake(t *testing.T, profile string) {
	compiled(t)
	w := newWarden(t, fakeCap, 2*time.Millisecond)
	w.gate(true)
	dir := t.TempDir()
	kills := 12
	if long {
		kills = 1000
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range kills / 4 {
				r := onFake(t, w, dir, "alloc_storm", "1000000", "16")
				r.Env = append(r.Env, profile)
				if err := r.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
				_ = r.Process.Kill()
				_ = r.Wait()
				w.release(r.Process.Pid)
			}
		})
	}
	wg.Wait()
	if held := w.page.MemoryHeld(); held != 0 {
		t.Errorf("the ledger holds %d bytes of dead processes", held)
	}
}

// TestNVMLTellsTheCap asks NVML as a monitoring program does.
func TestNVMLTellsTheCap(t *testing.T) {
	b := compiled(t)
	libs, err := fake()
	if err != nil {
		t.Fatal(err)
	}
	program, err := keptC("nvml", []string{"-O2", "-Wall", "-Wextra", "-Werror"}, "testdata/nvml.c")
	if err != nil {
		t.Fatal(err)
	}
	w := newWarden(t, fakeCap, 0)
	r := b.command(w)
	r.Path, r.Args[0] = program, program
	r.Env = append(r.Env, "LD_LIBRARY_PATH="+libs, "WEIR_FAKE_DIR="+t.TempDir())
	want := fmt.Sprintf("v1 0 total %d free %[1]d used 0\nv2 0 total %[1]d free %[1]d used 0\n",
		fakeCap)
	if got := r.run(t); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
