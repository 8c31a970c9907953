// Package devicetest holds a device to what package device and package compute promise for every
// device: its tests are one call of [Run] for each kind.
//
// Meet first: [Run], and [Machine], what is to be tested.
//
// Concurrency: each test has a device of its own.
//
// What it refuses: nothing; what is not kept fails the test.
package devicetest

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
)

// Machine is an open device and what running kernels on it takes.
type Machine struct {
	Device device.Device
	Target compute.Target
	Pool   compute.Pool
}

// Open opens the device under test with a limit in bytes, and has the test close what goes with it,
// but for the device, at its end.
type Open func(t testing.TB, limit int64) Machine

// Run runs the whole suite.
func Run(t *testing.T, open Open) {
	t.Run("limit", func(t *testing.T) { testLimit(t, open) })
	t.Run("buffers", func(t *testing.T) { testBuffers(t, open) })
	t.Run("bounds", func(t *testing.T) { testBounds(t, open) })
	t.Run("ledger", func(t *testing.T) { testLedger(t, open) })
	t.Run("elastic", func(t *testing.T) { testElastic(t, open) })
	t.Run("target", func(t *testing.T) { testTarget(t, open) })
	t.Run("order", func(t *testing.T) { testOrder(t, open) })
	t.Run("failure", func(t *testing.T) { testFailure(t, open) })
	t.Run("pass", func(t *testing.T) { testPass(t, open) })
	t.Run("in flight", func(t *testing.T) { testInFlight(t, open) })
	t.Run("context", func(t *testing.T) { testContext(t, open) })
	t.Run("close in flight", func(t *testing.T) { testCloseInFlight(t, open) })
	t.Run("two queues", func(t *testing.T) { testTwoQueues(t, open) })
	t.Run("close at once", func(t *testing.T) { testCloseAtOnce(t, open) })
}

// testTarget holds that a target has a name of one line, the same whatever the device's memory, and
// another with other features, and that it describes its device, which is equal to itself alone.
func testTarget(t *testing.T, open Open) {
	a, b := open(t, few), open(t, 2*few)
	if !reflect.TypeOf(a.Device).Comparable() || a.Device == b.Device {
		t.Errorf("devices are of type %T, or two are equal", a.Device)
	}
	id, features := a.Target.Identity(), a.Target.Features()
	features.BF16 = !features.BF16
	if id == "" || strings.Contains(id, "\n") || id != b.Target.Identity() ||
		id == compute.WithFeatures(a.Target, features).Identity() {
		t.Errorf("identity %q, of a second device %q", id, b.Target.Identity())
	}
	if got, want := a.Target.Info(), a.Device.Info(); got.ID != want.ID || got.Kind != want.Kind ||
		got.MemoryBytes != few {
		t.Errorf("the target describes %+v, the device %+v", got, want)
	}
}

// few is a limit that is no whole number of pages, or of anything else.
const few = 1_000_000

// testLimit holds the accounts to the byte.
func testLimit(t *testing.T, open Open) {
	d := open(t, few).Device
	if got := d.Info().MemoryBytes; got != few {
		t.Errorf("limit of %d: memory of %d bytes", few, got)
	}
	a, b := alloc(t, d, few-1), alloc(t, d, 1)
	if d.Held() != few {
		t.Errorf("holds %d of %d", d.Held(), few)
	}
	for n, want := range map[int64]error{1: device.ErrOutOfMemory, -1: device.ErrInvalidSize,
		math.MaxInt64: device.ErrOutOfMemory} {
		_, err := d.Alloc(n)
		if !errors.Is(err, want) || !strings.Contains(err.Error(), d.Info().ID) {
			t.Errorf("%d bytes more: error %v", n, err)
		}
	}
	if err := d.Close(); !errors.Is(err, device.ErrInUse) {
		t.Errorf("Close with buffers held: error %v", err)
	}
	b.Free()
	b.Free()
	if d.Held() != few-1 {
		t.Errorf("holds %d after one byte was freed twice", d.Held())
	}
	alloc(t, d, 1).Free()
	a.Free()
	for range 2 {
		if err := d.Close(); err != nil || d.Held() != 0 {
			t.Errorf("Close with %d bytes held: error %v", d.Held(), err)
		}
	}
	if _, err := d.Alloc(1); !errors.Is(err, device.ErrClosed) {
		t.Errorf("after Close: error %v", err)
	}
	if q, ok := d.(compute.Queued); ok {
		if _, err := q.NewQueue(); !errors.Is(err, device.ErrClosed) {
			t.Errorf("a queue after Close: error %v", err)
		}
	}
}

func alloc(t *testing.T, d device.Device, n int64) device.Buffer {
	t.Helper()
	b, err := d.Alloc(n)
	if err != nil {
		t.Fatalf("%d bytes: %v", n, err)
	}
	return b
}

// testBuffers holds that buffers are apart, aligned and zeroed, those of used memory, too.
func testBuffers(t *testing.T, open Open) {
	d := open(t, 64<<20).Device
	for range 2 {
		var all []device.Buffer
		for i, n := range []int64{0, 1, 63, 64, 65, 4096, 2<<20 + 1} {
			b := alloc(t, d, n)
			all = append(all, b)
			if b.Len() != n || n > 0 && b.Address()%device.Alignment != 0 {
				t.Errorf("%d bytes: length %d at %#x", n, b.Len(), b.Address())
			}
			got := make([]byte, n)
			if err := b.CopyOut(got, 0); err != nil || bytes.Count(got, []byte{0}) != len(got) {
				t.Errorf("%d bytes are not zeroed: error %v", n, err)
			}
			if err := b.CopyIn(0, bytes.Repeat([]byte{byte(i + 1)}, int(n))); err != nil {
				t.Error(err)
			}
		}
		for i, b := range all {
			got := make([]byte, b.Len())
			err := b.CopyOut(got, 0)
			if err != nil || bytes.Count(got, []byte{byte(i + 1)}) != len(got) {
				t.Errorf("%d bytes: another buffer was written, or error %v", b.Len(), err)
			}
			b.Free()
		}
	}
}

// testBounds holds that a copy that leaves its buffer moves no byte.
func testBounds(t *testing.T, open Open) {
	d := open(t, few).Device
	b := alloc(t, d, 8)
	for _, c := range []struct{ off, n int64 }{{0, 9}, {8, 1}, {-1, 1}, {9, 0}, {1 << 62, 1}} {
		mem := bytes.Repeat([]byte{0xa5}, int(c.n))
		in, out := b.CopyIn(c.off, mem), b.CopyOut(mem, c.off)
		if !errors.Is(in, device.ErrBounds) || !errors.Is(out, device.ErrBounds) {
			t.Errorf("%d bytes at %d: in %v, out %v", c.n, c.off, in, out)
		}
		if bytes.Count(mem, []byte{0xa5}) != len(mem) {
			t.Errorf("%d bytes at %d: the host's were written", c.n, c.off)
		}
	}
	got := make([]byte, 8)
	if err := b.CopyOut(got, 0); err != nil || !bytes.Equal(got, make([]byte, 8)) {
		t.Errorf("after refused copies the buffer is %v, error %v", got, err)
	}
	b.Free()
	if err := b.CopyIn(0, got); !errors.Is(err, device.ErrBounds) {
		t.Errorf("to a buffer that was freed: error %v", err)
	}
}

// testLedger holds the accounts when many ask at once.
func testLedger(t *testing.T, open Open) {
	d := open(t, 1000).Device
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				b, err := d.Alloc(300)
				if err != nil {
					if !errors.Is(err, device.ErrOutOfMemory) {
						t.Error(err)
					}
					continue
				}
				if held := d.Held(); held < 300 || held > 900 {
					t.Errorf("holds %d of 1000", held)
				}
				b.Free()
			}
		})
	}
	all.Wait()
	if d.Held() != 0 {
		t.Errorf("holds %d in the end", d.Held())
	}
}
