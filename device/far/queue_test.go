package far

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
)

type taskFunc func(x *compute.Exec) error

func (f taskFunc) Run(x *compute.Exec) error { return f(x) }

func open(t *testing.T) *Device {
	t.Helper()
	d, err := Open("far:0", Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func newQueue(t *testing.T, d *Device) *queue {
	t.Helper()
	q, err := d.NewQueue()
	if err != nil {
		t.Fatal(err)
	}
	return q.(*queue)
}

// TestFaults has kernels panic, end their goroutine and touch memory that was freed: each is an
// error of its own queue, what was given after it is left out, and the queue goes on after Wait.
func TestFaults(t *testing.T) {
	d := open(t)
	b, err := d.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	freed := compute.BlockOf(b)
	b.Free()
	q := newQueue(t, d)
	defer q.Close()
	x := &compute.Exec{Ctx: t.Context()}
	var none []int
	for name, c := range map[string]struct {
		task taskFunc
		kind error
	}{
		"panic":  {func(*compute.Exec) error { panic("bad kernel") }, compute.ErrPanic},
		"index":  {func(*compute.Exec) error { none[1]++; return nil }, compute.ErrPanic},
		"goexit": {func(*compute.Exec) error { runtime.Goexit(); return nil }, compute.ErrPanic},
		"freed": {func(*compute.Exec) error {
			_, err := d.memory(freed.At, freed.N)
			return err
		}, device.ErrBounds},
	} {
		ran := false
		after := taskFunc(func(*compute.Exec) error { ran = true; return nil })
		if err := errors.Join(q.Run(x, c.task), q.Run(x, after)); err != nil {
			t.Fatal(err)
		}
		if err := q.Wait(); !errors.Is(err, c.kind) || ran {
			t.Errorf("%s: error %v, what came after it ran: %v", name, err, ran)
		} else if strings.Contains(err.Error(), "chunk") { // of a parallel region, and this is none
			t.Errorf("%s: error %v", name, err)
		}
		if err := errors.Join(q.Run(x, after), q.Wait()); err != nil || !ran {
			t.Errorf("after %s: error %v, ran %v", name, err, ran)
		}
	}
}

// TestCloseAndCancel ends queues whose work has not begun: none of it runs, nobody hangs.
func TestCloseAndCancel(t *testing.T) {
	d := open(t)
	for _, how := range []string{"cancel", "close"} {
		ctx, cancel := context.WithCancel(t.Context())
		q := newQueue(t, d)
		x := &compute.Exec{Ctx: ctx}
		begun, go1 := make(chan bool), make(chan bool)
		late := 0
		err := q.Run(x, taskFunc(func(*compute.Exec) error { close(begun); <-go1; return nil }))
		for range depth {
			err = errors.Join(err,
				q.Run(x, taskFunc(func(*compute.Exec) error { late++; return nil })))
		}
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		if how == "cancel" {
			cancel()
			close(go1)
			if err := q.Wait(); !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: error %v", err)
			}
			q.Close()
		} else {
			q.ending.Store(true) // as Close does, before the first task ends
			close(go1)
			q.Close()
		}
		cancel()
		if late != 0 {
			t.Errorf("%s: %d tasks ran that had not begun", how, late)
		}
		select {
		case _, open := <-q.todo:
			if open {
				t.Errorf("after %s and Close: work is left", how)
			}
		default:
			t.Errorf("after %s and Close: the goroutine of the queue goes on", how)
		}
		if err := q.Run(x, taskFunc(nil)); !errors.Is(err, device.ErrClosed) {
			t.Errorf("after %s and Close: error %v", how, err)
		}
	}
}

// TestAddresses holds that nothing of a buffer's is where the host could have memory, and that the
// device itself reaches no further than its buffers.
func TestAddresses(t *testing.T) {
	d := open(t)
	a, err := d.Alloc(100)
	if err != nil {
		t.Fatal(err)
	}
	defer a.Free()
	if _, visible := a.(device.HostVisible); visible || a.Address()>>48 != 0xFA {
		t.Errorf("visible %v, at %#x", visible, a.Address())
	}
	for _, c := range []struct {
		off  int64
		n    int64
		fits bool
	}{{0, 100, true}, {99, 1, true}, {0, 101, false}, {100, 1, false}, {-1, 1, false},
		{0, -1, false}} {
		mem, err := d.memory(a.Address()+uint64(c.off), c.n)
		if fits := err == nil; fits != c.fits || fits && int64(len(mem)) != c.n ||
			!fits && !errors.Is(err, device.ErrBounds) {
			t.Errorf("%d bytes at %d: %d bytes, error %v", c.n, c.off, len(mem), err)
		}
	}
}

// TestHostRefuses has the host lack the memory that stands in for the device's: nothing is held.
func TestHostRefuses(t *testing.T) {
	d := open(t)
	var err error
	if d.host, err = cpu.Open("cpu:0", cpu.Options{MemoryBytes: 10}); err != nil {
		t.Fatal(err)
	}
	if _, err := d.Alloc(11); !errors.Is(err, device.ErrOutOfMemory) || d.Held() != 0 {
		t.Errorf("error %v, %d bytes held", err, d.Held())
	}
}
