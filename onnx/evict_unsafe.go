package onnx

import (
	"os"
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
}

func (m *mapping) evict(t *tensor.Tensor) {
	if m == nil || m.unmap == nil || len(m.data) == 0 {
		return
	}
	from, to := uintptr(0), uintptr(len(m.data))
	if t != nil {
		if len(t.Data) == 0 {
			return
		}
		// Differences of addresses tell where in the file the bytes lie; they are far outside for
		// all others.
		from = uintptr(unsafe.Pointer(unsafe.SliceData(t.Data))) -
			uintptr(unsafe.Pointer(unsafe.SliceData(m.data)))
		if to = from + uintptr(len(t.Data)); from >= uintptr(len(m.data)) ||
			to > uintptr(len(m.data)) {
			return
		}
	}
	from &^= uintptr(os.Getpagesize()) - 1
	discard(m.data[from:to])
}
