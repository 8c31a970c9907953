package vec

import "unsafe"

// words views 4-byte elements as bits: the assembly is written once for all of them.
func words[T Word](s []T) []uint32 {
	return unsafe.Slice((*uint32)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// halves views 2-byte elements as bits.
func halves[H ~uint16](s []H) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// floats views integers as the floats of the same bits: the assembly is written once for both.
func floats(s []int32) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// AsFloats views bytes, aligned to four, as words in the form of floats, without a copy. A
// remainder is left out.
func AsFloats(b []byte) []float32 {
	return unsafe.Slice((*float32)(unsafe.Pointer(unsafe.SliceData(b))), len(b)/4)
}

// AsWords views floats as the integers of the same bits, without a copy.
func AsWords(x []float32) []uint32 { return words(x) }

// AsHalves views floats as the 16-bit elements of the same bits, two each, without a copy.
func AsHalves(x []float32) []uint16 {
	return unsafe.Slice((*uint16)(unsafe.Pointer(unsafe.SliceData(x))), 2*len(x))
}

// int8s views bytes as signed ones.
func int8s(s []byte) []int8 {
	return unsafe.Slice((*int8)(unsafe.Pointer(unsafe.SliceData(s))), len(s))
}

// AsDoubles views the 8-byte words in s that begin at a multiple of eight bytes, without a copy.
// With an odd number of floats it leaves out one, with an even number none or two.
func AsDoubles(s []float32) []float64 {
	p := unsafe.Pointer(unsafe.SliceData(s))
	if uintptr(p)%8 != 0 {
		p, s = unsafe.Add(p, 4), s[1:]
	}
	return unsafe.Slice((*float64)(p), len(s)/2)
}
