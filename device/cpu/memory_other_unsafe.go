//go:build !linux

package cpu

import (
	"errors"
	"math"
	"unsafe"

	"github.com/weirgpu/weir/device"
)

// mapping is memory on the Go heap, where no other is portable. The zero value is empty.
type mapping struct{ bytes []byte }

// mapMemory allocates n > 0 zeroed bytes aligned to device.Alignment.
func mapMemory(n int) (*mapping, error) {
	if n > math.MaxInt-device.Alignment {
		return nil, errors.New("size not addressable")
	}
	b := make([]byte, n+device.Alignment-1)
	head := int(-uintptr(unsafe.Pointer(unsafe.SliceData(b))) & (device.Alignment - 1))
	return &mapping{bytes: b[head : head+n : head+n]}, nil
}

// populate, leaveHuge and enlarge leave pages to the system.
func (m *mapping) populate(int, int) (dear bool) { return false }
func (m *mapping) leaveHuge()                    {}
func (m *mapping) enlarge(bool)                  {}

// discard leaves the memory where it is: the collector takes no part of a slice.
func (m *mapping) discard(from, to, first, last int64) {}

// blocks and move leave all memory to the buffer that has it.
func (m *mapping) blocks(from, to int64) (begin, end int64)        { return 0, 0 }
func (m *mapping) move(at int64, from *mapping, fromAt int64) bool { return false }

// dearFor is how long a huge page that was dear speaks for others.
const dearFor = 0

// unmap leaves the memory to the collector.
func (m *mapping) unmap() { m.bytes = nil }
