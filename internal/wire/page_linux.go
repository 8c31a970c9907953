package wire

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// seals keep everybody who has the descriptor from changing the memory's size: access beyond the
// end of a file kills a process with SIGBUS, and a program must not be able to do that to the
// agent.
const seals = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL

// NewPage makes a page of anonymous shared memory, formatted and without terms. It needs
// [Page.Close].
func NewPage() (*Page, error) {
	fd, err := unix.MemfdCreate("weir-job", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("page: memfd_create: %w", err)
	}
	f := os.NewFile(uintptr(fd), "weir-job")
	if err := f.Truncate(PageSize); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("page: %w", err)
	}
	if _, err := unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, seals); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("page: seal: %w", err)
	}
	p, err := mapFile(f)
	if err != nil {
		return nil, err
	}
	p.Format()
	return p, nil
}

// MapPage maps a page that another process made. It fails with [ErrPage] if the descriptor is not
// of sealed memory of the right size or what is in it is of another version. The file then belongs
// to the page, or is closed on an error.
func MapPage(f *os.File) (*Page, error) {
	p, err := mapSealed(f)
	if err != nil {
		return nil, err
	}
	if err := p.Check(); err != nil {
		_ = p.Close()
		return nil, err
	}
	return p, nil
}

// ReclaimPage is MapPage for memory that is known to be a page of this version: what programs wrote
// over its fixed part is put right.
func ReclaimPage(f *os.File) (*Page, error) {
	p, err := mapSealed(f)
	if err != nil {
		return nil, err
	}
	p.Format()
	return p, nil
}

func mapSealed(f *os.File) (*Page, error) {
	// Only memfd memory has seals. They come first: a size that is not sealed yet can still change.
	have, err := unix.FcntlInt(f.Fd(), unix.F_GET_SEALS, 0)
	var st unix.Stat_t
	if err := unix.Fstat(int(f.Fd()), &st); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("page: %w", err)
	}
	if err != nil || have&seals != seals || st.Size != PageSize {
		_ = f.Close()
		return nil, fmt.Errorf("page: descriptor of %d bytes with seals %#x, want %d bytes of "+
			"sealed memory: %w", st.Size, have, PageSize, ErrPage)
	}
	return mapFile(f)
}

// mapFile maps memory whose size is known. It closes the file on an error.
func mapFile(f *os.File) (*Page, error) {
	mem, err := unix.Mmap(int(f.Fd()), 0, PageSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("page: mmap: %w", err)
	}
	l, err := overlay(mem)
	if err != nil {
		_ = unix.Munmap(mem)
		_ = f.Close()
		return nil, err
	}
	return &Page{l: l, mem: mem, f: f}, nil
}

func unmap(mem []byte) error { return unix.Munmap(mem) }

// SamePage reports whether two descriptors are of the same memory.
func SamePage(a, b *os.File) bool {
	x, errX := a.Stat()
	y, errY := b.Stat()
	return errX == nil && errY == nil && os.SameFile(x, y)
}

// Monotonic returns CLOCK_MONOTONIC, the clock of all times in a page.
func Monotonic() time.Duration {
	var ts unix.Timespec
	// The clock exists on all Linux systems; the call cannot fail.
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts)
	return time.Duration(ts.Nano())
}
