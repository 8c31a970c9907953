package main

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Of each period, taken is what leaves programs half of what they could compute, with what it costs
// to change between threads 10,000 times a second.
const (
	period = 100 * time.Microsecond
	taken  = 40 * time.Microsecond
)

// slow takes so much of each processor's time that programs have half of it, and returns what a
// thread can compute, of what it could before.
func slow() (float64, error) {
	before := calculate()
	cores := runtime.NumCPU()
	runtime.GOMAXPROCS(runtime.GOMAXPROCS(0) + cores)
	errs := make(chan error)
	for core := range cores {
		go func() {
			runtime.LockOSThread()
			err := ahead(core)
			if errs <- err; err == nil {
				take()
			}
		}()
	}
	for range cores {
		if err := <-errs; err != nil {
			return 0, fmt.Errorf("no thread ahead of all others: %w: it takes root", err)
		}
	}
	return calculate() / before, nil
}

// ahead puts the thread on a processor and before all that are not real-time threads. What it
// starts is an ordinary one.
func ahead(core int) error {
	var on unix.CPUSet
	on.Set(core)
	if err := unix.SchedSetaffinity(0, &on); err != nil {
		return err
	}
	return unix.SchedSetAttr(0, &unix.SchedAttr{
		Policy:   unix.SCHED_FIFO,
		Priority: 1,
		Flags:    unix.SCHED_FLAG_RESET_ON_FORK,
	}, 0)
}

// take computes in a part of each period. The runtime is not told that the thread sleeps, which
// would have it look for another.
func take() {
	for next := monotonic(); ; next += period.Nanoseconds() {
		for monotonic()-next < taken.Nanoseconds() {
		}
		until := unix.NsecToTimespec(next + period.Nanoseconds())
		_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC,
			unix.TIMER_ABSTIME, uintptr(unsafe.Pointer(&until)), 0, 0, 0)
	}
}
