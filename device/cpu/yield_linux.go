package cpu

import "golang.org/x/sys/unix"

// yieldThread lets another thread of the machine that waits for this core have it. The raw call
// keeps the goroutine's scheduler processor: only the core is offered.
func yieldThread() { _, _, _ = unix.RawSyscall(unix.SYS_SCHED_YIELD, 0, 0, 0) }
