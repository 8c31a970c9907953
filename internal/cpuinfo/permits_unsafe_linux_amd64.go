//go:build !noasm

package cpuinfo

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// permits reads whether this process has the permission for a feature of XCR0.
func permits(feature uint) (bool, error) {
	var mask uint64
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archPermitted,
		uintptr(unsafe.Pointer(&mask)), 0)
	if err != 0 {
		return false, err
	}
	return mask>>feature&1 == 1, nil
}
