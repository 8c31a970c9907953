package cpu

import (
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/device"
)

// allocated is a buffer whose bytes were all written.
func allocated(t *testing.T, d *Device, size int64, fill byte) *buffer {
	t.Helper()
	b, err := d.Alloc(size)
	if err != nil {
		t.Fatal(err)
	}
	set(b, 0, size, fill)
	return b.(*buffer)
}

func set(b device.Buffer, from, to int64, fill byte) {
	mem := device.HostView(b)[from:to]
	for i := range mem {
		mem[i] = fill
	}
}

// wrong returns how many bytes of a stretch are not what they were set to.
func wrong(b device.Buffer, from, to int64, fill byte) (n int) {
	for _, x := range device.HostView(b)[from:to] {
		if x != fill {
			n++
		}
	}
	return n
}

// present is how many bytes of a buffer have pages, by what the system says.
func present(t *testing.T, b *buffer) (n int64) {
	t.Helper()
	m := b.mem.Load()
	here := make([]byte, (m.size+uintptr(os.Getpagesize())-1)/uintptr(os.Getpagesize()))
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(m.base), m.size,
		uintptr(unsafe.Pointer(&here[0])))
	if errno != 0 {
		t.Fatal(errno)
	}
	for _, x := range here {
		n += int64(x&1) * int64(os.Getpagesize())
	}
	return n
}

func commit(t *testing.T, b *buffer, from, to int64) {
	t.Helper()
	if _, err := b.Commit(from, to); err != nil {
		t.Fatal(err)
	}
}

// TestSparesChangeHands has the pages of one buffer go to another and back: they are there before
// anybody writes, and never in both.
func TestSparesChangeHands(t *testing.T) {
	const size = 4*block + 1000
	d := openTest(t, 0)
	a := allocated(t, d, size, 1)
	b := allocated(t, d, size, 2)
	defer b.Free()
	b.Decommit(0, size)
	for range 3 {
		a.Decommit(0, size)
		commit(t, b, 0, size)
		if p := present(t, b); p < 4*block {
			t.Errorf("%d bytes of who takes are there, want those of 4 blocks", p)
		}
		set(b, 0, size, 3)
		b.Decommit(0, size)
		commit(t, a, 0, size)
		if p := present(t, a); p < 4*block {
			t.Errorf("%d bytes of who takes back are there, want those of 4 blocks", p)
		}
		set(a, 0, size, 4)
		if n := wrong(a, 0, size, 4); n > 0 || d.Held() != size {
			t.Errorf("%d bytes are wrong, %d held", n, d.Held())
		}
	}
	if pages := present(t, a) + present(t, b); pages > 2*size+2*block {
		t.Errorf("%d bytes are there, of which %d were held", pages, 2*size)
	}
	a.Decommit(0, size)
	a.Free() // whose pages nobody can take any more
	commit(t, b, 0, size)
	set(b, 0, size, 5)
	if n := wrong(b, 0, size, 5); n > 0 {
		t.Errorf("%d bytes are wrong", n)
	}
}

// TestSparesSpareWhatIsHeld commits more than was given back: what was held keeps its bytes.
func TestSparesSpareWhatIsHeld(t *testing.T) {
	d := openTest(t, 0)
	a, b := allocated(t, d, 4*block, 1), allocated(t, d, 4*block, 2)
	defer a.Free()
	defer b.Free()
	a.Decommit(0, 4*block)
	b.Decommit(block+block/2, 3*block)
	commit(t, b, 0, 4*block)
	set(b, block+block/2, 3*block, 2)
	if n := wrong(b, 0, 4*block, 2); n > 0 {
		t.Errorf("%d bytes are wrong", n)
	}
	b.Decommit(0, 2*block)
	commit(t, b, block/2, block) // half of a block that is kept
	if p := present(t, b); p != 3*block {
		t.Errorf("%d bytes are there, want those of 2 blocks that are held and of one kept", p)
	}
	set(b, block/2, block, 2)
	commit(t, a, 0, 4*block)
	set(a, 0, 4*block, 1)
	if n := wrong(b, block/2, block, 2) + wrong(b, 2*block, 4*block, 2); n > 0 {
		t.Errorf("after half a block: %d bytes are wrong", n)
	}
}

// TestSparesAreBounded lets nothing be kept beside what was allocated since, so that the process
// has no more than was held at some time, and nothing for long.
func TestSparesAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size = 4 * block
		d := openTest(t, 0)
		a := allocated(t, d, size, 1)
		defer a.Free()
		a.Decommit(0, size)
		if p := present(t, a); p != size {
			t.Errorf("%d bytes are kept, want %d", p, size)
		}
		b := allocated(t, d, size-block/2, 2)
		defer b.Free()
		if p := present(t, a); p != 0 {
			t.Errorf("%d bytes are kept beside as many that are held", p)
		}
		b.Decommit(0, 2*block)
		synctest.Wait()
		if p := present(t, b); p != size-block/2 {
			t.Errorf("%d bytes are there before the time is over, want %d", p, size-block/2)
		}
		pass(keepFor / 2)
		b.Decommit(2*block, 3*block)
		pass(keepFor / 2)
		if p := present(t, b); p != size-block/2-2*block {
			t.Errorf("%d bytes are there after the time of some, want those of 1.5 blocks", p)
		}
		pass(keepFor)
		if p := present(t, b); p != block/2 {
			t.Errorf("%d bytes are there after the time of all, want those of half a block", p)
		}
		commit(t, b, 0, block)
		set(b, 0, block, 2)
		b.Decommit(0, block) // after a time in which nothing was kept
		pass(keepFor)
		if p := present(t, b); p != block/2 {
			t.Errorf("%d bytes are there after a second time, want those of half a block", p)
		}
	})
}

// TestSparesMakeRoomForParts commits less than a block, for which nothing is taken.
func TestSparesMakeRoomForParts(t *testing.T) {
	d := openTest(t, 0)
	a, b := allocated(t, d, 4*block, 1), allocated(t, d, 4*block, 2)
	defer a.Free()
	defer b.Free()
	a.Decommit(0, 4*block)
	b.Decommit(0, 4*block)
	c := allocated(t, d, 4*block, 3) // in place of those of a
	defer c.Free()
	commit(t, a, 0, block/2)
	if p := present(t, a) + present(t, b); p != 3*block {
		t.Errorf("%d bytes are kept beside 4.5 blocks of 8, want those of 3", p)
	}
}

// pass lets time go by in a bubble.
func pass(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// TestSparesAtRandom has jobs give memory back and take it beside each other: the bytes of each are
// those that it has written.
func TestSparesAtRandom(t *testing.T) {
	const size, part, parts = 5*block + 3*block/4, block / 4, 23
	d := openTest(t, 0)
	var jobs sync.WaitGroup
	for n := range 4 {
		b := allocated(t, d, size, byte(n))
		jobs.Go(func() {
			defer b.Free()
			rng := rand.New(rand.NewPCG(7, uint64(n)))
			var here [parts]bool
			for i := range here {
				here[i] = true
			}
			for range 300 {
				first := rng.IntN(parts)
				last := first + 1 + rng.IntN(parts-first)
				if rng.IntN(2) == 0 {
					b.Decommit(int64(first)*part, int64(last)*part)
				} else if _, err := b.Commit(int64(first)*part, int64(last)*part); err != nil {
					t.Error(err)
				}
				for i := range here {
					from, to := int64(i)*part, int64(i+1)*part
					switch in, now := i >= first && i < last, b.away.Missing(from, to) > 0; {
					case in && now && !here[i]:
						set(b, from, to, byte(n))
						here[i] = true
					case now && wrong(b, from, from+64, byte(n)) > 0,
						now && wrong(b, to-64, to, byte(n)) > 0:
						t.Errorf("job %d: part %d has other bytes", n, i)
						return
					default:
						here[i] = now
					}
				}
			}
		})
	}
	jobs.Wait()
	if d.Held() != 0 || len(d.spares.blocks) != 0 {
		t.Errorf("%d bytes held, %d blocks kept at the end", d.Held(), len(d.spares.blocks))
	}
}
