package cpu

import (
	"context"
	"errors"
	"io"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device/compute"
)

// burst is a region whose chunks meet, so that each of n workers has one, and then one worker does
// something that ends its chunk.
type burst struct {
	barrier
	worker int // the one to fail
	fail   func()
}

func (b *burst) Chunk(i, worker int) {
	b.barrier.Chunk(i, worker)
	if worker == b.worker {
		b.fail()
	}
}

func failWith(v any) func() { return func() { panic(v) } }

func TestPanic(t *testing.T) {
	for name, c := range map[string]struct {
		worker int
		value  any
		is     error
	}{
		"caller":           {0, "out of range", compute.ErrPanic},
		"worker":           {1, "out of range", compute.ErrPanic},
		"error":            {1, io.ErrShortBuffer, io.ErrShortBuffer},
		"caller with zero": {0, 0, compute.ErrPanic},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPool(t, PoolOptions{Threads: 2})
			err := p.Run(t.Context(), nil, 2, &burst{barrier{n: 2}, c.worker, failWith(c.value)})
			var pe *compute.PanicError
			if !errors.As(err, &pe) || !errors.Is(err, compute.ErrPanic) || !errors.Is(err, c.is) {
				t.Fatalf("error %v", err)
			}
			if pe.Value != c.value || pe.Worker != c.worker ||
				!strings.Contains(string(pe.Stack), "(*burst).Chunk") {
				t.Errorf("value %v, worker %d, stack:\n%s", pe.Value, pe.Worker, pe.Stack)
			}
			// The pool has kept its strength.
			if err := p.Run(t.Context(), nil, 2, &barrier{n: 2}); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestPanicAlone(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 1})
	a := newAudit(10, 1, func(i, _ int) {
		if i == 3 {
			panic(i)
		}
	})
	err := p.Run(t.Context(), nil, 10, a)
	var pe *compute.PanicError
	if !errors.As(err, &pe) || pe.Chunk != 3 || a.begun.Load() != 4 {
		t.Errorf("error %v after %d chunks", err, a.begun.Load())
	}
}

func TestGoexitOnWorker(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 3})
	for range 20 {
		if err := p.Run(t.Context(), nil, 3, &burst{barrier{n: 3}, 1, runtime.Goexit}); !errors.Is(
			err, compute.ErrPanic) {
			t.Fatalf("error %v", err)
		}
		if err := p.Run(t.Context(), nil, 3, &barrier{n: 3}); err != nil {
			t.Fatal(err)
		}
	}
}

func TestGoexitOnCaller(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	a := newAudit(50, 2, nil)
	a.perform = func(_, worker int) {
		if worker == 0 {
			runtime.Goexit()
		}
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		defer a.end(t, true)
		_ = p.Run(context.Background(), nil, 50, a)
		t.Error("Run returned after the caller's goroutine ended")
	})
	wg.Wait()
	if busy := p.busy.Load(); busy != 0 {
		t.Errorf("slots %b are still taken", busy)
	}
}

func TestPanicLeavesNeighboursAlone(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 3})
	var wg sync.WaitGroup
	for job := range 4 {
		wg.Go(func() {
			for range 200 {
				a := newAudit(30, 3, func(i, _ int) {
					if job == 0 && i == 11 {
						panic("job 0")
					}
				})
				err := p.Run(t.Context(), nil, 30, a)
				a.end(t, job == 0)
				if (job == 0) != errors.Is(err, compute.ErrPanic) {
					t.Errorf("job %d: error %v", job, err)
				}
			}
		})
	}
	wg.Wait()
}
