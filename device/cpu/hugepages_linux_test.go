package cpu

import (
	"os"
	"sync"
	"testing"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/device"
)

// faults counts the page faults of this process that took no disk.
func faults(t *testing.T) int64 {
	t.Helper()
	var u unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_SELF, &u); err != nil {
		t.Fatal(err)
	}
	return u.Minflt
}

// TestPopulate wants small pages present that were populated from several goroutines, and nothing
// else changed, whether memory is on small pages or on huge ones.
func TestPopulate(t *testing.T) {
	const size, part = 9<<20 + 4096, 1 << 20
	for _, small := range []bool{false, true} {
		d := openTest(t, 0)
		b, err := d.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Free()
		own := b.(*buffer)
		mem := device.HostView(b)
		mem[5<<20] = 7
		if small {
			own.mem.Load().leaveHuge()
		}
		var done sync.WaitGroup
		for from := int64(0); from < size; from += part {
			done.Go(func() { own.Populate(from, min(from+part+100, size)) })
		}
		done.Wait()
		before := faults(t)
		for i := 0; i < size; i += 4096 {
			if want := map[bool]byte{true: 7}[i == 5<<20]; mem[i] != want {
				t.Errorf("byte %d is %d, want %d", i, mem[i], want)
			}
			mem[i] = 1
		}
		if n := faults(t) - before; n > size/4096/4 && populates() {
			t.Errorf("small pages %v: %d faults after populating %d pages", small, n, size/4096)
		}
		for _, now := range []bool{false, true} {
			own.Enlarge(now)
			for i := 0; i < size; i += 4096 {
				if mem[i] != 1 {
					t.Fatalf("byte %d is %d after Enlarge(%v)", i, mem[i], now)
				}
			}
		}
	}
}

// TestPopulateOnce asks for a block part by part, as weights do that are packed: the system is not
// asked again for pages that are known to be present, wherever they went meanwhile, and is for
// those that were given back.
func TestPopulateOnce(t *testing.T) {
	if !populates() {
		t.Skip("this kernel populates nothing")
	}
	var maps [2]*mapping
	for i := range maps {
		m, err := mapMemory(2 * block)
		if err != nil {
			t.Fatal(err)
		}
		defer m.unmap()
		maps[i] = m
	}
	// known takes a block's pages behind the back of the mapping and asks for a part of it.
	known := func(m *mapping, at int) bool {
		t.Helper()
		if err := unix.Madvise(m.pages()[at:at+block], unix.MADV_DONTNEED); err != nil {
			t.Fatal(err)
		}
		m.populate(at+block/2, at+block/2+1000)
		here := make([]byte, block/unix.Getpagesize())
		_, _, errno := unix.Syscall(unix.SYS_MINCORE,
			uintptr(unsafe.Pointer(&m.pages()[at])), block, uintptr(unsafe.Pointer(&here[0])))
		if errno != 0 {
			t.Fatal(errno)
		}
		return here[len(here)/2]&1 == 0
	}
	want := func(what string, m *mapping, at int, want bool) {
		t.Helper()
		if got := known(m, at); got != want {
			t.Errorf("%s: taken to be present: %v, want %v", what, got, want)
		}
	}
	a, b := maps[0], maps[1]
	want("a block that nobody asked for", a, block, false)
	want("a block that was asked for", a, block, true)
	want("the block before it", a, 0, false)
	a.discard(block, 2*block-4096, 0, 2*block)
	want("a block, most of which was given back", a, block, false)
	if !a.move(block, b, 0) {
		t.Skip("this kernel moves no pages")
	}
	want("a block in place of which another came that nobody asked for", a, block, false)
	b.populate(block, 2*block)
	if !a.move(0, b, block) {
		t.Fatal("this kernel moved pages a moment ago")
	}
	want("a block that was asked for where it came from", a, 0, true)
	want("a block that went elsewhere", b, block, false)
}

// populates reports whether this kernel can. QEMU's emulation of a user's program says so to any
// advice, and follows none.
func populates() bool {
	page, err := unix.Mmap(-1, 0, unix.Getpagesize(), unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Munmap(page) }()
	var here byte
	err = unix.Madvise(page, unix.MADV_POPULATE_WRITE)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&page[0])),
		uintptr(len(page)), uintptr(unsafe.Pointer(&here)))
	return err == nil && errno == 0 && here&1 == 1
}

// TestMoves holds that pages are moved exactly where the place that they came from can be used as
// before, by system calls, too.
func TestMoves(t *testing.T) {
	size := unix.Getpagesize()
	m, err := unix.Mmap(-1, 0, 2*size, unix.PROT_READ|unix.PROT_WRITE,
		unix.MAP_PRIVATE|unix.MAP_ANON)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(m) }()
	from, to := unsafe.Pointer(&m[0]), unsafe.Pointer(&m[size])
	_, err = unix.MremapPtr(from, uintptr(size), to, uintptr(size),
		unix.MREMAP_MAYMOVE|unix.MREMAP_FIXED|unix.MREMAP_DONTUNMAP)
	if err == nil {
		_, err = unix.Getrandom(m[:size], 0)
	}
	if moves() != (err == nil) {
		t.Errorf("pages are moved: %v; where they came from: %v", moves(), err)
	}
}

// TestPopulateRefuses gives stretches that are none of the buffer's, and buffers that have no pages
// of their own.
func TestPopulateRefuses(t *testing.T) {
	d := openTest(t, 0)
	b, err := d.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	own := b.(*buffer)
	for _, stretch := range [][2]int64{{-1, 5}, {5, 5}, {6, 5}, {0, 101}, {100, 101}} {
		own.Populate(stretch[0], stretch[1])
	}
	b.Free()
	own.Populate(0, 100)
	own.Enlarge(true)
	wrapped, err := d.Wrap(make([]byte, 128))
	if err != nil {
		t.Fatal(err)
	}
	defer wrapped.Free()
	wrapped.(*buffer).Populate(0, 128)
	wrapped.(*buffer).Enlarge(true)
	empty, err := d.Alloc(0)
	if err != nil {
		t.Fatal(err)
	}
	defer empty.Free()
	empty.(*buffer).Enlarge(true)
}

// TestDearPages lets memory that is asked for soon after a huge page was dear come in small pages,
// and later no more.
func TestDearPages(t *testing.T) {
	d := openTest(t, 0)
	wants := func(small bool) {
		t.Helper()
		b, err := d.Alloc(4 << 20)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Free()
		m := b.(*buffer).mem.Load()
		if m.huge.wanted && m.huge.small.Load() != small {
			t.Errorf("to be made huge later: %v, want %v", !small, small)
		}
		if m.huge.off.Load() != small {
			t.Errorf("small pages: %v, want %v", !small, small)
		}
	}
	wants(false)
	d.foundDear()
	// A test that is held up here must not reach the end of the time.
	late := d.dear.Load().Add(time.Hour)
	d.dear.Store(&late)
	wants(true)
	long := late.Add(-time.Hour - dearFor)
	d.dear.Store(&long)
	wants(false)
}

func TestHugePagesAllowed(t *testing.T) {
	for text, want := range map[string]bool{"always [madvise] never\n": true,
		"[always] madvise never\n": true, "always madvise [never]\n": false, "": false} {
		read := func(string) ([]byte, error) {
			if text == "" {
				return nil, os.ErrNotExist
			}
			return []byte(text), nil
		}
		if got := hugePagesAllowed(read); got != want {
			t.Errorf("%q: %v", text, got)
		}
	}
}
