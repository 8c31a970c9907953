package fault

import "unsafe"

// address is where mem begins.
func address(mem []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(mem))) }
