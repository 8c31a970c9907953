//go:build !linux

package far

import (
	"runtime"
	"time"
)

// late is by how much Go's timers are late where nothing else runs.
const late = 1200 * time.Microsecond

// rest waits for a part of a time, and for no longer.
func rest(d time.Duration) {
	if d > late {
		time.Sleep(d - late)
		return
	}
	runtime.Gosched()
}
