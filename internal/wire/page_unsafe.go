package wire

import (
	"fmt"
	"unsafe"
)

// overlay lays the structures over the memory.
func overlay(mem []byte) (*layout, error) {
	if len(mem) != PageSize {
		return nil, fmt.Errorf("page of %d bytes, want %d: %w", len(mem), PageSize, ErrPage)
	}
	// A 64-bit atomic operation needs a multiple of eight.
	if uintptr(unsafe.Pointer(&mem[0]))%8 != 0 {
		return nil, fmt.Errorf("page at an odd address: %w", ErrPage)
	}
	return (*layout)(unsafe.Pointer(&mem[0])), nil
}
