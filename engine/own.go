package engine

import (
	"context"
	"slices"
	"sync/atomic"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/plan"
)

// ownGroup is about how many bytes are written at a time: what an iteration that is given up has
// written for nothing at most.
const ownGroup = 8 << 20

// ownGroups are the offsets at which a group ends, among those at which what a step needs does.
func ownGroups(borders []int64) (ends []int64) {
	var last int64
	for i, n := range borders {
		if n-last >= ownGroup || i == len(borders)-1 {
			ends, last = append(ends, n), n
		}
	}
	return ends
}

// write packs the next group of weights, by whoever needs them, on the units of its lease. Its
// error is of that iteration alone: whoever waits beside it goes on with the group. w.mu is held,
// but not while it packs.
func (w *weights) write(x *compute.Exec) error {
	borders := w.cuts.of(w.by)
	w.paces.cut(borders)
	i, _ := slices.BinarySearch(borders, w.loaded+1)
	from, to := w.loaded, borders[i]
	w.loading = to
	w.mu.Unlock()
	written := false
	defer func() { // whatever becomes of it
		w.mu.Lock()
		w.loading = 0
		w.ended++
		if written {
			w.loaded = to
			if x.Pool != nil {
				w.paces.last[i].note(to-from, w.own.mean())
			}
		}
		w.tell()
	}()
	if err := let(x, meterOf(w.counts()), to-from); err != nil {
		return err
	}
	o := plan.PackOptions{Context: x.Ctx, From: from, To: to, Gate: x.Gate}
	if x.Pool != nil { // else by this goroutine
		w.own.begin(x.Pool)
		o.Pool = w.own
	}
	err := w.again(o)
	written = err == nil
	return err
}

// ownPool is a pool that adds up for how long its workers are at work: what a group takes is that,
// and not also the time for which the lease was somebody else's. It is used by one goroutine at a
// time.
type ownPool struct {
	pool   compute.Pool
	region compute.Region
	took   atomic.Int64 // nanoseconds of all workers
}

// begin has it share the work among the workers of a pool.
func (p *ownPool) begin(pool compute.Pool) {
	p.pool = pool
	p.took.Store(0)
}

// mean is how long it took if all workers were at work.
func (p *ownPool) mean() time.Duration {
	return time.Duration(p.took.Load()) / time.Duration(p.pool.Threads())
}

// Threads implements [compute.Pool].
func (p *ownPool) Threads() int { return p.pool.Threads() }

// Run implements [compute.Pool].
func (p *ownPool) Run(ctx context.Context, g device.Gate, n int, r compute.Region) error {
	p.region = r
	defer func() { p.region = nil }()
	return p.pool.Run(ctx, g, n, p)
}

// Chunk implements [compute.Region].
func (p *ownPool) Chunk(i, worker int) {
	begin := time.Now()
	p.region.Chunk(i, worker)
	p.took.Add(int64(time.Since(begin)))
}
