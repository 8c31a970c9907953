package cpu

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/weirgpu/weir/device/compute"
)

// fickle is a gate that another goroutine revokes at any time and whose Renew now and then fails.
type fickle struct {
	gone   atomic.Bool
	rng    *rand.Rand // used by the goroutine that calls Renew
	broken bool
}

var errNoLease = errors.New("no lease to be had")

func (g *fickle) Revoked() bool { return g.gone.Load() }

func (g *fickle) Renew(ctx context.Context) error {
	if g.broken && g.rng.IntN(8) == 0 {
		return errNoLease
	}
	g.gone.Store(false)
	return ctx.Err()
}

// TestStress has many callers run regions whose leases are revoked at random, whose chunks panic at
// random and whose contexts end at random.
func TestStress(t *testing.T) {
	for name, opts := range map[string]PoolOptions{
		"two":    {Threads: 2},
		"parked": {Threads: 3, Spin: -1},
		"many":   {Threads: 7, Spin: 20 * time.Microsecond},
	} {
		t.Run(name, func(t *testing.T) {
			p := newTestPool(t, opts)
			gates := make([]*fickle, 12)
			for i := range gates {
				gates[i] = &fickle{rng: rand.New(rand.NewPCG(uint64(i), 7)), broken: i%3 == 0}
			}
			stop := make(chan struct{})
			var revoker, callers sync.WaitGroup
			revoker.Go(func() { revokeAtRandom(gates, stop) })
			for i, g := range gates {
				callers.Go(func() { stressCaller(t, p, g, rand.New(rand.NewPCG(uint64(i), 11))) })
			}
			callers.Wait()
			close(stop)
			revoker.Wait()
			if open, busy := p.open.Load(), p.busy.Load(); open != 0 || busy != 0 {
				t.Errorf("slots open %b, taken %b after all regions ended", open, busy)
			}
		})
	}
}

func revokeAtRandom(gates []*fickle, stop <-chan struct{}) {
	rng := rand.New(rand.NewPCG(1, 2))
	for {
		select {
		case <-stop:
			return
		default:
			gates[rng.IntN(len(gates))].gone.Store(true)
			pause(200)
		}
	}
}

func stressCaller(t *testing.T, p *Pool, g *fickle, rng *rand.Rand) {
	for range 150 {
		n := 1 + rng.IntN(60)
		turns, panicAt, cancelAt := rng.IntN(100), -1, -1
		switch rng.IntN(6) {
		case 0:
			panicAt = rng.IntN(n)
		case 1:
			cancelAt = rng.IntN(n)
		}
		ctx, cancel := context.WithCancel(t.Context())
		a := newAudit(n, p.Threads(), func(i, _ int) {
			pause(uint32(1 + turns))
			if i == panicAt {
				panic(i)
			}
			if i == cancelAt {
				cancel()
			}
		})
		err := p.Run(ctx, g, n, a)
		cancel()
		a.end(t, err != nil)
		switch {
		case panicAt >= 0 && (errors.Is(err, compute.ErrPanic) ||
			g.broken && errors.Is(err, errNoLease)):
		case cancelAt >= 0 && (err == nil || errors.Is(err, context.Canceled) ||
			g.broken && errors.Is(err, errNoLease)):
		case panicAt < 0 && (err == nil || g.broken && errors.Is(err, errNoLease)):
		default:
			t.Errorf("n %d, panic at %d, cancel at %d: error %v", n, panicAt, cancelAt, err)
		}
	}
}
