//go:build !linux && !darwin

package cpu

import (
	"errors"
	"math"
	"unsafe"

	"github.com/weirgpu/weir/device"
)

// mapMemory allocates n > 0 zeroed bytes aligned to device.Alignment on the Go heap, where no other
// memory is portable.
func mapMemory(n int) (*mapping, error) {
	if n > math.MaxInt-device.Alignment {
		return nil, errors.New("size not addressable")
	}
	b := make([]byte, n+device.Alignment-1)
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (device.Alignment - 1))
	return &mapping{bytes: b[head : head+n : head+n]}, nil
}

// unmap leaves the memory to the collector.
func (m *mapping) unmap() { m.bytes = nil }
