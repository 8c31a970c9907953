//go:build linux

package cpu

import (
	"os"
	"runtime"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// hugePage is the size of a transparent huge page on amd64 and on arm64 with 4 KiB pages. Memory
// that starts on such a boundary is backed by them from its first byte on, which saves most misses
// of the address translation.
const hugePage = block

// mapping is memory of its own, outside the Go heap. The zero value is empty.
type mapping struct {
	bytes []byte         // what was asked for
	base  unsafe.Pointer // start of the pages mapped
	size  uintptr        // bytes mapped
	huge  hugePages
	here  blockSet // nil where no huge pages are wanted
}

// mapMemory maps n > 0 zeroed bytes.
func mapMemory(n int) (*mapping, error) {
	page := uintptr(os.Getpagesize())
	size := (uintptr(n) + page - 1) &^ (page - 1)
	align := page
	if n >= hugePage {
		align = hugePage
		if n%hugePage > hugePage/2 { // the last page is worth being one, too
			size = (size + hugePage - 1) &^ (hugePage - 1)
		}
	}
	// The kernel places a mapping on any page: map more and trim both ends.
	whole := size + align - page
	if whole < uintptr(n) {
		return nil, unix.ENOMEM
	}
	base, err := unix.MmapPtr(-1, 0, nil, whole, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return nil, err
	}
	head := -uintptr(base) & (align - 1)
	start := unsafe.Add(base, head)
	if head > 0 {
		_ = unix.MunmapPtr(base, head)
	}
	if tail := whole - head - size; tail > 0 {
		_ = unix.MunmapPtr(unsafe.Add(start, size), tail)
	}
	m := &mapping{bytes: unsafe.Slice((*byte)(start), n), base: start, size: size}
	if m.huge.wanted = align == hugePage; m.huge.wanted {
		m.here = newBlockSet(size)
	}
	m.advise(unix.MADV_HUGEPAGE)
	return m, nil
}

// pages are all that is mapped.
func (m *mapping) pages() []byte { return unsafe.Slice((*byte)(m.base), m.size) }

// unmap gives the memory back to the system.
func (m *mapping) unmap() {
	if m.size > 0 {
		// The kernel can refuse only a range that was never mapped.
		_ = unix.MunmapPtr(m.base, m.size)
	}
	m.bytes = nil
}

// discard gives pages back to the system: those with bytes from one to before another of which no
// byte is outside of first to before last. The memory of others is left to them.
func (m *mapping) discard(from, to, first, last int64) {
	if m.size == 0 {
		return
	}
	page := int64(os.Getpagesize())
	begin := max(from/page*page, (first+page-1)/page*page)
	end := min((to+page-1)/page*page, min(last, int64(m.size))/page*page)
	if begin >= end {
		return
	}
	for at := begin / block * block; at < end; at += block {
		m.here.set(int(at/block), false)
	}
	_ = unix.Madvise(m.pages()[begin:end], unix.MADV_DONTNEED)
}

// blocks are the offsets from which on and before which whole blocks lie of bytes from one to
// before another, none in memory that starts on no huge page or is of others.
func (m *mapping) blocks(from, to int64) (begin, end int64) {
	if !m.huge.wanted {
		return 0, 0
	}
	return (from + block - 1) / block * block, min(to, int64(m.size)) / block * block
}

// move brings the pages of another mapping's block to a block of this one, in place of what is
// there, and leaves that block without pages, as new memory is. It reports whether the system can
// (Linux 5.7).
func (m *mapping) move(at int64, from *mapping, fromAt int64) bool {
	if !moves() {
		return false
	}
	to := unsafe.Add(m.base, at)
	_, err := unix.MremapPtr(unsafe.Add(from.base, fromAt), block, to, block,
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP)
	if err != nil {
		return false
	}
	m.here.set(int(at/block), from.here.has(int(fromAt/block)))
	from.here.set(int(fromAt/block), false)
	if from.huge.small.Load() {
		m.huge.small.Store(true)
	}
	advice := unix.MADV_HUGEPAGE // the pages bring their own
	if m.huge.off.Load() {
		advice = unix.MADV_NOHUGEPAGE
	}
	_ = unix.Madvise(unsafe.Slice((*byte)(to), block), advice)
	return true
}

// moves reports whether where pages were moved from stays mapped, as MREMAP_DONTUNMAP asks. QEMU's
// emulation of a user's program (7.2, target_mremap in linux-user/mmap.c) has the kernel do so and
// takes the place for unmapped all the same: system calls that are given memory there fail. What
// the system believes, mincore says.
var moves = sync.OnceValue(func() bool {
	page := uintptr(os.Getpagesize())
	m, err := unix.Mmap(-1, 0, int(2*page), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(m) }()
	from, to := unsafe.Pointer(&m[0]), unsafe.Pointer(&m[page])
	if _, err := unix.MremapPtr(from, page, to, page,
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP); err != nil {
		return false
	}
	var here byte
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(from), page,
		uintptr(unsafe.Pointer(&here)))
	return errno == 0
})

// present has pages mapped that are to be read, of memory of others. The first of them may begin
// before that memory, where no pointer of Go's may point.
func (m *mapping) present(from, to int) {
	begin := uintptr(unsafe.Pointer(unsafe.SliceData(m.bytes))) + uintptr(from)
	head := begin % uintptr(os.Getpagesize())
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, begin-head, uintptr(to-from)+head,
		unix.MADV_POPULATE_READ)
	runtime.KeepAlive(m.bytes)
}
