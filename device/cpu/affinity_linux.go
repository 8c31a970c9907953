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
	set := maskOf(0)
	for c := range len(set) * 64 {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
})

// given is what those threads of the process ask for that nobody tied. Linux 6.2 and later run a
// thread on what it asked for as far as its cpuset has that: one that asks for what the cpuset has
// today gets nothing of what that has tomorrow.
var given = sync.OnceValue(func() unix.CPUSetDynamic { return widest(allowedCPUs()) })

// widest is the mask of all processors where the calling thread runs on all that its cpuset has,
// else that of these, or nil for none.
func widest(cpus []int) unix.CPUSetDynamic {
	if len(cpus) == 0 {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a := newAffinity()
	all := slices.Clone(a.set)
	if all.Fill(); a.tied(all) {
		return setOf(cpus)
	}
	return all
}

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

// affinity is a thread's mask as it was.
type affinity struct {
	set, now unix.CPUSetDynamic
	own      bool // the thread was tied
}

func newAffinity() affinity { return affinity{set: maskOf(0), now: maskOf(0)} }

// threadMask returns the mask of the calling thread, to which its goroutine is locked.
func threadMask() affinity {
	a := newAffinity()
	a.own = a.tied(given())
	return a
}

// restore gives the calling thread the mask back. One that was not tied gets what the cpuset has by
// then.
func (a *affinity) restore() {
	set := a.set
	if !a.own {
		set = given()
	}
	if set != nil {
		_ = unix.SchedSetaffinityDynamic(0, set)
	}
}

// read takes the calling thread's mask over a, whose memory it uses again.
func (a *affinity) read() bool {
	return a.set != nil && unix.SchedGetaffinityDynamic(0, a.set) == nil
}

// tied reports whether the calling thread, whose mask is a, has another one when it asks for these
// processors; then it has its own again.
func (a *affinity) tied(by unix.CPUSetDynamic) bool {
	if by == nil || unix.SchedSetaffinityDynamic(0, by) != nil {
		return true
	}
	if unix.SchedGetaffinityDynamic(0, a.now) == nil && slices.Equal(a.set, a.now) {
		return false
	}
	_ = unix.SchedSetaffinityDynamic(0, a.set)
	return true
}

// leave moves the calling thread, whose mask is a, off a processor; where the mask has no other,
// nothing is done. The thread may come back afterwards.
func (a *affinity) leave(cpu int) {
	if !a.set.IsSet(cpu) || a.set.Count() < 2 {
		return
	}
	a.own = a.tied(given())
	a.set.Clear(cpu)
	_ = unix.SchedSetaffinityDynamic(0, a.set)
	a.set.Set(cpu)
	a.restore()
}

// pinThread ties the calling thread to these processors, at least one. A system that refuses is
// left as it is: pinning is a matter of speed only.
func pinThread(cpus []int) { _ = unix.SchedSetaffinityDynamic(0, setOf(cpus)) }

// setOf is the mask of these processors, at least one.
func setOf(cpus []int) unix.CPUSetDynamic {
	set := unix.NewCPUSet(max(1024, slices.Max(cpus)+1))
	for _, c := range cpus {
		set.Set(c)
	}
	return set
}
