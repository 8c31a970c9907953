package cpu

import (
	"bytes"
	"os"
	"runtime"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Huge pages halve the time of products that read weights from memory, and clearing one takes a
// quarter of the time of clearing its small pages, provided that the system has huge pages at hand.
// When it has none, it may first have to move pages of other programs; and where the host of a
// virtual machine has taken free memory back, in blocks of the size of a huge page (virtio-balloon,
// free page reporting), the host has to give it again. Either takes twenty times as long, which
// makes seconds for the weights of a model, even while small pages are still to be had. So each
// huge page that is populated is timed. After one that took long, memory comes in small pages,
// which the system makes huge as time goes by (khugepaged).
const (
	// dearHugePage is the time of populating a huge page, on its own thread, above which it is
	// dear. No machine needs as long to clear a huge page, which takes some 100 to 400 µs, or to
	// clear the small pages in its place, which takes 1 ms.
	dearHugePage = 3 * time.Millisecond
	// dearFor is how long one dear huge page speaks for those to come.
	dearFor = 2 * time.Second
)

// hugePages is how a mapping stands to huge pages.
type hugePages struct {
	wanted bool        // it is large enough, and begins where one does
	off    atomic.Bool // small pages are taken
	small  atomic.Bool // some small pages may have been taken, which were not made huge
}

// blockSet says of which blocks of a mapping all pages are known to be present. Weights are packed
// in parts much smaller than a block, each of which asks for the block that it lies in; where that
// is on small pages the system looks at all of them each time, which takes longer than the part.
// The zero value knows of none and notes none.
type blockSet []atomic.Uint64

func newBlockSet(size uintptr) blockSet { return make(blockSet, (size/block+64)/64) }

func (s blockSet) has(i int) bool { return s != nil && s[i/64].Load()&(1<<(i%64)) != 0 }

func (s blockSet) set(i int, here bool) {
	switch {
	case s == nil:
	case here:
		s[i/64].Or(1 << (i % 64))
	default:
		s[i/64].And(^uint64(1 << (i % 64)))
	}
}

// advise gives advice on all pages of a mapping that has huge ones. A kernel without refuses it,
// and the memory is there all the same.
func (m *mapping) advise(advice int) {
	if m.huge.wanted {
		_ = unix.Madvise(m.pages(), advice)
	}
}

// leaveHuge makes pages to come small ones.
func (m *mapping) leaveHuge() {
	if m.huge.wanted && !m.huge.off.Swap(true) {
		m.huge.small.Store(true)
		m.advise(unix.MADV_NOHUGEPAGE)
	}
}

// populate makes pages present that hold bytes from one to before another, and reports whether a
// huge one was dear. A kernel that cannot (before Linux 5.14) leaves them to be taken as they are
// written.
func (m *mapping) populate(from, to int) (dear bool) {
	if m.size == 0 {
		m.present(from, to)
		return false
	}
	pages, small := m.pages(), unix.Getpagesize()
	for at := from / hugePage * hugePage; at < to; at += hugePage {
		end := at + hugePage
		if m.here.has(at / hugePage) {
			continue
		}
		if !m.huge.wanted || m.huge.off.Load() {
			begin := max(at, from) / small * small
			end = min(roundUp(min(end, to), small), len(pages))
			_ = unix.Madvise(pages[begin:end], unix.MADV_POPULATE_WRITE)
			continue
		}
		end = min(end, len(pages))
		if threadTime(func() { _ = unix.Madvise(pages[at:end], unix.MADV_POPULATE_WRITE) }) >
			dearHugePage {
			m.leaveHuge()
			dear = true
		}
		m.here.set(at/hugePage, true)
	}
	return dear
}

func roundUp(n, to int) int { return (n + to - 1) / to * to }

// threadTime returns for how long a call occupied a processor. Time that the thread spends waiting
// for a processor does not count.
func threadTime(call func()) time.Duration {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	var before, after unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &before)
	call()
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &after)
	return time.Duration(after.Nano() - before.Nano())
}

// enlarge lets the system make small pages huge, bit by bit, or now.
func (m *mapping) enlarge(now bool) {
	if m.huge.off.Swap(false) {
		m.advise(unix.MADV_HUGEPAGE)
	}
	if now && m.huge.small.Swap(false) && hugePagesAllowed(os.ReadFile) {
		m.advise(unix.MADV_COLLAPSE)
	}
}

// hugePagesAllowed reports whether the system's owner lets programs have huge pages, which
// MADV_COLLAPSE does not ask (Linux, Documentation/admin-guide/mm/transhuge.rst).
func hugePagesAllowed(read func(name string) ([]byte, error)) bool {
	setting, err := read("/sys/kernel/mm/transparent_hugepage/enabled")
	return err == nil && !bytes.Contains(setting, []byte("[never]"))
}
