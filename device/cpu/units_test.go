package cpu

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
)

// unitsOf returns the set of these units.
func unitsOf(list ...int) (set device.Units) {
	for _, u := range list {
		one := unit(u)
		for i := range set {
			set[i] |= one[i]
		}
	}
	return set
}

// narrowGate is a gate that lends some units. Each Renew calls renewed.
type narrowGate struct {
	units   device.Units
	entire  bool
	gone    atomic.Bool
	renews  int
	renewed func(g *narrowGate)
}

func (g *narrowGate) Revoked() bool       { return g.gone.Load() }
func (g *narrowGate) Units() device.Units { return g.units }
func (g *narrowGate) Splits() bool        { return !g.entire }

func (g *narrowGate) Renew(ctx context.Context) error {
	g.renews++
	g.gone.Store(false)
	if g.renewed != nil {
		g.renewed(g)
	}
	return ctx.Err()
}

// TestUnits runs regions under leases of some units: as many workers come as there are units, and
// no others, from spinning and from sleep.
func TestUnits(t *testing.T) {
	for _, threads := range []int{1, 2, 4, 70} {
		for _, spin := range []time.Duration{0, -1} {
			p := newTestPool(t, PoolOptions{Threads: threads, Spin: spin})
			for _, units := range [][]int{{0}, {1}, {0, 1}, {1, 3}, {0, 1, 2, 3}, {2, 64, 69}, {}} {
				t.Run(fmt.Sprint(threads, spin, units), func(t *testing.T) {
					testUnits(t, p, units)
				})
			}
		}
	}
}

func testUnits(t *testing.T, p *Pool, units []int) {
	g := &narrowGate{units: unitsOf(units...)}
	helps := map[int]bool{0: true} // the caller, for the first unit
	for i, u := range units {
		if i > 0 && u < p.Threads() {
			helps[u] = true
		}
	}
	for range 20 {
		meet := &barrier{n: int32(len(helps))}
		a := newAudit(40, p.Threads(), func(i, w int) {
			if !helps[w] {
				t.Errorf("worker %d runs a chunk under a lease on %v", w, units)
			}
			meet.Chunk(i, w)
		})
		if err := p.Run(t.Context(), g, 40, a); err != nil {
			t.Fatal(err)
		}
		a.end(t, false)
	}
}

// TestDisjointUnitsAtOnce has two jobs in regions at the same time that go on only when the workers
// of both sets are there.
func TestDisjointUnitsAtOnce(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 4, Spin: -1})
	sets := [][]int{{0, 1}, {2, 3}}
	helper := []int{1, 3}
	for range 50 {
		meet := &barrier{n: 4}
		var wg sync.WaitGroup
		for i, set := range sets {
			wg.Go(func() {
				a := newAudit(2, 4, func(c, w int) {
					if w != 0 && w != helper[i] {
						t.Errorf("worker %d helps on units %v", w, set)
					}
					meet.Chunk(c, w)
				})
				if err := p.Run(t.Context(), &narrowGate{units: unitsOf(set...)}, 2,
					a); err != nil {
					t.Error(err)
				}
				a.end(t, false)
			})
		}
		wg.Wait()
	}
}

// TestUnitsChangeByRenew gives a region in progress other units: chunks from then on run on those.
func TestUnitsChangeByRenew(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 4})
	g := &narrowGate{units: unitsOf(0, 1)}
	now := []int{0, 1}
	g.renewed = func(g *narrowGate) {
		now = []int{2, 3}
		g.units = unitsOf(now...)
	}
	var begun atomic.Int32
	a := newAudit(100, 4, func(_, w int) {
		if w != 0 && w != now[1] {
			t.Errorf("worker %d runs a chunk under a lease on %v", w, now)
		}
		if begun.Add(1) == 10 {
			g.gone.Store(true)
		}
		pause(100)
	})
	if err := p.Run(t.Context(), g, 100, a); err != nil {
		t.Fatal(err)
	}
	a.end(t, false)
	if g.renews != 1 {
		t.Errorf("%d renewals, want 1", g.renews)
	}
}

// TestLeaseThatDoesNotSplit: a region under one runs to its end, though the lease was asked back
// before it began.
func TestLeaseThatDoesNotSplit(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	for _, n := range []int{1, 50} {
		g := &narrowGate{units: unitsOf(0, 1), entire: true}
		g.gone.Store(true)
		a := newAudit(n, 2, nil)
		if err := p.Run(t.Context(), g, n, a); err != nil {
			t.Fatal(err)
		}
		a.end(t, false)
		if g.renews != 0 {
			t.Errorf("%d chunks: %d renewals within, want none", n, g.renews)
		}
		next := &script{} // whose lease may be asked back within
		next.gone.Store(true)
		if err := p.Run(t.Context(), next, n, newAudit(n, 2, nil)); err != nil {
			t.Fatal(err)
		}
		if got := next.renews.Load(); got != 1 {
			t.Errorf("%d chunks: %d renewals of the next region's lease, want 1", n, got)
		}
	}
}

// TestWorkerOfTheRegionBefore: a worker that was invited to a region which has ended meanwhile runs
// no chunk of one on units that are not its own.
func TestWorkerOfTheRegionBefore(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 2})
	a := newAudit(8, 2, func(i, w int) {
		if w != 0 {
			t.Errorf("worker %d runs chunk %d", w, i)
		} else if i == 0 {
			p.slots[0].help(1)
		}
	})
	if err := p.Run(t.Context(), &narrowGate{units: unitsOf(0)}, 8, a); err != nil {
		t.Fatal(err)
	}
	a.end(t, false)
}

func TestRunOnUnitsDoesNotAllocate(t *testing.T) {
	p := newTestPool(t, PoolOptions{Threads: 3})
	g := &narrowGate{units: unitsOf(0, 2)}
	r := &spinner{turns: 10}
	c := p.NewCaller()
	defer c.Release()
	if allocs := testing.AllocsPerRun(200, func() {
		c.Hold(g.units)
		if err := p.Run(t.Context(), g, 100, r); err != nil {
			t.Fatal(err)
		}
	}); allocs != 0 {
		t.Errorf("%v allocations a region", allocs)
	}
}

// TestUnitsUnderStress has many jobs whose leases are revoked at random and come back on random
// units.
func TestUnitsUnderStress(t *testing.T) {
	const threads, jobs = 5, 8
	p := newTestPool(t, PoolOptions{Threads: threads, Spin: 20 * time.Microsecond})
	gates := make([]*narrowGate, jobs)
	stop := make(chan struct{})
	var revoker, callers sync.WaitGroup
	for i := range gates {
		rng := rand.New(rand.NewPCG(uint64(i), 3))
		g := &narrowGate{}
		g.renewed = func(g *narrowGate) { g.units[0] = 1 + rng.Uint64N(1<<threads-1) }
		g.renewed(g)
		gates[i] = g
		callers.Go(func() { stressUnits(t, p, g, rng) })
	}
	revoker.Go(func() {
		rng := rand.New(rand.NewPCG(1, 2))
		for {
			select {
			case <-stop:
				return
			default:
				gates[rng.IntN(jobs)].gone.Store(true)
				runtime.Gosched()
			}
		}
	})
	callers.Wait()
	close(stop)
	revoker.Wait()
	if open, busy := p.open.Load(), p.busy.Load(); open != 0 || busy != 0 {
		t.Errorf("slots open %b, taken %b after all regions ended", open, busy)
	}
}

// stressUnits runs regions. The gate's units change by Renew only, when no chunk is under way.
func stressUnits(t *testing.T, p *Pool, g *narrowGate, rng *rand.Rand) {
	for range 100 {
		n, turns := 1+rng.IntN(60), rng.IntN(100)
		a := newAudit(n, p.Threads(), func(_, w int) {
			if w != 0 && (!g.units.Has(w) || w == g.units.First()) {
				t.Errorf("worker %d runs a chunk under a lease on %b", w, g.units[0])
			}
			pause(uint32(1 + turns))
		})
		if err := p.Run(t.Context(), g, n, a); err != nil {
			t.Error(err)
		}
		a.end(t, false)
	}
}

// TestCallersTakeProcessors: where several callers hold all units, as many workers fewer help, and
// they come again when a caller pauses.
func TestCallersTakeProcessors(t *testing.T) {
	for _, spin := range []time.Duration{0, -1} {
		p := newTestPool(t, PoolOptions{Threads: 3, Spin: spin})
		all := unitsOf(0, 1, 2)
		mine := []*Caller{p.NewCaller(), p.NewCaller(), p.NewCaller()}
		for callers := len(mine); callers > 0; callers-- {
			for _, c := range mine[:callers] {
				c.Hold(all)
			}
			for _, c := range mine[callers:] {
				c.Pause()
			}
			if got, want := p.slots[0].invited(0)&7, uint64(1)<<(4-callers)-1; got != want {
				t.Errorf("%d callers: workers %b are woken, want %b", callers, got, want)
			}
			for range 20 {
				meet := &barrier{n: int32(1 + 3 - callers)}
				a := newAudit(40, 3, func(i, w int) {
					if w > 3-callers {
						t.Errorf("%d callers: worker %d helps", callers, w)
					}
					meet.Chunk(i, w)
				})
				if err := p.Run(t.Context(), &narrowGate{units: all}, 40, a); err != nil {
					t.Fatal(err)
				}
				a.end(t, false)
			}
		}
		mine[0].Release()
		if n := p.callers.Load(); n != 0 {
			t.Errorf("%d callers left", n)
		}
	}
}
