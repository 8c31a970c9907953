package agent

import (
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// shortSlice is the shortest slice that the kernel grants to an ordinary thread.
const shortSlice = 100 * time.Microsecond

// prompt has the threads of this process run as soon as they wake, also beside threads that always
// run: the device has nothing to do until the agent has opened the next gate. They ask for the
// shortest slices, whose end Linux from 6.12 on goes by in saying who is next ("EEVDF Scheduler" in
// its documentation); before, this does nothing. A new thread has what the one has that makes it:
// so it is done until there is none without.
func prompt() {
	for again := true; again; {
		again = false
		threads, _ := os.ReadDir("/proc/self/task")
		for _, t := range threads {
			id, _ := strconv.Atoi(t.Name())
			how, err := unix.SchedGetAttr(id, 0)
			if err != nil || how.Policy != unix.SCHED_NORMAL ||
				how.Runtime == uint64(shortSlice) {
				continue
			}
			how.Runtime = uint64(shortSlice)
			if unix.SchedSetAttr(id, how, 0) != nil {
				return
			}
			how, err = unix.SchedGetAttr(id, 0)
			again = again || err == nil && how.Runtime == uint64(shortSlice)
		}
	}
}
