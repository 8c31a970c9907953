package shim

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

func TestBuildIsKept(t *testing.T) {
	b := compiled(t)
	before, err := os.Stat(b.library)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if path, err := Build(context.Background(), b.cache, "no-such-compiler"); err != nil ||
				path != b.library {
				t.Errorf("Build = %q, %v, want %q", path, err, b.library)
			}
		})
	}
	wg.Wait()
	if after, err := os.Stat(b.library); err != nil || !os.SameFile(before, after) ||
		!after.ModTime().Equal(before.ModTime()) {
		t.Errorf("the library was built again: %v", err)
	}
}

// TestUnpack holds that a library carried along is put into the cache once, whole, and not written
// to again.
func TestUnpack(t *testing.T) {
	cache, library := t.TempDir(), []byte("\x7fELF and so on")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			path, err := unpack(cache, library)
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := os.ReadFile(path); err != nil || string(got) != string(library) {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
	wg.Wait()
	path, _ := unpack(cache, library)
	before, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := unpack(cache, library); err != nil || again != path {
		t.Errorf("%q, %v", again, err)
	}
	if after, err := os.Stat(path); err != nil || !os.SameFile(before, after) {
		t.Errorf("written again: %v", err)
	}
	if other, err := unpack(cache, []byte("another")); err != nil || other == path {
		t.Errorf("another library at %q, %v", other, err)
	}
	if left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "*")); len(left) != 1 {
		t.Errorf("left behind: %v", left)
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	_, err := Build(context.Background(), t.TempDir(), "no-such-compiler")
	if !errors.Is(err, ErrNoCompiler) || !strings.Contains(err.Error(), "--shim") {
		t.Errorf("Build = %v, want ErrNoCompiler with the way out", err)
	}
}

func TestBuildTellsWhatTheCompilerSaid(t *testing.T) {
	dir := t.TempDir()
	cc := filepath.Join(dir, "cc")
	if err := os.WriteFile(cc, []byte("#!/bin/sh\necho unknown option >&2\nexit 1\n"),
		0o755); err != nil {
		t.Fatal(err)
	}
	_, err := Build(context.Background(), dir, cc)
	if err == nil || !strings.Contains(err.Error(), "unknown option") {
		t.Errorf("Build = %v, want the compiler's words", err)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "weir", "shim", "*", "*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

func TestWithoutJobAllPasses(t *testing.T) {
	b := compiled(t)
	got := b.command(nil, "info", "1000").run(t)
	if !strings.Contains(got, fmt.Sprintf("alloc 0 free %d total %d", 64<<30-1000, 64<<30)) {
		t.Errorf("got %q", got)
	}
}

func TestWithoutAgentThereIsNoDevice(t *testing.T) {
	b := compiled(t)
	for name, job := range map[string]string{"no agent": "00112233445566778899aabbccddeeff",
		"bad token": "x"} {
		r := b.command(nil, "info")
		r.Env = append(r.Env, "WEIR_JOB="+job, "WEIR_SOCKET="+filepath.Join(t.TempDir(), "none"))
		err := r.Run()
		if err == nil || !strings.Contains(r.out.String(), "cuInit: 802") ||
			strings.Count(r.err.String(), "weir: no share") != 1 {
			t.Errorf("%s: %v, out %q, err %q", name, err, r.out.String(), r.err.String())
		}
	}
}

func TestRefusalIsTold(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 0)
	r := b.command(w, "info")
	r.Env = append(r.Env, "WEIR_JOB=ffffffffffffffffffffffffffffffff")
	if err := r.Run(); err == nil || !strings.Contains(r.err.String(), "no job has this token") {
		t.Errorf("%v, err %q", err, r.err.String())
	}
}

func TestCapIsWhatTheProgramSees(t *testing.T) {
	b := compiled(t)
	for _, c := range []struct {
		ask, result, free uint64
	}{{testCap, 0, 0}, {testCap + 1, 2, testCap}, {testCap - 1, 0, 1}, {1 << 63, 2, testCap},
		{1<<64 - 1, 2, testCap}} {
		w := newWarden(t, testCap, 0)
		got := b.command(w, "info", fmt.Sprint(c.ask)).run(t)
		want := fmt.Sprintf("alloc %d free %d total %d device %d\n", c.result, c.free, testCap,
			testCap)
		if got != want {
			t.Errorf("asking %d: got %q, want %q", c.ask, got, want)
		}
	}
}

// driverLedger is what the device itself holds and has held at most.
func driverLedger(t *testing.T, w *warden) (used, peak uint64) {
	t.Helper()
	text, err := os.ReadFile(w.path + ".ledger")
	if err != nil || len(text) < 16 {
		t.Fatalf("driver's ledger: %v", err)
	}
	return binary.NativeEndian.Uint64(text), binary.NativeEndian.Uint64(text[8:])
}

func TestMemoryOfManyProcesses(t *testing.T) {
	b := compiled(t)
	const processes = 8
	rounds := 2000
	if long {
		rounds = 12500 // of each of 8 threads: 100,000 a process
	}
	w := newWarden(t, testCap, 0)
	var all []*running
	for range processes {
		// one thread alone meets the cap
		r := b.command(w, "memory", fmt.Sprint(rounds), fmt.Sprint(testCap/8))
		r.start(t)
		all = append(all, r)
	}
	denied := 0
	for _, r := range all {
		var granted, no int
		if _, err := fmt.Sscanf(r.finish(t), "granted %d denied %d", &granted, &no); err != nil ||
			granted == 0 {
			t.Errorf("out %q: %v", r.out.String(), err)
		}
		denied += no
	}
	if held := w.page.MemoryHeld(); held != 0 {
		t.Errorf("the ledger holds %d bytes at the end", held)
	}
	used, peak := driverLedger(t, w)
	if used != 0 || peak > testCap || denied == 0 ||
		uint64(denied) != w.page.Header().DeniedAllocs.Load() {
		t.Errorf("device: %d held, peak %d of %d, %d denied", used, peak, testCap, denied)
	}
	t.Logf("peak %d of %d bytes, %d requests denied", peak, testCap, denied)
}

func TestMemoryWhenProcessesAreKilled(t *testing.T) {
	b := compiled(t)
	kills := 60
	if long {
		kills = 1000
	}
	w := newWarden(t, testCap, 0)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range kills / 4 {
				r := b.command(w, "memory", "1000000", fmt.Sprint(testCap/64))
				if err := r.Start(); err != nil {
					t.Error(err)
					return
				}
				time.Sleep(time.Duration(rand.IntN(20)) * time.Millisecond)
				_ = r.Process.Kill()
				_ = r.Wait()
				w.release(r.Process.Pid)
			}
		})
	}
	wg.Wait()
	for i := range uint32(wire.SlotCount) {
		if s := w.page.Slot(i); s.MemUsedBytes.Load() != 0 || s.MemPendingBytes.Load() != 0 {
			t.Errorf("slot %d holds %d bytes, %d pending", i, s.MemUsedBytes.Load(),
				s.MemPendingBytes.Load())
		}
	}
	if got := b.command(w, "info", fmt.Sprint(testCap)).run(t); !strings.Contains(got, "alloc 0 ") {
		t.Errorf("the whole cap is not to be had after the kills: %q", got)
	}
}

func TestGate(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	r := b.command(w, "launches", "50", "100000", "0", "1000000")
	r.start(t)
	w.expect(wire.KindWant)
	if s := w.page.Slot(0); s.Waiting.Load() != 1 || s.Launches.Load() != 0 {
		t.Errorf("at the closed gate: %d waiting, %d launches", s.Waiting.Load(), s.Launches.Load())
	}
	open := w.gate(true)
	s := w.page.Slot(0)
	// a slow host makes it idle in between, too
	for done := false; !done; done = s.Launches.Load() == 50 && s.InflightNS.Load() == 0 {
		if idle := w.expect(wire.KindIdle); idle.Gate != open {
			t.Errorf("idle at gate %d, want %d", idle.Gate, open)
		}
	}
	if s.Launches.Load() != 50 || s.Waiting.Load() != 0 || s.InflightNS.Load() != 0 {
		t.Errorf("after all: %d launches, %d waiting, %d ns in flight", s.Launches.Load(),
			s.Waiting.Load(), s.InflightNS.Load())
	}
	if got := time.Duration(s.DeviceNSTotal.Load()); got < 3*time.Millisecond ||
		got > 12*time.Millisecond {
		t.Errorf("device time %v of 50 kernels of 100 us", got)
	}
	r.finish(t)
}

// TestShortKernelsPass closes the gate under kernels of 20 us: they pass if that is free and they
// are known, others wait.
func TestShortKernelsPass(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	free := &w.page.Header().FreeNS
	free.Store(uint64(100 * time.Millisecond))
	r := b.command(w, "launches", "1000000", "20000")
	r.start(t)
	w.expect(wire.KindWant) // nobody knows yet how long they take
	s := w.page.Slot(0)
	passed := func(n uint64) bool {
		t.Helper()
		from := s.Launches.Load()
		for end := time.Now().Add(patience); s.Launches.Load() < from+n; {
			if time.Now().After(end) {
				return false
			}
			time.Sleep(time.Millisecond)
		}
		return true
	}
	w.gate(true)
	if !passed(50) {
		t.Fatal("no launches at the open gate")
	}
	closed := w.gate(false)
	for w.expect(wire.KindDrained).Gate != closed {
	}
	if !passed(200) || s.DrainedSeq.Load() != closed || s.InflightNS.Load() != 0 {
		t.Errorf("at the closed gate: %d launches, drained at %d of %d, %d ns in flight",
			s.Launches.Load(), s.DrainedSeq.Load(), closed, s.InflightNS.Load())
	}
	if s.PassedNS.Load() == 0 {
		t.Error("what has passed is not counted")
	}
	until(t, "it waits between launches", func() bool { return s.Waiting.Load() == 1 })
	free.Store(1)
	var before uint64
	until(t, "launches end", func() bool {
		before = s.Launches.Load()
		time.Sleep(20 * time.Millisecond)
		return s.Waiting.Load() == 1 && s.Launches.Load() == before
	})
	time.Sleep(20 * time.Millisecond)
	// a thread that was kept from running since it found the gate free may launch once more
	if w.expect(wire.KindWant).Gate != closed || s.Launches.Load() > before+1 {
		t.Errorf("kernels that are too long for it pass: %d waiting, %d launches then %d",
			s.Waiting.Load(), before, s.Launches.Load())
	}
	// One that waits hears of it when it may pass.
	free.Store(uint64(100 * time.Millisecond))
	w.page.WakeGate()
	if !passed(200) {
		t.Error("a launch that may pass waits on")
	}
}

// TestClosingDrains holds that a process with work in flight says that it has drained once that has
// ended, as it does not sleep over it, and launches nothing until the gate is open again.
func TestClosingDrains(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	r := b.command(w, "launches", "4000", "50000")
	asleep := r.patient(t)
	r.start(t)
	s := w.page.Slot(0)
	for round := range 10 {
		before := s.Launches.Load()
		until(t, "it launches", func() bool { return s.Launches.Load() >= before+40 })
		closed := w.gate(false)
		from := time.Now()
		for wait := w.expect(
			wire.KindDrained); wait.Gate != closed; wait = w.expect(wire.KindDrained) {
		}
		if s.DrainedSeq.Load() != closed || s.InflightNS.Load() != 0 {
			t.Errorf("round %d: drained_seq %d at gate %d, %d ns in flight", round,
				s.DrainedSeq.Load(), closed, s.InflightNS.Load())
		}
		if took := time.Since(from); took > asleep {
			t.Errorf("round %d: drained after %v with 2 ms in flight", round, took)
		}
		before = s.Launches.Load()
		time.Sleep(5 * time.Millisecond)
		if after := s.Launches.Load(); after != before {
			t.Errorf("round %d: %d launches at a closed gate", round, after-before)
		}
		w.gate(true)
	}
	r.finish(t)
}

// TestClosingWhileAsleep holds that a process that has gone to sleep with the gate open tells that
// nothing is in flight when a launch then comes to the closed gate, which wakes it.
func TestClosingWhileAsleep(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	r := b.command(w, "pauses", "1000000")
	asleep := r.patient(t)
	r.start(t)
	s := w.page.Slot(0)
	for round := range 10 {
		w.expect(wire.KindIdle)
		closed := w.gate(false)
		w.expect(wire.KindWant)
		from := time.Now()
		until(t, "it drains", func() bool { return s.DrainedSeq.Load() == closed })
		if took := time.Since(from); took > asleep {
			t.Errorf("round %d: drained after %v with nothing in flight", round, took)
		}
		w.gate(true)
	}
}

// TestScribbledPage holds that a program survives whatever the page says.
func TestScribbledPage(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	r := b.command(w, "threads", "8")
	r.start(t)
	<-w.hellos
	// The page's memory as words, whatever they mean; what identifies it is not read again.
	words, err := unix.Mmap(int(w.page.File().Fd()), 0, wire.PageSize,
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(words) }()
	x := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		binary.NativeEndian.PutUint64(words[64+8*x.IntN((wire.PageSize-64)/8):], x.Uint64())
		if x.IntN(50) == 0 {
			w.page.WakeGate()
			time.Sleep(200 * time.Microsecond)
		}
	}
	clear(words[64:])
	w.gate(true)
	// What the page says of memory may be that there is none, and a program without memory ends by
	// itself.
	if err := r.Wait(); r.out.String() != "done\n" &&
		(err == nil || !strings.HasSuffix(r.out.String(), ": 2\n")) {
		t.Errorf("%v, got %q", err, r.out.String())
	}
}

func TestWorkInFlightIsBounded(t *testing.T) {
	b := compiled(t)
	for _, ns := range []int{2_000, 10_000, 100_000, 700_000, 5_000_000} {
		t.Run(time.Duration(ns).String(), func(t *testing.T) {
			const bound = 2 * time.Millisecond
			w := newWarden(t, testCap, bound)
			w.gate(true)
			n := min(20000, 200_000_000/ns)
			// One kernel may be longer than the bound, and predictions are means.
			most := bound + bound/8 + 2*time.Duration(ns) + bound/4
			least := min(bound/2, time.Duration(n*ns)/4)
			// a slow host launches kernels as short as this no faster than the device runs them
			if ns < 10_000 {
				least = 0
			}
			// A host whose processors are busy keeps a program from launching as fast as the device
			// works, whatever the gate allows: one run of several has to fill it.
			var fullest time.Duration
			for run := 0; run == 0 || run < 8 && fullest < least; run++ {
				got := b.command(w, "launches", fmt.Sprint(n), fmt.Sprint(ns), "1").run(t)
				var count int
				var peak time.Duration
				if _, err := fmt.Sscanf(got, "launched %d peak %d", &count, &peak); err != nil ||
					count != n {
					t.Fatalf("got %q: %v", got, err)
				}
				if peak > most {
					t.Errorf("%v in flight at most, want at most %v", peak, most)
				}
				fullest = max(fullest, peak)
			}
			if fullest < least {
				t.Errorf("only %v in flight at most: the device runs dry", fullest)
			}
		})
	}
}

// TestOneSurpriseAtATime: of launches whose time could be anything, several in flight could hold
// the device for many times what one does after the gate has closed.
func TestOneSurpriseAtATime(t *testing.T) {
	b := compiled(t)
	const bound, longest = 300 * time.Microsecond, 10 * time.Millisecond
	for _, c := range []struct {
		name, once string
		n          int
	}{{"of one function", "0", 320}, {"of functions launched once", "1", 40}} {
		t.Run(c.name, func(t *testing.T) {
			w := newWarden(t, testCap, bound)
			w.gate(true)
			got := b.command(w, "surprises", fmt.Sprint(c.n), fmt.Sprint(longest.Nanoseconds()),
				c.once).run(t)
			var count int
			var peak time.Duration
			if _, err := fmt.Sscanf(got, "launched %d peak %d", &count, &peak); err != nil ||
				count != c.n {
				t.Fatalf("got %q: %v", got, err)
			}
			if most := longest + bound + bound/8; peak > most {
				t.Errorf("%v in flight at most, want at most %v", peak, most)
			}
		})
	}
}

// TestLongKernelsAreNoReasonToFlood: kernels of 100 ms that were never measured look for a while
// like ones that wait for what is launched next. What is let through then is little, and the next
// ones wait as they must.
func TestLongKernelsAreNoReasonToFlood(t *testing.T) {
	b := compiled(t)
	const longest, allowed = 100 * time.Millisecond, 3
	w := newWarden(t, testCap, 300*time.Microsecond)
	w.gate(true)
	r := b.command(w, "surprises", "12", fmt.Sprint(longest.Nanoseconds()), "1").virtual(t)
	got := r.run(t)
	var count int
	var peak time.Duration
	if _, err := fmt.Sscanf(got, "launched %d peak %d", &count, &peak); err != nil || count != 12 {
		t.Fatalf("got %q: %v", got, err)
	}
	stalls := w.page.Slot(0).Stalls.Load()
	if peak > allowed*longest || stalls == 0 {
		t.Errorf("%v in flight at most, want at most %v; %d stalls", peak, allowed*longest, stalls)
	}
}

func TestAgentDies(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	r := b.command(w, "launches", "1000", "20000")
	r.start(t)
	w.expect(wire.KindWant)
	w.stop()
	r.finish(t) // the gate was never opened
	w.start()
}

func TestAgentReturns(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	r := b.command(w, "launches", "100000", "50000")
	r.start(t)
	<-w.hellos
	w.stop()
	closed := w.gate(false)
	w.start()
	select {
	case h := <-w.hellos:
		if !h.Rejoins() || h.Slot != 0 {
			t.Errorf("hello %+v", h)
		}
	case <-time.After(patience):
		t.Fatal("the program did not come back")
	}
	s := w.page.Slot(0)
	until(t, "the program drains", func() bool { return s.DrainedSeq.Load() == closed })
}

// TestLargeThreadLocals: of a program whose thread-local variables are larger than many a stack
// somebody sees that it has drained.
func TestLargeThreadLocals(t *testing.T) {
	b := compiled(t)
	locals, err := keptC("locals.so", []string{"-shared", "-fPIC", "-O2"}, "testdata/locals.c")
	if err != nil {
		t.Fatal(err)
	}
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	r := b.command(w, "launches", "100000", "50000")
	r.Env = append(r.Env, "LD_PRELOAD="+b.library+":"+locals)
	r.start(t)
	<-w.hellos
	closed := w.gate(false)
	s := w.page.Slot(0)
	until(t, "the program drains", func() bool { return s.DrainedSeq.Load() == closed })
}

func TestForks(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	got := b.command(w, "forks").run(t)
	want := fmt.Sprintf("child free %d\nparent done\n", testCap-1500)
	if got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if n := len(w.hellos); n != 2 {
		t.Errorf("%d processes attached, want the parent and the child that used CUDA", n)
	}
}

func TestLookups(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 0)
	got := b.command(w, "lookups").run(t)
	want := `cuMemFree 2000 0: 0 libweir-cuda.so cuMemFree
cuMemFree 12000 0: 0 libweir-cuda.so cuMemFree_v2
cuMemFree 99000 0: 0 libcuda.so.1 ?
cuMemAlloc 12000 0: 0 libweir-cuda.so cuMemAlloc_v2
cuLaunchKernel 12000 1: 0 libweir-cuda.so cuLaunchKernel
cuLaunchKernel 12000 2: 0 libweir-cuda.so cuLaunchKernel_ptsz
cuEventQuery 12000 0: 0 libcuda.so.1 cuEventQuery
cuNoSuchCall 12000 0: 500 none
dlsym cuMemFree_v2: libweir-cuda.so cuMemFree_v2
dlsym cuMemFree: libweir-cuda.so cuMemFree
dlsym cuNoSuchCall: none
dlsym cuMemCreate: none
dlsym driver_flying_peak: libcuda.so.1 driver_flying_peak
dlsym cuEventQuery: libweir-cuda.so cuEventQuery
dlsym malloc: found
dlsym next: found
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

func TestCallsThatTheDriverLacks(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 0)
	if got := b.command(w, "lacking").run(t); got != "create 500 upload 500\n" {
		t.Errorf("got %q", got)
	}
}

// TestStandIn holds the second way of entry: the library found under the driver's name.
func TestStandIn(t *testing.T) {
	b := compiled(t)
	dir := t.TempDir()
	if err := os.Symlink(b.library, filepath.Join(dir, "libcuda.so.1")); err != nil {
		t.Fatal(err)
	}
	for name, env := range map[string][]string{
		"given": {"LD_PRELOAD=", "LD_LIBRARY_PATH=" + dir,
			"WEIR_REAL_LIBCUDA=" + filepath.Join(b.dir, "libcuda.so.1")},
		"found": {"LD_PRELOAD=", "LD_LIBRARY_PATH=" + dir + ":" + b.dir},
	} {
		w := newWarden(t, testCap, 0)
		r := b.command(w, "info", "1000")
		r.Env = append(r.Env, env...)
		if got := r.run(t); !strings.HasPrefix(got,
			fmt.Sprintf("alloc 0 free %d total %d", testCap-1000, testCap)) {
			t.Errorf("%s: got %q", name, got)
		}
	}
}

func TestManyThreads(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 2*time.Millisecond)
	w.gate(true)
	if got := b.command(w, "threads", "64").run(t); got != "done\n" {
		t.Errorf("got %q", got)
	}
}

// TestLaunchCost prints what a launch costs beside the bare call, on a driver whose calls cost
// nothing.
func TestLaunchCost(t *testing.T) {
	b := compiled(t)
	w := newWarden(t, testCap, 20*time.Millisecond)
	w.gate(true)
	bare := b.command(nil, "cost")
	bare.Env = append(bare.Env, "LD_PRELOAD=")
	for _, c := range []struct {
		name string
		r    *running
		most int
	}{{"bare call", bare, 1 << 20}, {"no job", b.command(nil, "cost"), 1 << 20},
		{"gate open", b.command(w, "cost"), 1 << 20}} {
		t.Logf("%s: %s", c.name, strings.TrimSpace(c.r.run(t)))
	}
}

// TestNextOfALibrary holds that a library which asks for what comes after itself gets the library
// where that is the driver's, and what there is otherwise.
func TestNextOfALibrary(t *testing.T) {
	b := compiled(t)
	library, err := keptC("next.so", []string{"-shared", "-fPIC", "-O2"}, "testdata/next.c")
	if err != nil {
		t.Fatal(err)
	}
	driver := filepath.Join(b.dir, "libcuda.so.1")
	const others = "next driver_flying_peak: libcuda.so.1\nnext next_of_nobody: none\n"
	for _, c := range []struct{ name, preload, want string }{
		{"after weir's", b.library + ":" + library + ":" + driver, "libweir-cuda.so"},
		{"before weir's", library + ":" + b.library + ":" + driver, "libweir-cuda.so"},
		{"after the driver's", b.library + ":" + driver + ":" + library, "none"},
	} {
		w := newWarden(t, testCap, 0)
		r := b.command(w, "info")
		r.Env = append(r.Env, "LD_PRELOAD="+c.preload)
		got := r.run(t)
		if !strings.Contains(got, "next cuMemAlloc_v2: "+c.want+"\n") ||
			c.want != "none" && !strings.Contains(got, others) {
			t.Errorf("%s: got\n%s", c.name, got)
		}
	}
}
