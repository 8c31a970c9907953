package cpu

import (
	"runtime"
	"slices"
	"testing"
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
