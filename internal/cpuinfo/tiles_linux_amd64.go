//go:build !noasm

package cpuinfo

import "golang.org/x/sys/unix"

// arch_prctl(2), and the kernel's Documentation/arch/x86/xstate.rst: ask for the use of a feature
// of XCR0, and the number of the data of tiles there.
const (
	archRequest = 0x1023
	featureData = 18
)

// theProcessor is the one that the program runs on.
var theProcessor = processor{cpuid, xgetbv, func() error {
	_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archRequest, featureData, 0)
	if err != 0 {
		return err
	}
	return nil
}}
