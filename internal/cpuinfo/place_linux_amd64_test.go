//go:build !noasm

package cpuinfo

import (
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestPlaceKnown: the processor's number is to be had where the processor says what the system
// does, on each that the thread may run on, and nowhere else.
func TestPlaceKnown(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var mask, one unix.CPUSet
	if err := unix.SchedGetaffinity(0, &mask); err != nil {
		t.Skip(err)
	}
	if _, _, _, d := cpuid(0x8000_0001, 0); d>>27&1 == 0 {
		if Place() >= 0 {
			t.Error("a number without RDTSCP")
		}
		return
	}
	defer func() { _ = unix.SchedSetaffinity(0, &mask) }()
	alike := true
	for c := range len(mask) * 64 {
		if !mask.IsSet(c) {
			continue
		}
		one.Zero()
		one.Set(c)
		if err := unix.SchedSetaffinity(0, &one); err != nil {
			t.Skip(err)
		}
		alike = alike && int(placed()&0xfff) == c
		if got := Place(); got >= 0 && got != c {
			t.Errorf("on processor %d: %d", c, got)
		}
	}
	if alike && Place() < 0 {
		t.Error("the number is not to be had, though the processor says it")
	}
}
