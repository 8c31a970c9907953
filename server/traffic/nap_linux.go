package traffic

import (
	"time"

	"golang.org/x/sys/unix"
)

// nap waits on a thread of the system, which wakes it within some tens of microseconds.
func nap(d time.Duration) {
	t := unix.NsecToTimespec(int64(d))
	_ = unix.Nanosleep(&t, nil) // who is woken early sleeps again
}
