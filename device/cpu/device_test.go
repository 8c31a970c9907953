package cpu

import (
	"bytes"
	"errors"
	"math"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"github.com/weirgpu/weir/device"
)

func openTest(t testing.TB, limit int64) *Device {
	t.Helper()
	d, err := Open("cpu:0", Options{MemoryBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

func TestOpen(t *testing.T) {
	for _, id := range []string{"cpu", "cpu:0"} {
		d, err := Open(id, Options{})
		if err != nil {
			t.Fatalf("%s: %v", id, err)
		}
		if got := d.Info().ID; got != "cpu:0" {
			t.Errorf("%s opened %s", id, got)
		}
	}
	for _, id := range []string{"", "cpu:1", "cuda:0", "CPU"} {
		if _, err := Open(id, Options{}); !errors.Is(err, device.ErrUnknownDevice) {
			t.Errorf("%q: error %v", id, err)
		}
	}
	if _, err := Open("cpu:0", Options{MemoryBytes: -1}); !errors.Is(err, device.ErrInvalidSize) {
		t.Errorf("negative limit: error %v", err)
	}
	if got := openTest(t, 1<<20).Info().MemoryBytes; got != 1<<20 {
		t.Errorf("limit of 1 MiB: memory of %d bytes", got)
	}
	if all := openTest(t, 0).Info().
		MemoryBytes; openTest(t, math.MaxInt64).Info().MemoryBytes != all &&
		all != 0 {
		t.Error("a limit has raised the memory")
	}
}

func TestAlloc(t *testing.T) {
	d := openTest(t, 1<<30)
	for _, n := range []int64{0, 1, 63, 64, 4095, 4096, 4097, 1 << 20, 2 << 20, 2<<20 + 1,
		5 << 20} {
		for round := range 2 { // the second gets pages that were written to
			b, err := d.Alloc(n)
			if err != nil {
				t.Fatalf("%d bytes: %v", n, err)
			}
			mem := device.HostView(b)
			if b.Len() != n || int64(len(mem)) != n || int64(cap(mem)) != n || d.Held() != n {
				t.Fatalf("%d bytes: Len %d, len %d, cap %d, held %d", n, b.Len(), len(mem),
					cap(mem), d.Held())
			}
			at := uintptr(unsafe.Pointer(unsafe.SliceData(mem)))
			if n > 0 && at%device.Alignment != 0 {
				t.Errorf("%d bytes lie at %#x", n, at)
			}
			if bytes.Count(mem, []byte{0}) != len(mem) {
				t.Errorf("%d bytes, round %d: not zeroed", n, round)
			}
			for i := range mem {
				mem[i] = 0xa5
			}
			b.Free()
			b.Free()
			if device.HostView(b) != nil || b.Len() != n || d.Held() != 0 {
				t.Errorf("%d bytes: after Free %d bytes to see, Len %d, held %d", n,
					len(device.HostView(b)), b.Len(), d.Held())
			}
		}
	}
}

func TestAllocRefuses(t *testing.T) {
	d := openTest(t, 1000)
	b, err := d.Alloc(900)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		bytes int64
		want  error
		says  string
	}{
		{101, device.ErrOutOfMemory, "wants 101 bytes, holds 900 of 1000"},
		{math.MaxInt64, device.ErrOutOfMemory, "holds 900 of 1000"},
		{-1, device.ErrInvalidSize, "wants -1 bytes"},
	} {
		_, err := d.Alloc(c.bytes)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) ||
			!strings.Contains(err.Error(), "cpu:0") {
			t.Errorf("%d bytes: error %v", c.bytes, err)
		}
	}
	if d.Held() != 900 {
		t.Errorf("refusals have changed the bytes held to %d", d.Held())
	}
	last, err := d.Alloc(100)
	if err != nil {
		t.Errorf("the last 100 bytes: %v", err)
	}
	b.Free()
	last.Free()
}

// TestAllocBeyondTheMachine asks for what no address space has, on a device whose memory is not
// known.
func TestAllocBeyondTheMachine(t *testing.T) {
	d := &Device{info: device.Info{ID: "cpu:0"}, ledger: device.NewLedger("cpu:0", 0)}
	for _, n := range []int64{1 << 60, math.MaxInt64} {
		if _, err := d.Alloc(n); !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("%d bytes: error %v", n, err)
		}
	}
	if d.Held() != 0 {
		t.Errorf("%d bytes held", d.Held())
	}
}

func TestClosedDevice(t *testing.T) {
	d := openTest(t, 1<<20)
	b, err := d.Alloc(10)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.Close(); !errors.Is(err, device.ErrInUse) {
		t.Errorf("Close with a buffer held: %v", err)
	}
	b.Free()
	for range 2 {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	}
	if _, err := d.Alloc(10); !errors.Is(err, device.ErrClosed) {
		t.Errorf("Alloc after Close: %v", err)
	}
}

// TestHeldIsExact allocates from many goroutines under a limit: the sum held never exceeds it, and
// nothing is lost at the end.
func TestHeldIsExact(t *testing.T) {
	const limit = 1 << 16
	d := openTest(t, limit)
	var wg sync.WaitGroup
	for g := range 8 {
		wg.Go(func() {
			for i := range 200 {
				b, err := d.Alloc(int64(1 + (g*7919+i*104729)%20000))
				if held := d.Held(); held > limit || held < 0 {
					t.Errorf("%d bytes held of %d", held, limit)
				}
				if err == nil {
					b.Free()
				} else if !errors.Is(err, device.ErrOutOfMemory) {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	if d.Held() != 0 {
		t.Errorf("%d bytes held at the end", d.Held())
	}
}

// TestWrap counts memory that lies elsewhere as held, within the limit, and leaves it alone.
func TestWrap(t *testing.T) {
	d := openTest(t, 1<<20)
	own, err := d.Alloc(1 << 19)
	if err != nil {
		t.Fatal(err)
	}
	defer own.Free()
	b, err := d.Wrap(device.HostView(own)[:1<<18])
	if err != nil {
		t.Fatal(err)
	}
	if d.Held() != 1<<19+1<<18 || b.Len() != 1<<18 || b.Address() != own.Address() {
		t.Errorf("%d bytes held, %d long", d.Held(), b.Len())
	}
	if _, err := d.Wrap(device.HostView(own)); !errors.Is(err, device.ErrOutOfMemory) {
		t.Errorf("over the limit: error %v", err)
	}
	b.Free()
	b.Free()
	mem := device.HostView(own)
	if mem[0] = 7; d.Held() != 1<<19 || device.HostView(b) != nil || mem[1<<17] != 0 {
		t.Errorf("after Free: %d bytes held", d.Held())
	}
	none, err := d.Wrap(nil)
	if err != nil || none.Len() != 0 {
		t.Errorf("no bytes: error %v", err)
	}
	none.Free()
}

// TestCopies copies to and from a buffer, and holds that what would leave it changes no byte.
func TestCopies(t *testing.T) {
	d, err := Open("cpu:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := d.Alloc(8)
	if err != nil {
		t.Fatal(err)
	}
	want := make([]byte, 8)
	for i, c := range []struct {
		off  int64
		n    int
		fits bool
	}{{0, 8, true}, {2, 3, true}, {7, 1, true}, {8, 0, true}, {0, 9, false}, {8, 1, false},
		{-1, 1, false}, {9, 0, false}, {1 << 62, 1, false}} {
		src, out := bytes.Repeat([]byte{byte(i + 1)}, c.n), make([]byte, c.n)
		in, got := b.CopyIn(c.off, src), b.CopyOut(out, c.off)
		if c.fits != (in == nil) || c.fits != (got == nil) ||
			!c.fits && (!errors.Is(in, device.ErrBounds) || !errors.Is(got, device.ErrBounds)) {
			t.Errorf("%d bytes at %d: in %v, out %v", c.n, c.off, in, got)
		}
		if c.fits {
			copy(want[c.off:], src)
		}
		if !bytes.Equal(device.HostView(b), want) || c.fits && !bytes.Equal(out, src) {
			t.Errorf("%d bytes at %d: got %v, want %v", c.n, c.off, device.HostView(b), want)
		}
	}
	b.Free()
	if err := b.CopyIn(0, []byte{1}); !errors.Is(err, device.ErrBounds) {
		t.Errorf("to a buffer that was freed: error %v", err)
	}
}
