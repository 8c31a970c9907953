package forest

import "unsafe"

// view reads bytes as n elements of E, which holds no pointers. b is aligned to 8.
func view[E any](b []byte, n int) []E {
	if n == 0 {
		return nil
	}
	_ = b[n*sizeOf[E]()-1]
	return unsafe.Slice((*E)(unsafe.Pointer(unsafe.SliceData(b))), n)
}

// sizeOf returns the bytes of an element.
func sizeOf[E any]() int {
	var e E
	return int(unsafe.Sizeof(e))
}
