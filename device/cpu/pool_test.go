package cpu

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/bits"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
)

// audit is a region that checks what every region may rely on: each chunk once, worker numbers in
// range and never shared, nothing running after the end.
type audit struct {
	runs    []atomic.Int32 // per chunk
	users   []atomic.Int32 // per worker, inside now
	inside  atomic.Int32
	begun   atomic.Int32
	over    atomic.Bool
	faults  atomic.Int32
	perform func(i, worker int) // what the chunk does; may be nil
}

func newAudit(n, threads int, perform func(i, worker int)) *audit {
	return &audit{
		runs:    make([]atomic.Int32, n),
		users:   make([]atomic.Int32, threads),
		perform: perform,
	}
}

func (a *audit) Chunk(i, worker int) {
	a.begun.Add(1)
	a.inside.Add(1)
	defer a.inside.Add(-1)
	if a.over.Load() || a.users[worker].Add(1) != 1 {
		a.faults.Add(1)
	}
	defer a.users[worker].Add(-1)
	a.runs[i].Add(1)
	if a.perform != nil {
		a.perform(i, worker)
	}
}

// end checks the region when Run has returned. Each chunk must have run once, or at most once if
// the region ended early.
func (a *audit) end(t testing.TB, early bool) {
	t.Helper()
	a.over.Store(true)
	if n := a.inside.Load(); n != 0 {
		t.Errorf("%d chunks run after Run returned", n)
	}
	if n := a.faults.Load(); n != 0 {
		t.Errorf("%d chunks shared a worker number or began after Run returned", n)
	}
	for i := range a.runs {
		if n := a.runs[i].Load(); n > 1 || n == 0 && !early {
			t.Errorf("chunk %d ran %d times", i, n)
		}
	}
}

// script is a gate whose lease ends when Revoked has been asked a number of times.
type script struct {
	every  int64 // 0: never
	asked  atomic.Int64
	gone   atomic.Bool
	renews atomic.Int64
	renew  func(ctx context.Context) error // may be nil
}

func (g *script) Revoked() bool {
	if g.every > 0 && g.asked.Add(1)%g.every == 0 {
		g.gone.Store(true)
	}
	return g.gone.Load()
}

func (g *script) Renew(ctx context.Context) error {
	g.renews.Add(1)
	if g.renew != nil {
		if err := g.renew(ctx); err != nil {
			return err
		}
	}
	g.gone.Store(false)
	return ctx.Err()
}

func newTestPool(t testing.TB, opts PoolOptions) *Pool {
	t.Helper()
	p := NewPool(opts)
	t.Cleanup(p.Close)
	return p
}

func TestRunEachChunkOnce(t *testing.T) {
	for _, threads := range []int{1, 2, 3, 8} {
		for _, spin := range []time.Duration{0, -1} {
			p := newTestPool(t, PoolOptions{Threads: threads, Spin: spin, Pin: threads == 2})
			if p.Threads() != threads {
				t.Errorf("Threads() = %d, want %d", p.Threads(), threads)
			}
			for _, n := range []int{-1, 0, 1, 2, 3, 7, 64, 1000} {
				a := newAudit(max(n, 0), threads, nil)
				if err := p.Run(t.Context(), nil, n, a); err != nil {
					t.Errorf("threads %d, n %d: %v", threads, n, err)
				}
				a.end(t, false)
			}
		}
	}
}

func TestRunRefusesTooManyChunks(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	if err := p.Run(t.Context(), nil, maxChunks+1, newAudit(0, 2, nil)); err == nil {
		t.Error("no error")
	}
}

func TestPoolDefaults(t *testing.T) {
	if got, want := newTestPool(t, PoolOptions{}).Threads(), min(Cores(), MaxThreads); got != want {
		t.Errorf("Threads() = %d, want the cores, %d", got, want)
	}
	if got := newTestPool(t, PoolOptions{Threads: 1 << 20}).Threads(); got != MaxThreads {
		t.Errorf("Threads() = %d, want at most %d", got, MaxThreads)
	}
}

// barrier is a region each of whose n chunks waits until all n are under way, so that it ends only
// if n workers come.
type barrier struct {
	n     int32
	begun atomic.Int32
}

func (b *barrier) Chunk(int, int) {
	b.begun.Add(1)
	for b.begun.Load() < b.n {
		runtime.Gosched()
	}
}

func TestRunWakesEveryWorkerNeeded(t *testing.T) {
	for _, threads := range []int{2, 3, 8} {
		for name, spin := range map[string]time.Duration{"parked": -1,
			"brief": 50 * time.Microsecond, "default": 0} {
			t.Run(fmt.Sprintf("%s/%d", name, threads), func(t *testing.T) {
				p := newTestPool(t, PoolOptions{Threads: threads, Spin: spin})
				for range 200 / threads {
					if err := p.Run(
						t.Context(),
						nil,
						threads,
						&barrier{n: int32(threads)},
					); err != nil {
						t.Fatal(err)
					}
				}
			})
		}
	}
}

// TestRunWakesForEveryRegion has two regions that go on only when both callers and both workers are
// in one of them. Each has a chunk more than there are workers, so that its caller gets one
// whatever the workers take.
func TestRunWakesForEveryRegion(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 3, Spin: -1})
	for range 200 {
		var wg sync.WaitGroup
		shared := &barrier{n: 4}
		for range 2 {
			wg.Go(func() {
				if err := p.Run(t.Context(), nil, 3, shared); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
	}
}

func TestWorkersPark(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 4, Spin: 10 * time.Microsecond})
	for bits.OnesCount64(p.parked[0].Load()) != 3 {
		runtime.Gosched()
	}
	if n := p.spinning.Load(); n != 0 {
		t.Errorf("%d workers spin while all are parked", n)
	}
}

// stuck holds the workers of p and the goroutine that calls it inside a region until release is
// called.
func stuck(t *testing.T, p *Pool) (release func()) {
	t.Helper()
	gate, all := make(chan struct{}), make(chan struct{}, p.Threads())
	var done sync.WaitGroup
	done.Go(func() {
		err := p.Run(
			context.Background(),
			nil,
			p.Threads(),
			newAudit(p.Threads(), p.Threads(), func(int, int) {
				all <- struct{}{}
				<-gate
			}),
		)
		if err != nil {
			t.Error(err)
		}
	})
	for range p.Threads() {
		<-all
	}
	return func() { close(gate); done.Wait() }
}

func TestRunDoesNotWaitForABusyWorker(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	release := stuck(t, p)
	a := newAudit(100, 2, func(_, worker int) {
		if worker != 0 {
			t.Errorf("worker %d runs a chunk while it is held elsewhere", worker)
		}
	})
	if err := p.Run(t.Context(), nil, 100, a); err != nil {
		t.Error(err)
	}
	a.end(t, false)
	release()
}

func TestRunBeyondTheSlots(t *testing.T) {
	const callers = maxRegions + 10
	p := newTestPool(t, PoolOptions{Threads: 2})
	b := &barrier{n: callers}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			if err := p.Run(t.Context(), nil, 2, b); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if busy := p.busy.Load(); busy != 0 {
		t.Errorf("slots %b are still taken", busy)
	}
}

func TestGateRevoked(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		for _, every := range []int64{1, 2, 3, 10, 101} {
			t.Run(fmt.Sprintf("threads=%d/every=%d", threads, every), func(t *testing.T) {
				p := newTestPool(t, PoolOptions{Threads: threads})
				const n = 200
				a := newAudit(n, threads, nil)
				g := &script{every: every}
				g.renew = func(context.Context) error {
					if in := a.inside.Load(); in != 0 {
						t.Errorf("Renew with %d chunks running", in)
					}
					return nil
				}
				if err := p.Run(t.Context(), g, n, a); err != nil {
					t.Fatal(err)
				}
				a.end(t, false)
				if r := g.renews.Load(); r == 0 || r > n {
					t.Errorf("%d renewals for %d chunks", r, n)
				}
			})
		}
	}
}

func TestGateAskedBeforeTheFirstChunk(t *testing.T) {
	for _, n := range []int{1, 10} {
		p := newTestPool(t, PoolOptions{Threads: 2})
		a := newAudit(n, 2, nil)
		g := &script{renew: func(context.Context) error {
			if a.begun.Load() != 0 {
				t.Error("a chunk began without a lease")
			}
			return nil
		}}
		g.gone.Store(true)
		if err := p.Run(t.Context(), g, n, a); err != nil {
			t.Fatal(err)
		}
		a.end(t, false)
		if g.renews.Load() != 1 {
			t.Errorf("%d renewals, want 1", g.renews.Load())
		}
	}
}

// TestGateAskedOnce: a model may take as long for a step as to ask the gate.
func TestGateAskedOnce(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	g := &script{every: 1 << 40}
	if err := p.Run(t.Context(), g, 1, newAudit(1, 2, nil)); err != nil {
		t.Fatal(err)
	}
	if n := g.asked.Load(); n != 1 {
		t.Errorf("a gate is asked %d times for one chunk", n)
	}
}

func TestRenewFails(t *testing.T) {
	for _, threads := range []int{1, 2, 4} {
		p := newTestPool(t, PoolOptions{Threads: threads})
		a := newAudit(100, threads, nil)
		g := &script{every: 20, renew: func(context.Context) error { return io.ErrUnexpectedEOF }}
		err := p.Run(t.Context(), g, 100, a)
		a.end(t, true)
		if !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Fatalf("error %v does not wrap what Renew returned", err)
		}
		if want := fmt.Sprintf(
			"with %d of 100 chunks not run",
			100-a.begun.Load(),
		); !strings.Contains(
			err.Error(),
			want,
		) {
			t.Errorf("error %q does not say %q", err, want)
		}
	}
}

func TestCancelled(t *testing.T) {
	cause := errors.New("the client has gone")
	for _, at := range []int32{0, 1, 50, 99} {
		p := newTestPool(t, PoolOptions{Threads: 2})
		ctx, cancel := context.WithCancelCause(t.Context())
		if at == 0 {
			cancel(cause)
		}
		a := newAudit(1000, 2, nil)
		a.perform = func(int, int) {
			if a.begun.Load() >= at {
				cancel(cause)
			}
		}
		err := p.Run(ctx, nil, 1000, a)
		cancel(nil)
		a.end(t, true)
		if !errors.Is(err, context.Canceled) || !errors.Is(err, cause) {
			t.Errorf("at %d: error %v wraps not both ctx.Err() and the cause", at, err)
		}
		// Each worker may have been at its claim when the context ended.
		if ran := a.begun.Load(); ran > at+2 {
			t.Errorf("cancelled at chunk %d, yet %d ran", at, ran)
		}
	}
}

func TestRunWithinAChunk(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 3})
	outer := newAudit(20, 3, func(int, int) {
		inner := newAudit(20, 3, nil)
		if err := p.Run(t.Context(), nil, 20, inner); err != nil {
			t.Error(err)
		}
		inner.end(t, false)
	})
	if err := p.Run(t.Context(), nil, 20, outer); err != nil {
		t.Error(err)
	}
	outer.end(t, false)
}

func TestRunInVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewPool(PoolOptions{Threads: 3})
		defer p.Close()
		g := &script{every: 7, renew: func(context.Context) error {
			time.Sleep(time.Hour)
			return nil
		}}
		a := newAudit(50, 3, nil)
		if err := p.Run(t.Context(), g, 50, a); err != nil {
			t.Fatal(err)
		}
		a.end(t, false)
	})
}

func TestRunDoesNotAllocate(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	g := &script{every: 20}
	r := &spinner{turns: 10}
	for _, n := range []int{1, 2, 100} {
		if allocs := testing.AllocsPerRun(200, func() {
			if err := p.Run(ctx, g, n, r); err != nil {
				t.Fatal(err)
			}
		}); allocs != 0 {
			t.Errorf("%d chunks: %v allocations a region", n, allocs)
		}
	}
	if g.renews.Load() == 0 {
		t.Error("the gate was never revoked")
	}
}

func TestClose(t *testing.T) {
	before := runtime.NumGoroutine()
	for _, spin := range []time.Duration{-1, 0, time.Hour} {
		p := NewPool(PoolOptions{Threads: 6, Spin: spin})
		a := newAudit(100, 6, nil)
		if err := p.Run(t.Context(), nil, 100, a); err != nil {
			t.Error(err)
		}
		p.Close()
		p.Close()
		alone := newAudit(10, 1, nil)
		if err := p.Run(t.Context(), device.Open, 10, alone); err != nil {
			t.Errorf("after Close: %v", err)
		}
		alone.end(t, false)
	}
	// A goroutine that ends is counted until its thread has got a core again.
	for start := time.Now(); runtime.NumGoroutine() > before; runtime.Gosched() {
		if time.Since(start) > 10*time.Second {
			t.Fatalf("%d goroutines, %d before", runtime.NumGoroutine(), before)
		}
	}
}

func TestCloseDuringRegion(t *testing.T) {
	p := NewPool(PoolOptions{Threads: 3})
	a := newAudit(100, 3, nil)
	var closing sync.WaitGroup
	a.perform = func(i, _ int) {
		if i == 10 {
			closing.Go(p.Close)
		}
	}
	if err := p.Run(t.Context(), nil, 100, a); err != nil {
		t.Error(err)
	}
	a.end(t, false)
	closing.Wait()
}
