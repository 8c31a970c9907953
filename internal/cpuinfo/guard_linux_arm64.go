//go:build !noasm

package cpuinfo

import (
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// action is the kernel's struct sigaction of arm64.
type action struct {
	handler  uintptr
	flags    uint64
	restorer uintptr
	mask     uint64
}

// Flags of sigaction(2): the handler is given the context, and runs on the stack for signals.
const (
	withContext = 0x4
	onStack     = 0x08000000
)

// skipHandler returns the address of a handler of signals that has the program go on after the
// instruction that raised one.
func skipHandler() uintptr

// guarded runs f with every illegal instruction doing nothing: one that an emulator says it has and
// has not would end the process otherwise. It is for the start of the process, when no other
// goroutine runs.
func guarded(f func()) error {
	skip := action{handler: skipHandler(), flags: withContext | onStack}
	var before action
	if err := setAction(&skip, &before); err != nil {
		return fmt.Errorf("illegal instructions cannot be caught: %w", err)
	}
	f()
	if err := setAction(&before, nil); err != nil {
		return fmt.Errorf("the handler of illegal instructions is not set back: %w", err)
	}
	return nil
}

// setAction sets what happens on an illegal instruction and, unless old is nil, says what did.
func setAction(to, old *action) error {
	_, _, err := unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(unix.SIGILL),
		uintptr(unsafe.Pointer(to)), uintptr(unsafe.Pointer(old)), unsafe.Sizeof(to.mask), 0, 0)
	if err != 0 {
		return err
	}
	return nil
}
