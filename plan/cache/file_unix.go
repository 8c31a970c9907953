//go:build unix

package cache

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/fault"
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

// mapFile maps a whole file read-only and takes the file over. Its bytes are those of now until the
// mapping is closed: writers are kept out of the file where the system can, else they are copied.
func (c *Cache) mapFile(f *os.File) (m *mapping, id fileID, err error) {
	leased := c.lease(f) == nil
	id, err = identityOf(f)
	if err == nil && (id.Size == 0 || id.Size > math.MaxInt) {
		err = fmt.Errorf("%w: %d bytes", errDamaged, id.Size)
	}
	if err != nil {
		return nil, id, errors.Join(err, f.Close())
	}
	if !leased {
		data, err := copyOf(f, int(id.Size))
		return &mapping{data: data}, id, errors.Join(err, f.Close())
	}
	data, err := unix.Mmap(int(f.Fd()), 0, int(id.Size), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		return nil, id, errors.Join(err, f.Close())
	}
	m = &mapping{data: data, file: f, forget: fault.Watch(filepath.Clean(f.Name()), data)}
	watch(m)
	return m, id, nil
}

// copyOf reads a file of so many bytes into memory of its own.
func copyOf(f *os.File, size int) (data []byte, err error) {
	data, err = unix.Mmap(-1, 0, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	adviseHuge(data)
	var wg sync.WaitGroup
	parts := runtime.GOMAXPROCS(0)
	errs := make([]error, parts)
	for i := range parts {
		from, to := size/parts*i, size/parts*(i+1)
		if i == parts-1 {
			to = size
		}
		wg.Go(func() { _, errs[i] = f.ReadAt(data[from:to], int64(from)) })
	}
	wg.Wait()
	if err = errors.Join(errs...); err == nil {
		err = unix.Mprotect(data, unix.PROT_READ)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("%w: %w", errDamaged, err), unix.Munmap(data))
	}
	return data, nil
}

// mapping is the bytes of a file.
type mapping struct {
	data []byte
	mu   sync.Mutex
	// file has the lease that keeps writers out, and forget ends that faults in data are taken for
	// its own; both are nil where the bytes are a copy.
	file   *os.File
	forget func()
}

// release lets the file go, which ends the lease; m.mu is held.
func (m *mapping) release() error {
	if m.file == nil {
		return nil
	}
	m.forget()
	err := m.file.Close()
	m.file, m.forget = nil, nil
	return err
}

func (m *mapping) close() error {
	unwatch(m)
	m.mu.Lock()
	defer m.mu.Unlock()
	data := m.data
	m.data = nil
	return errors.Join(m.release(), unix.Munmap(data))
}

// discard lets pages leave memory until they are read again. They begin on a page.
func (m *mapping) discard(pages []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil { // of a copy they would be lost
		_ = unix.Madvise(pages, unix.MADV_DONTNEED)
	}
}

// discardEnd does so for the pages with the bytes from so many before the end to so many before it.
func (m *mapping) discardEnd(first, last int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file != nil {
		n, page := int64(len(m.data)), int64(unix.Getpagesize())
		_ = unix.Madvise(m.data[(n-first)/page*page:n-last], unix.MADV_DONTNEED)
	}
}
