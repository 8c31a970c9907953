package nbits

import "unsafe"

// floatsOf views bytes as floats, without a copy. A remainder shorter than a float is left out.
func floatsOf(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}
