package cpu

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/cpuinfo"
)

// cpusOfThread lists the processors of the calling thread's mask.
func cpusOfThread() (cpus []int) {
	set := maskOf(0)
	for c := range maxCPU {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

func TestPin(t *testing.T) {
	allowed := allowedCPUs()
	for _, opts := range []PoolOptions{
		{Threads: 2, Pin: true},
		{Threads: 3, Pin: true, CPUs: []int{-1, allowed[len(allowed)-1], maxCPU}},
	} {
		p := newTestPool(t, opts)
		want := func(worker int) []int { return []int{p.cpus[worker%len(p.cpus)]} }
		for range 20 {
			meet := &barrier{n: int32(opts.Threads)}
			a := newAudit(opts.Threads, opts.Threads, func(i, worker int) {
				if worker > 0 && !slices.Equal(cpusOfThread(), want(worker)) {
					t.Errorf("worker %d runs on %v, want %v", worker, cpusOfThread(), want(worker))
				}
				meet.Chunk(i, worker)
			})
			if err := p.Run(t.Context(), nil, opts.Threads, a); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPinCaller(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := cpusOfThread()
	for name, c := range map[string]struct {
		opts PoolOptions
		want []int
	}{
		"pinned pool":   {PoolOptions{Threads: 2, Pin: true}, before[:1]},
		"floating pool": {PoolOptions{Threads: 2}, before},
	} {
		p := newTestPool(t, c.opts)
		release := p.PinCaller()
		if got := cpusOfThread(); !slices.Equal(got, c.want) {
			t.Errorf("%s: on %v, want %v", name, got, c.want)
		}
		release()
		if got := cpusOfThread(); !slices.Equal(got, before) {
			t.Errorf("%s: after release on %v, want %v", name, got, before)
		}
	}
}

// TestHold ties the threads of a region under a lease on some units to those units' processors,
// and lets them go again under a lease on all.
func TestHold(t *testing.T) {
	allowed := allowedCPUs()
	if len(allowed) < 2 || Cores() != len(allowed) {
		t.Skip("units are no processors here")
	}
	last := len(allowed) - 1
	p := newTestPool(t, PoolOptions{Threads: len(allowed)})
	if !p.Partitions() {
		t.Fatal("the pool does not partition")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := p.NewCaller()
	sees := func(units device.Units, caller, worker []int) {
		t.Helper()
		c.Hold(units)
		meet := &barrier{n: 2}
		g := &narrowGate{units: units}
		if len(caller) == 1 {
			meet.n = 1
		}
		a := newAudit(2, len(allowed), func(i, w int) {
			meet.Chunk(i, w)
			want := caller
			if w == last {
				want = worker
			}
			if got := cpusOfThread(); (w == 0 || w == last) && !slices.Equal(got, want) {
				t.Errorf("units %b: worker %d runs on %v, want %v", units[0], w, got, want)
			}
		})
		if err := p.Run(t.Context(), g, 2, a); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		sees(unitsOf(last), allowed[last:], nil)
		if len(allowed) > 2 {
			sees(unitsOf(last-1, last), allowed[last-1:], allowed[last:])
		}
		sees(device.Units{^uint64(0)}, allowed, allowed)
		sees(unitsOf(0), allowed[:1], nil)
	}
	c.Release()
	if got := cpusOfThread(); !slices.Equal(got, allowed) {
		t.Errorf("after Release on %v, want %v", got, allowed)
	}
}

// ownCpuset puts the calling thread, to which the test is locked, into a cpuset of its own, until
// the test ends, and returns what changes the processors of that.
func ownCpuset(t *testing.T) (change func(cpus []int)) {
	t.Helper()
	group, err := os.ReadFile("/proc/thread-self/cpuset")
	if err != nil {
		t.Skip(err)
	}
	parent := filepath.Join("/sys/fs/cgroup/cpuset", strings.TrimSpace(string(group)))
	dir, err := os.MkdirTemp(parent, "weir-test-")
	if err != nil {
		t.Skip("no cpuset is to be had: ", err)
	}
	write := func(file, text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	change = func(cpus []int) {
		t.Helper()
		write(filepath.Join(dir, "cpuset.cpus"),
			strings.Trim(strings.ReplaceAll(fmt.Sprint(cpus), " ", ","), "[]"))
	}
	thread := fmt.Sprint(unix.Gettid())
	t.Cleanup(func() {
		write(filepath.Join(parent, "tasks"), thread)
		if err := os.Remove(dir); err != nil {
			t.Error(err)
		}
	})
	nodes, err := os.ReadFile(filepath.Join(parent, "cpuset.mems"))
	if err != nil {
		t.Fatal(err)
	}
	write(filepath.Join(dir, "cpuset.mems"), string(nodes))
	change(allowedCPUs())
	write(filepath.Join(dir, "tasks"), thread)
	return change
}

// TestCpusetGrows has a thread be tied, let go, pinned and moved while its cpuset has a processor
// less: it gets that when the cpuset has it again.
func TestCpusetGrows(t *testing.T) {
	allowed := allowedCPUs()
	if len(allowed) < 2 {
		t.Skip("there is one processor")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	change := ownCpuset(t)
	all := maskOf(0)
	all.Fill()
	a := newAffinity()
	if n := a.ask(all).Count(); n == len(allowed) {
		t.Errorf("a thread on all %d processors of its cpuset asks for no more", n)
	}
	floating := newTestPool(t, PoolOptions{Threads: len(allowed)})
	pinned := newTestPool(t, PoolOptions{Threads: len(allowed), Pin: true})
	for what, do := range map[string]func(){
		"held": func() {
			c := floating.NewCaller()
			c.Hold(unitsOf(0))
			c.Release()
		},
		"pinned": func() { pinned.PinCaller()() },
		"moved":  func() { apart(cpuinfo.Place(), &place{mask: newAffinity()}) },
	} {
		change(allowed[:len(allowed)-1])
		do()
		if got := cpusOfThread(); !slices.Equal(got, allowed[:len(allowed)-1]) {
			t.Errorf("%s: on %v, the cpuset has %v", what, got, allowed[:len(allowed)-1])
		}
		change(allowed)
		if got := cpusOfThread(); !slices.Equal(got, allowed) {
			t.Errorf("%s: on %v, the cpuset has %v again", what, got, allowed)
		}
	}
}

// TestAsksForLess: a thread that was given less than its cpuset has stays on that.
func TestAsksForLess(t *testing.T) {
	allowed := allowedCPUs()
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := threadMask()
	defer mask.restore()
	a, all := newAffinity(), maskOf(0)
	all.Fill()
	if got, want := given.Count(), a.ask(all).Count(); got != want {
		t.Errorf("threads ask for %d processors, a new one for %d", got, want)
	}
	if len(allowed) < 2 {
		t.Skip("there is one processor")
	}
	pinThread(allowed[:1])
	a = newAffinity()
	if got := a.ask(given); got.Count() != 1 || !got.IsSet(allowed[0]) {
		t.Errorf("a thread on one processor asks for %d", got.Count())
	}
	if got := cpusOfThread(); !slices.Equal(got, allowed[:1]) {
		t.Errorf("a thread is on %v afterwards, want %v", got, allowed[:1])
	}
}

// TestOwnMask: a thread that was tied by others has that mask again after it was held or pinned.
func TestOwnMask(t *testing.T) {
	allowed := allowedCPUs()
	if len(allowed) < 2 {
		t.Skip("there is one processor")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	mask := threadMask()
	defer mask.restore()
	own := allowed[1:2]
	pinThread(own)
	c := newTestPool(t, PoolOptions{Threads: len(allowed)}).NewCaller()
	c.Hold(unitsOf(0))
	c.Release()
	if got := cpusOfThread(); !slices.Equal(got, own) {
		t.Errorf("after Release on %v, want %v", got, own)
	}
	newTestPool(t, PoolOptions{Threads: 2, Pin: true}).PinCaller()()
	if got := cpusOfThread(); !slices.Equal(got, own) {
		t.Errorf("no longer pinned, on %v, want %v", got, own)
	}
}

// locked reports whether the calling goroutine is locked to its thread.
func locked() bool {
	stack := make([]byte, 200)
	head, _, _ := bytes.Cut(stack[:runtime.Stack(stack, false)], []byte("\n"))
	return bytes.Contains(head, []byte("locked to thread"))
}

// TestUnlocked: whatever locks a goroutine to its thread for a while lets it go.
func TestUnlocked(t *testing.T) {
	floating := newTestPool(t, PoolOptions{Threads: len(allowedCPUs())})
	pinned := newTestPool(t, PoolOptions{Threads: 2, Pin: true})
	c := floating.NewCaller()
	for what, do := range map[string]func() (holds bool){
		"apart": func() bool { apart(cpuinfo.Place(), &place{mask: newAffinity()}); return false },
		"hold":  func() bool { c.Hold(unitsOf(0)); return len(allowedCPUs()) > 1 && c.tied },
		"pin": func() bool {
			release := pinned.PinCaller()
			defer release()
			return !locked()
		},
	} {
		if holds := do(); locked() != holds {
			t.Errorf("%s: locked to the thread: %v", what, !holds)
		}
		c.Release()
		if locked() {
			t.Fatalf("%s: locked to the thread in the end", what)
		}
	}
}
