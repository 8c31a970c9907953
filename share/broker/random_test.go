package broker_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/share/broker"
	"github.com/weirgpu/weir/share/core"
	"github.com/weirgpu/weir/share/policy"
)

// randomTenants draws up to five jobs whose promises can be kept together.
func randomTenants(r *rand.Rand) []tenant {
	list := make([]tenant, 1+r.IntN(5))
	left := 1.0
	for i := range list {
		x := &list[i]
		x.name = fmt.Sprint("job-", i)
		x.step = time.Duration(1+r.IntN(5000)) * time.Microsecond
		x.steps = 1 + r.IntN(20)
		x.from = time.Duration(r.IntN(2)) * time.Duration(r.IntN(int(200*ms)))
		x.share.Class = share.Class(r.IntN(3))
		if r.IntN(2) == 0 {
			x.share.Compute = left * r.Float64()
			left -= x.share.Compute
		}
		if r.IntN(3) == 0 {
			x.share.Limit = min(1, x.share.Compute+0.05+r.Float64())
		}
		if r.IntN(2) == 0 {
			x.every = time.Duration(1+r.IntN(100)) * ms
		}
	}
	return list
}

// TestRandomJobs runs random jobs under every policy with limits and checks what must hold for any:
// units, limits, guarantees of jobs with work throughout, and a device in use while somebody who
// may run waits.
func TestRandomJobs(t *testing.T) {
	const run = 1200 * ms
	for seed := range uint64(1000) {
		r := rand.New(rand.NewPCG(seed, 2))
		tenants := randomTenants(r)
		row := policy.All()[r.IntN(len(policy.All()))]
		synctest.Test(t, func(t *testing.T) {
			b, m := newBroker(t, named(t, row.Name))
			jobs := together(t, b, run, tenants)
			if n, err := b.Faults(); n > 0 {
				t.Errorf("%d faults: %v", n, err)
			}
			for i := range tenants {
				checkLimit(t, row.Name, &tenants[i], m.jobs[jobs[i].ID()])
			}
			checkInUse(t, tenants, m, run)
		})
		if t.Failed() {
			t.Fatalf("seed %d, policy %s: %+v", seed, row.Name, tenants)
		}
	}
}

// checkLimit: over any window of a second, a job's use is at most its limit, the burst of 4 ms and
// the step in which its slice ended.
func checkLimit(t *testing.T, name string, x *tenant, w *watched) {
	if name == "fifo" || name == "timeslice" {
		return
	}
	most := time.Duration(x.share.Cap()*float64(time.Second)) + 4*ms + x.step
	if peak := w.peak(time.Second); x.share.Cap() < 1 && peak > most {
		t.Errorf("%s used %v of a second, limit %.3f", x.name, peak, x.share.Limit)
	}
}

// checkInUse: from the time when a job without limit that always has work has come, the device is
// never idle.
func checkInUse(t *testing.T, tenants []tenant, m *monitor, run time.Duration) {
	from := run
	for i := range tenants {
		if x := &tenants[i]; x.every == 0 && x.share.Cap() >= 1 {
			from = min(from, x.from)
		}
	}
	var used time.Duration
	for _, w := range m.jobs {
		for _, h := range w.holds {
			used += max(0, min(h[1], run)-max(h[0], from))
		}
	}
	if used < run-from {
		t.Errorf("device used for %v of the %v in which somebody always wanted it", used, run-from)
	}
}

// TestStress lets goroutines do everything at once, in real time, for the race detector and the
// monitor to watch.
func TestStress(t *testing.T) {
	for _, row := range policy.All() {
		b, m := newBroker(t, named(t, row.Name))
		var wg sync.WaitGroup
		for n := range 8 {
			wg.Go(func() { stress(t, b, n) })
		}
		wg.Go(func() {
			for range 200 {
				b.Status()
			}
		})
		wg.Wait()
		if m.held != 0 {
			t.Errorf("%s: %d units held in the end", row.Name, m.held)
		}
		if s := b.Status(); len(s.Jobs) != 0 || s.Reserved != 0 {
			t.Errorf("%s: %d jobs with %v left", row.Name, len(s.Jobs), s.Reserved)
		}
	}
}

func stress(t *testing.T, b *broker.Broker, n int) {
	r := rand.New(rand.NewPCG(uint64(n), 3))
	for life := range 6 {
		j, err := b.Admit(share.Job{
			Name:  fmt.Sprintf("job-%d-%d", n, life),
			Share: share.Share{Memory: share.MiB, Compute: 0.1, Class: share.Class(r.IntN(3))},
		}, 0)
		if err != nil {
			t.Error(err)
			return
		}
		watch := make(chan struct{})
		for range 40 {
			if err := oneTurn(j, r, watch); err != nil {
				t.Error(err)
			}
		}
		close(watch)
		j.End(nil)
	}
}

// oneTurn waits, perhaps for too long, renews, perhaps from a lease that was taken away, and gives
// back.
func oneTurn(j *broker.Job, r *rand.Rand, watch <-chan struct{}) error {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if r.IntN(4) == 0 {
		go cancel()
	}
	j.Arrive()
	defer j.Complete()
	lease, err := j.Acquire(ctx)
	if errors.Is(err, context.Canceled) {
		return nil
	}
	if err != nil {
		return err
	}
	select {
	case <-watch:
	default:
		go lease.Revoked()
	}
	if err := j.Reserve(core.Ephemeral, share.KiB); err != nil {
		return err
	}
	defer func() { _ = j.Free(core.Ephemeral, share.KiB) }()
	j.BeginIteration()
	for range r.IntN(10) {
		if err := lease.Renew(ctx); err != nil {
			if errors.Is(err, context.Canceled) {
				return nil
			}
			return err
		}
	}
	j.EndIteration()
	lease.Release()
	return nil
}
