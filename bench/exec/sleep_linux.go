package main

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// sleepUntil sleeps until a time on the clock of [monotonic].
func sleepUntil(t *unix.Timespec) {
	_, _, _ = unix.RawSyscall6(unix.SYS_CLOCK_NANOSLEEP, unix.CLOCK_MONOTONIC, unix.TIMER_ABSTIME,
		uintptr(unsafe.Pointer(t)), 0, 0, 0)
}
