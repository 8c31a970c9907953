package onnx

import (
	"os"
	"slices"
	"unsafe"

	"github.com/weirgpu/weir/tensor"
)

// Evict tells the system that the bytes of a constant of the graph, or with nil of all constants,
// will not be read soon: pages of a mapped file leave memory and are read again when they are used.
// It is advice that changes no value; constants that are in no mapped file stay. Any number of
// goroutines may call it until Close.
func (m *Model) Evict(t *tensor.Tensor) {
	m.file.evict(t)
	for _, f := range m.files.maps {
		f.evict(t)
	}
	for _, o := range m.of {
		o.Evict(t)
	}
}

// Maps reports whether the bytes of a constant lie in a mapped file of the model, where others can
// change them.
func (m *Model) Maps(t *tensor.Tensor) bool {
	if _, _, ok := m.file.place(t); ok {
		return true
	}
	for _, f := range m.files.maps {
		if _, _, ok := f.place(t); ok {
			return true
		}
	}
	return slices.ContainsFunc(m.of, func(o *Model) bool { return o.Maps(t) })
}

func (m *mapping) evict(t *tensor.Tensor) {
	if m == nil || m.unmap == nil || len(m.data) == 0 {
		return
	}
	from, to := uintptr(0), uintptr(len(m.data))
	if t != nil {
		var ok bool
		if from, to, ok = m.place(t); !ok {
			return
		}
	}
	from &^= uintptr(os.Getpagesize()) - 1
	discard(m.data[from:to])
}

// place finds the bytes of a tensor in the mapped file.
func (m *mapping) place(t *tensor.Tensor) (from, to uintptr, ok bool) {
	if m == nil || m.unmap == nil || len(t.Data) == 0 {
		return 0, 0, false
	}
	// Differences of addresses tell where in the file the bytes lie; they are far outside for all
	// others.
	size := uintptr(len(m.data))
	from = uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))) -
		uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
	to = from + uintptr(len(t.Data))
	return from, to, from < size && to >= from && to <= size
}
