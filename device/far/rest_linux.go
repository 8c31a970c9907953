package far

import (
	"runtime"
	"time"

	"golang.org/x/sys/unix"
)

// near is for how long before the end of a copy the thread stays awake: to be woken takes a part
// of that.
const near = 20 * time.Microsecond

// rest waits for most of a time, and for no longer. It keeps no core busy, as an engine that copies
// does not, and does not wait for one of Go's timers, which are late by up to a millisecond where
// nothing else runs. Nor does it let other goroutines go first: one that computes would do so for
// longer than many a copy takes.
func rest(d time.Duration) {
	if d <= near {
		return
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	// else sleeps end up to 50 us late; a system that refuses is left as it is
	_ = unix.Prctl(unix.PR_SET_TIMERSLACK, 1, 0, 0, 0)
	t := unix.NsecToTimespec(int64(d - near))
	_ = unix.Nanosleep(&t, nil) // who is woken early rests again
}
