//go:build !noasm

package cpuinfo

import "golang.org/x/sys/unix"

// arch_prctl(2), and the kernel's Documentation/arch/x86/xstate.rst: read which features of XCR0
// the process has the permission for, ask for the use of one, and the number of the data of tiles
// there.
const (
	archPermitted = 0x1022
	archRequest   = 0x1023
	featureData   = 18
)

// theProcessor is the one that the program runs on.
var theProcessor = &processor{cpuid: cpuid, xgetbv: xgetbv, stamp: stamp,
	permit: func() error {
		_, _, err := unix.RawSyscall(unix.SYS_ARCH_PRCTL, archRequest, featureData, 0)
		if err != 0 {
			return err
		}
		return nil
	},
	permitted: func() (bool, error) { return permits(featureData) },
}
