package process

import (
	"bytes"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// ticksPerSecond is USER_HZ, in which /proc counts; Linux fixes it at 100 for user space on every
// architecture that Go runs on.
const ticksPerSecond = 100

func sinceStart() time.Duration {
	stat, err := os.ReadFile("/proc/self/stat")
	if err != nil {
		return 0
	}
	// The second field is the command in parentheses and may hold spaces; starttime is field 22
	// (proc_pid_stat(5)).
	rest := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	const startTime = 22 - 3
	if len(rest) <= startTime {
		return 0
	}
	ticks, err := strconv.ParseInt(string(rest[startTime]), 10, 64)
	if err != nil {
		return 0
	}
	var now unix.Timespec
	if unix.ClockGettime(unix.CLOCK_BOOTTIME, &now) != nil {
		return 0
	}
	return time.Duration(now.Nano()) - time.Duration(ticks)*time.Second/ticksPerSecond
}

// peakRSS reads VmHWM, which belongs to the address space. The ru_maxrss of getrusage(2) would
// survive execve and tell of the parent that forked.
func peakRSS() int64 {
	status, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0
	}
	_, rest, ok := bytes.Cut(status, []byte("VmHWM:"))
	if !ok {
		return 0
	}
	kib, _, _ := bytes.Cut(bytes.TrimSpace(rest), []byte(" "))
	n, err := strconv.ParseInt(string(kib), 10, 64)
	if err != nil {
		return 0
	}
	return n << 10
}
