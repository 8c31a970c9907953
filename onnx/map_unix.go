//go:build unix

package onnx

import (
	"errors"
	"math"
	"os"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/fault"
)

// mapRegular maps a file read-only. A later change of the file by others shows through, and reading
// what is cut off faults, which package fault makes an error of: models are replaced by renaming,
// never written in place.
func mapRegular(f *os.File, size int64) (*mapping, error) {
	if size == 0 {
		return &mapping{}, nil
	}
	if size > math.MaxInt {
		return nil, errors.New("the file is larger than the address space")
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	forget := fault.Watch(f.Name(), data)
	return &mapping{data: data, unmap: func() error {
		forget()
		return unix.Munmap(data)
	}}, nil
}

// discard lets pages of a mapping leave memory. They begin on a page.
func discard(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
