//go:build unix

package cache

import (
	"errors"
	"fmt"
	"math"
	"os"

	"golang.org/x/sys/unix"
)

// identityOf reads the identity of an open regular file.
func identityOf(f *os.File) (fileID, error) {
	var s unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &s); err != nil {
		return fileID{}, err
	}
	if s.Mode&unix.S_IFMT != unix.S_IFREG {
		return fileID{}, errors.New("is not a regular file")
	}
	return fileID{Device: uint64(s.Dev), Inode: uint64(s.Ino), Size: s.Size,
		Modified: s.Mtim.Nano(), Changed: s.Ctim.Nano()}, nil
}

// mapFile maps a whole file read-only.
func mapFile(name string) (*mapping, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if size := info.Size(); !info.Mode().IsRegular() || size == 0 || size > math.MaxInt {
		return nil, fmt.Errorf("%w: %d bytes", errDamaged, size)
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(info.Size()), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	return &mapping{data}, nil
}

// mapping is a mapped file.
type mapping struct{ data []byte }

func (m *mapping) close() error {
	data := m.data
	m.data = nil
	return unix.Munmap(data)
}

// discard lets pages leave memory until they are read again. They begin on a page.
func (m *mapping) discard(pages []byte) { _ = unix.Madvise(pages, unix.MADV_DONTNEED) }
