//go:build !noasm

package cpuinfo

import (
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// placed executes RDTSCP and returns what it leaves in ECX, IA32_TSC_AUX.
func placed() uint32

// Place returns the number of the processor that the calling thread is on, or -1 where it is not to
// be had as quickly. The thread may be on another one already.
//
// Linux keeps the number in the low 12 bits of IA32_TSC_AUX for its own getcpu
// (arch/x86/include/asm/segment.h, vdso_encode_cpunode). It is compared with the system call's
// answer once, and so found out in most cases where a hypervisor does not keep it: the two may be
// alike by chance on the processor that the program begins on.
func Place() int {
	if !placeKnown {
		return -1
	}
	return int(placed() & 0xfff)
}

var placeKnown = knowsPlace()

func knowsPlace() bool {
	// AMD64 APM volume 3, appendix E: Fn8000_0001 EDX bit 27; Intel SDM volume 2A has it there, too
	if most, _, _, _ := cpuid(0x8000_0000, 0); most < 0x8000_0001 {
		return false
	}
	if _, _, _, d := cpuid(0x8000_0001, 0); d>>27&1 == 0 {
		return false
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	for range 10 { // the thread may move between
		var cpu uint32
		before := placed()
		_, _, e := unix.RawSyscall(unix.SYS_GETCPU, uintptr(unsafe.Pointer(&cpu)), 0, 0)
		if e != 0 {
			return false
		}
		if before == placed() {
			return before&0xfff == cpu
		}
	}
	return false
}
