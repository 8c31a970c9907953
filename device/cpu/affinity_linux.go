package cpu

import (
	"runtime"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// allowedCPUs returns the processors the process may run on, ascending, or nil if the system does
// not say. They are read once, before the first thread is pinned: a process has no mask apart from
// those of its threads.
var allowedCPUs = sync.OnceValue(func() (cpus []int) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, all := newAffinity(), maskOf(0)
	for c := range len(a.set) * 64 {
		if a.set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	all.Fill()
	given = a.ask(all)
	return cpus
})

// given is what threads of the process ask for that nobody tied, once allowedCPUs are known: all
// processors where the process may run on all that its cpuset has. Linux 6.2 and later run a thread
// on what it asked for as far as its cpuset has that: one that asks for what the cpuset has today
// gets nothing of what that has tomorrow.
var given unix.CPUSetDynamic

// maskOf returns the affinity mask of a thread, 0 for the calling one, or nil.
func maskOf(thread int) unix.CPUSetDynamic {
	// The kernel refuses a mask shorter than its own, whose length it does not tell.
	for size := 1024; size <= maxCPU; size *= 4 {
		set := unix.NewCPUSet(size)
		if unix.SchedGetaffinityDynamic(thread, set) == nil {
			return set
		}
	}
	return nil
}

// affinity is a thread's mask, and memory for one.
type affinity struct{ set, now unix.CPUSetDynamic }

//go:noinline
func newAffinity() affinity { return affinity{maskOf(0), maskOf(0)} }

// threadMask returns what the calling thread asks for: its goroutine is locked to it.
//
//go:noinline
func threadMask() affinity {
	a := newAffinity()
	return affinity{set: a.ask(given)}
}

// restore has the calling thread ask for the mask.
//
//go:noinline
func (a affinity) restore() {
	if a.set != nil {
		_ = unix.SchedSetaffinityDynamic(0, a.set)
	}
}

// read takes the calling thread's mask over a, whose memory it uses again.
func (a *affinity) read() bool {
	return a.set != nil && unix.SchedGetaffinityDynamic(0, a.set) == nil
}

// ask has the calling thread, whose mask is a, ask for more where that leaves it the same mask, and
// returns what it asks for then.
//
//go:noinline
func (a *affinity) ask(more unix.CPUSetDynamic) unix.CPUSetDynamic {
	_ = unix.SchedSetaffinityDynamic(0, more)
	_ = unix.SchedGetaffinityDynamic(0, a.now)
	for i, word := range a.set {
		if word != a.now[i] {
			a.restore()
			return a.set
		}
	}
	return more
}

// leave moves the calling thread, whose mask is a, off a processor; where the mask has no other,
// nothing is done. The thread may come back afterwards.
func (a *affinity) leave(cpu int) {
	if !a.set.IsSet(cpu) || a.set.Count() < 2 {
		return
	}
	back := affinity{set: a.ask(given)}
	a.set.Clear(cpu)
	a.restore()
	a.set.Set(cpu)
	back.restore()
}

// pinThread ties the calling thread to these processors, at least one. A system that refuses is
// left as it is: pinning is a matter of speed only.
func pinThread(cpus []int) {
	set := unix.NewCPUSet(max(1024, slices.Max(cpus)+1))
	for _, c := range cpus {
		set.Set(c)
	}
	_ = unix.SchedSetaffinityDynamic(0, set)
}
