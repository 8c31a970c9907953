package cpu

import (
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
type affinity struct{ set unix.CPUSetDynamic }

// threadMask returns the calling thread's mask.
func threadMask() affinity { return affinity{maskOf(0)} }

// restore gives the calling thread the mask back.
func (a affinity) restore() {
	if a.set != nil {
		_ = unix.SchedSetaffinityDynamic(0, a.set)
	}
}

// read takes the calling thread's mask over a, whose memory it uses again.
func (a affinity) read() bool {
	return a.set != nil && unix.SchedGetaffinityDynamic(0, a.set) == nil
}

// leave moves the calling thread, whose mask is a, off a processor; where the mask has no other,
// nothing is done. The thread may come back afterwards.
func (a affinity) leave(cpu int) {
	if !a.set.IsSet(cpu) || a.set.Count() < 2 {
		return
	}
	a.set.Clear(cpu)
	_ = unix.SchedSetaffinityDynamic(0, a.set)
	a.set.Set(cpu)
	a.restore()
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
