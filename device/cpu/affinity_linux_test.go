package cpu

import (
	"runtime"
	"slices"
	"testing"

	"github.com/weirgpu/weir/device"
)

// cpusOfThread lists the processors of the calling thread's mask.
func cpusOfThread() (cpus []int) {
	set := maskOf(0)
	for c := range maxCPU {
		if set.IsSet(c) {
			cpus = append(cpus, c)
		}
	}
	return cpus
}

func TestPin(t *testing.T) {
	allowed := allowedCPUs()
	for _, opts := range []PoolOptions{
		{Threads: 2, Pin: true},
		{Threads: 3, Pin: true, CPUs: []int{-1, allowed[len(allowed)-1], maxCPU}},
	} {
		p := newTestPool(t, opts)
		want := func(worker int) []int { return []int{p.cpus[worker%len(p.cpus)]} }
		for range 20 {
			meet := &barrier{n: int32(opts.Threads)}
			a := newAudit(opts.Threads, opts.Threads, func(i, worker int) {
				if worker > 0 && !slices.Equal(cpusOfThread(), want(worker)) {
					t.Errorf("worker %d runs on %v, want %v", worker, cpusOfThread(), want(worker))
				}
				meet.Chunk(i, worker)
			})
			if err := p.Run(t.Context(), nil, opts.Threads, a); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func TestPinCaller(t *testing.T) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before := cpusOfThread()
	for name, c := range map[string]struct {
		opts PoolOptions
		want []int
	}{
		"pinned pool":   {PoolOptions{Threads: 2, Pin: true}, before[:1]},
		"floating pool": {PoolOptions{Threads: 2}, before},
	} {
		p := newTestPool(t, c.opts)
		release := p.PinCaller()
		if got := cpusOfThread(); !slices.Equal(got, c.want) {
			t.Errorf("%s: on %v, want %v", name, got, c.want)
		}
		release()
		if got := cpusOfThread(); !slices.Equal(got, before) {
			t.Errorf("%s: after release on %v, want %v", name, got, before)
		}
	}
}

// TestHold ties the threads of a region under a lease on some units to those units' processors,
// and lets them go again under a lease on all.
func TestHold(t *testing.T) {
	allowed := allowedCPUs()
	if len(allowed) < 2 || Cores() != len(allowed) {
		t.Skip("units are no processors here")
	}
	last := len(allowed) - 1
	p := newTestPool(t, PoolOptions{Threads: len(allowed)})
	if !p.Partitions() {
		t.Fatal("the pool does not partition")
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	c := p.NewCaller()
	sees := func(units device.Units, caller, worker []int) {
		t.Helper()
		c.Hold(units)
		meet := &barrier{n: 2}
		g := &narrowGate{units: units}
		if len(caller) == 1 {
			meet.n = 1
		}
		a := newAudit(2, len(allowed), func(i, w int) {
			meet.Chunk(i, w)
			want := caller
			if w == last {
				want = worker
			}
			if got := cpusOfThread(); (w == 0 || w == last) && !slices.Equal(got, want) {
				t.Errorf("units %b: worker %d runs on %v, want %v", units[0], w, got, want)
			}
		})
		if err := p.Run(t.Context(), g, 2, a); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		sees(unitsOf(last), allowed[last:], nil)
		if len(allowed) > 2 {
			sees(unitsOf(last-1, last), allowed[last-1:], allowed[last:])
		}
		sees(device.Units{^uint64(0)}, allowed, allowed)
		sees(unitsOf(0), allowed[:1], nil)
	}
	c.Release()
	if got := cpusOfThread(); !slices.Equal(got, allowed) {
		t.Errorf("after Release on %v, want %v", got, allowed)
	}
}
