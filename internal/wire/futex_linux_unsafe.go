//go:build linux

package wire

import (
	"math"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// The operations of futex(2) without FUTEX_PRIVATE_FLAG, because the word is shared between
// processes.
const (
	futexWait = 0
	futexWake = 1
)

// WakeGate wakes all who wait for the gate to change.
func (p *Page) WakeGate() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.l.Header.Gate)), futexWake,
		math.MaxInt32, 0, 0, 0)
}

// WakeMove wakes all who wait for an order to move memory.
func (p *Page) WakeMove() {
	_, _, _ = unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(&p.l.Header.Move)), futexWake,
		math.MaxInt32, 0, 0, 0)
}

// WaitGate waits until the gate is no longer as given or the time is over; it may return earlier.
// It occupies a thread.
func (p *Page) WaitGate(gate uint32, most time.Duration) error {
	return wait(&p.l.Header.Gate, gate, most)
}

// WaitDrained waits until the slot's DrainedSeq is no longer as given or the time is over; it may
// return earlier. It occupies a thread. An error says that it cannot, also where the page has gone.
func (s *Slot) WaitDrained(seq uint32, most time.Duration) error {
	return wait(&s.DrainedSeq, seq, most)
}

// wait waits until the word is no longer as given.
func wait(word *atomic.Uint32, value uint32, most time.Duration) error {
	ts := unix.NsecToTimespec(int64(max(0, most)))
	_, _, errno := unix.Syscall6(unix.SYS_FUTEX, uintptr(unsafe.Pointer(word)), futexWait,
		uintptr(value), uintptr(unsafe.Pointer(&ts)), 0, 0)
	switch errno {
	case 0, unix.EAGAIN, unix.ETIMEDOUT, unix.EINTR:
		return nil
	}
	return errno
}
