package cpu

import (
	"math"

	"golang.org/x/sys/unix"
)

// installedMemory returns the machine's memory in bytes, or 0 where the system does not tell.
func installedMemory() int64 {
	n, err := unix.SysctlUint64("hw.memsize")
	if err != nil || n > math.MaxInt64 {
		return 0
	}
	return int64(n)
}
