package tensor

import (
	"fmt"
	"unsafe"
)

// As returns the elements of t as a slice that shares t.Data: no copy, same lifetime. The bytes of
// a mapped model file need not be aligned to T; amd64 and arm64 load such elements all the same. It
// panics if T does not mirror t.DType or Data does not match the shape's count, which
// [Tensor.Check] would have told.
func As[T Elem](t *Tensor) []T {
	if d := DTypeOf[T](); d != t.DType {
		panic(fmt.Sprintf("tensor.As: want %v, have %v", d, t.DType))
	}
	return Cast[T](t.Data)
}

// Cast views raw little-endian bytes as elements of type T, without a copy. A remainder shorter
// than one element is left out.
//
//go:noinline
func Cast[T Elem](data []byte) []T { return cast[T](data) }

// cast is Cast for a type that the caller knows to mirror one of elements.
func cast[T any](data []byte) []T {
	var z T
	n := len(data) / int(unsafe.Sizeof(z))
	if n == 0 {
		return []T{}
	}
	return unsafe.Slice((*T)(unsafe.Pointer(unsafe.SliceData(data))), n)
}

func bytesOf[T any](data []T) []byte {
	var z T
	if len(data) == 0 {
		return []byte{}
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(data))),
		len(data)*int(unsafe.Sizeof(z)))
}

// Bytes views elements as raw bytes, without a copy.
func Bytes[T Elem](data []T) []byte { return bytesOf(data) }

// alignedBytes returns n zeroed heap bytes that start on an 8-byte boundary, as the widest scalar
// loads want.
func alignedBytes(n int) []byte {
	if n == 0 {
		return []byte{}
	}
	words := make([]uint64, (n+7)/8)
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(words))), n)
}

// Shares reports whether the elements of t lie among the bytes of u, or begin there.
func (t *Tensor) Shares(u *Tensor) bool {
	if len(t.Data) == 0 || len(u.Data) == 0 {
		return false
	}
	at, from := uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))),
		uintptr(unsafe.Pointer(unsafe.SliceData(u.Data)))
	return at >= from && at-from < uintptr(len(u.Data))
}
