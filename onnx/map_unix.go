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
	// one of its own: the caller's is closed sooner
	fd, err := unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	was, err := stampOf(fd)
	if err == nil && was.size != size {
		err = ErrChanged
	}
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	data, err := unix.Mmap(fd, 0, int(size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	forget := fault.Watch(f.Name(), data)
	return &mapping{data: data, path: f.Name(), file: fd, was: was, unmap: func() error {
		forget()
		return errors.Join(unix.Munmap(data), unix.Close(fd))
	}}, nil
}

// stampOf reads the stamp of an open file.
func stampOf(fd int) (stamp, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return stamp{}, err
	}
	return stamp{s.Size, s.Mtim.Nano()}, nil
}

// discard lets pages of a mapping leave memory. They begin on a page.
func discard(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
