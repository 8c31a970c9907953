//go:build linux

package cache

import (
	"os"
	"os/signal"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/fault"
)

// A read lease (fcntl(2), F_SETLEASE) is given on a file that nobody has open for writing. While it
// is held, whoever opens the file for writing or cuts it short waits, and this process is sent
// SIGIO: it copies the bytes, puts the copy in the place of the mapping and ends the lease, and the
// other goes on. So a mapped entry neither changes nor faults, and costs nothing to seal. The
// system lets the other wait for no more than /proc/sys/fs/lease-break-time, 45 s: a process that
// is stopped for longer sees the change.
//
// The signal belongs to the whole process. A program that calls signal.Ignore or signal.Reset for
// SIGIO takes it from this package, and so does foreign code that sets the signal's disposition or
// blocks it in every thread: nobody is told that a writer waits, the writer waits for those 45 s,
// and then goes on. What it overwrites shows through in weights that were checked before, and what
// it cuts off faults, which ends the job that reads it (fault.ErrFile). A program that needs the
// signal for itself uses signal.Notify, which leaves this package its own; one that cannot runs
// without a cache, or keeps its folder where there are no leases: entries are copied there.

// takeLease fails when the file is open for writing, and on file systems without leases.
func takeLease(f *os.File) error {
	startWatching()
	if _, err := unix.FcntlInt(f.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err
	}
	// The system notes the calling thread for the signal, which gets lost when that has ended; the
	// process's first one stays.
	_, err := unix.FcntlInt(f.Fd(), unix.F_SETOWN, os.Getpid())
	return err
}

// watched are the mappings with a lease.
var watched = struct {
	sync.Mutex
	all map[*mapping]bool
}{all: map[*mapping]bool{}}

// startWatching answers signals about leases from then on. By default Go programs ignore them.
var startWatching = sync.OnceFunc(func() {
	signals := make(chan os.Signal, 1) // one suffices: all leases are looked at
	signal.Notify(signals, unix.SIGIO)
	go func() {
		for range signals {
			watched.Lock()
			for m := range watched.all {
				m.part()
			}
			watched.Unlock()
		}
	}()
})

// watch makes a signal about the lease part the mapping from its file. One that came before has
// been missed.
func watch(m *mapping) {
	watched.Lock()
	defer watched.Unlock()
	watched.all[m] = true
	m.part()
}

func unwatch(m *mapping) {
	watched.Lock()
	defer watched.Unlock()
	delete(watched.all, m)
}

// part replaces a mapping by a copy of its bytes when somebody waits to write the file. Where there
// is no memory for the copy, the writer waits on. A writer that has waited for as long as the
// system lets it may have cut the file short: then there is nothing to copy, and whoever reads the
// mapping fails.
func (m *mapping) part() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.file == nil {
		return
	}
	if kind, err := unix.FcntlInt(m.file.Fd(), unix.F_GETLEASE, 0); err != nil ||
		kind == unix.F_RDLCK {
		return
	}
	size := uintptr(len(m.data))
	at, err := unix.MmapPtr(-1, 0, nil, size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return
	}
	own := unsafe.Slice((*byte)(at), size)
	adviseHuge(own)
	err = fault.Do(func() error {
		copy(own, m.data)
		return unix.Mprotect(own, unix.PROT_READ)
	})
	if err == nil {
		_, err = unix.MremapPtr(at, size, unsafe.Pointer(&m.data[0]), size,
			unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED)
	}
	if err != nil {
		_ = unix.MunmapPtr(at, size)
		return
	}
	_ = m.release()
}

// adviseHuge asks for huge pages.
func adviseHuge(data []byte) { _ = unix.Madvise(data, unix.MADV_HUGEPAGE) }
