package shim

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/wire"
)

// TestTimeSide runs the library's time side (predictions, batches, room, gate, streams, captures
// and the watcher) in virtual time, case by case (testdata/virtual.h): what it does is told by
// value, whatever else this machine does.
func TestTimeSide(t *testing.T) {
	t.Parallel()
	for name, cases := range map[string]int{"pace": 64, "turns": 13, "whose": 14, "short": 10} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := onParts(t, name, "capture", "gate", "inflight", "own", "predict", "room",
				"short", "streams", "sync")
			if want := fmt.Sprintf("%d cases", cases); got != want {
				t.Errorf("want %s:\n%s", want, got)
			}
		})
	}
}

// TestLaunchesAreCountedAtExit has a program exit with a batch of launches open: those count, too.
func TestLaunchesAreCountedAtExit(t *testing.T) {
	t.Parallel()
	b := compiled(t)
	const launches = 100
	for range 4 {
		w := newWarden(t, testCap, 2*time.Millisecond)
		w.gate(true)
		b.command(w, "launches", fmt.Sprint(launches), "1000").run(t)
		if n := w.page.Slot(0).Launches.Load(); n != launches {
			t.Errorf("%d launches count, of %d", n, launches)
		}
	}
}

// TestFullQueue has a program wait for nobody while the device's queue is full: as soon as it is,
// and when the watcher, too, waits in the driver for a place in it. One that waits never ends.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	compiled(t)
	for threads, when := range map[string]string{"1": "at once", "2": "beside the watcher"} {
		w := newWarden(t, 1<<30, 2*time.Millisecond)
		w.gate(true)
		if out := onFake(t, w, t.TempDir(), "full", threads).run(t); out != "done\n" {
			t.Errorf("%s: %q", when, out)
		}
	}
}

// TestWatcherIsPrompt has the library's own thread, and none of the program's, ask the kernel for
// the shortest slices.
func TestWatcherIsPrompt(t *testing.T) {
	t.Parallel()
	const shortest = 100_000
	slice := func(thread int) uint64 {
		how, err := unix.SchedGetAttr(thread, 0)
		if err != nil {
			return 0
		}
		return how.Runtime
	}
	runtime.LockOSThread() // and never unlocked, so that the thread goes
	if unix.SchedSetAttr(0, &unix.SchedAttr{Runtime: shortest}, 0) != nil || slice(0) != shortest {
		t.Skip("the kernel goes by no slices of threads: Linux from 6.12 on does")
	}
	w := newWarden(t, testCap, 2*time.Millisecond)
	r := compiled(t).command(w, "launches", "1", "1000")
	plain := &unix.SchedAttr{Runtime: 3_000_000} // what the program begins with, and its threads
	if err := unix.SchedSetAttr(0, plain, 0); err != nil {
		t.Fatal(err)
	}
	r.start(t)
	w.expect(wire.KindWant) // it waits at the gate, with the watcher beside it
	tasks := fmt.Sprintf("/proc/%d/task", r.Process.Pid)
	count := func() (prompt, others int) {
		threads, err := os.ReadDir(tasks)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range threads {
			id, _ := strconv.Atoi(e.Name())
			if slice(id) == shortest {
				prompt++
			} else {
				others++
			}
		}
		return prompt, others
	}
	prompt, others := count()
	for end := time.Now().Add(patience); prompt == 0 && time.Now().Before(end); {
		runtime.Gosched() // it may have yet to begin
		prompt, others = count()
	}
	if prompt != 1 || others == 0 || slice(r.Process.Pid) == shortest {
		t.Errorf("%d threads with short slices, %d others", prompt, others)
	}
}

// TestAllWaysToLaunchAreMetered launches by each of the driver's calls: the program waits at the
// closed gate, and what it launches then is counted and measured.
func TestAllWaysToLaunchAreMetered(t *testing.T) {
	compiled(t)
	const launches = 20
	for _, call := range []string{"cuLaunchKernel", "cuLaunchKernel_ptsz", "cuLaunchKernelEx",
		"cuLaunchKernelEx_ptsz", "cuLaunchCooperativeKernel", "cuLaunchCooperativeKernel_ptsz",
		"cuLaunchCooperativeKernelMultiDevice", "cuLaunch", "cuLaunchGrid", "cuLaunchGridAsync",
		"cuMemPrefetchAsync", "cuMemPrefetchAsync_ptsz", "cuMemPrefetchAsync_v2",
		"cuMemPrefetchAsync_v2_ptsz"} {
		t.Run(call, func(t *testing.T) {
			w := newWarden(t, fakeCap, 2*time.Millisecond)
			r := onFake(t, w, t.TempDir(), "ways", call, fmt.Sprint(launches)).virtual(t)
			r.start(t)
			s := w.page.Slot(0)
			until(t, "a launch waits", func() bool { return s.Waiting.Load() == 1 })
			if n := s.Launches.Load(); n != 0 {
				t.Errorf("%d launches at the closed gate", n)
			}
			w.gate(true)
			r.finish(t)
			if n, ns := s.Launches.Load(), s.DeviceNSTotal.Load(); n != launches ||
				ns < launches*500_000 { // the last of them nobody looks at
				t.Errorf("%d launches of %d counted, with %d ns", n, launches, ns)
			}
		})
	}
}
