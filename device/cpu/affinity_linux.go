package cpu

import "golang.org/x/sys/unix"

// allowedCPUs returns the processors the process may run on, ascending, or nil if
// the system does not say. It asks for the main thread, which nothing pins.
func allowedCPUs() []int {
	// The kernel refuses a mask shorter than its own, whose length it does not tell.
	for size := 1024; size <= 1<<16; size *= 4 {
		set := unix.NewCPUSet(size)
		if unix.SchedGetaffinityDynamic(unix.Getpid(), set) != nil {
			continue
		}
		var cpus []int
		for c := range size {
			if set.IsSet(c) {
				cpus = append(cpus, c)
			}
		}
		return cpus
	}
	return nil
}

// pinThread ties the calling thread to one processor. A system that refuses is
// left as it is: pinning is a matter of speed only.
func pinThread(cpu int) {
	set := unix.NewCPUSet(max(1024, cpu+1))
	set.Set(cpu)
	_ = unix.SchedSetaffinityDynamic(0, set)
}
