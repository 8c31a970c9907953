package engine

import (
	"bytes"
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// lent is a gate whose lease can be left, and is asked back as often as told. A lease that was left
// comes again once others let it.
type lent struct {
	others chan struct{} // nil: there are none

	mu      sync.Mutex
	out     bool // the lease is somebody else's
	left    int  // times that it was left
	asked   int  // times that Revoked was asked
	revoked int  // one in so many times it is asked back; 0: never
	gone    bool // and has been
	back    int  // times that it was asked back
}

func (g *lent) Revoked() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked++
	g.gone = g.gone || g.revoked > 0 && g.asked%g.revoked == 0
	return g.gone
}

func (g *lent) Leave() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out = true
	g.left++
}

func (g *lent) Renew(ctx context.Context) error {
	g.mu.Lock()
	g.out = true
	g.back++
	g.mu.Unlock()
	if g.others != nil {
		select {
		case <-g.others:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	g.out, g.gone = false, false
	return ctx.Err()
}

// state says whether the lease is somebody else's, how often it was left, and asked for again.
func (g *lent) state() (out bool, left, back int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.out, g.left, g.back
}

// TestWaitLeavesDevice: an iteration that waits for weights keeps the device for a moment, and then
// leaves it to others until they are there, however they come; it asks for it again, and nothing
// runs before it has it. One that gives up meanwhile asks for nothing.
func TestWaitLeavesDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{pool: cpu.NewPool(cpu.PoolOptions{Threads: 1}), quota: &ledger{cap: 1 << 40}}
		defer b.pool.Close()
		for _, c := range places(t) {
			p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
			m := &metered{ledger: b.quota}
			o := c.options(t, b, p)
			o.Quota, o.ArenaQuota = m, m
			s, err := Load(p, o)
			if err != nil {
				t.Fatal(err)
			}
			waitsBeside(t, c.name, s, m)
			s.Close()
		}
	})
}

// waitsBeside holds what TestWaitLeavesDevice says of one session, whose meter is asked for.
func waitsBeside(t *testing.T, name string, s *Session, m *metered) {
	t.Helper()
	i := take(t, s)
	defer i.Put()
	s.copies = 0 // weights are all that is held back
	picture(i, 7)
	if err := i.Run(t.Context(), device.Open); err != nil {
		t.Fatal(err)
	}
	want := result(i)
	ran := make(chan error, 1)
	begin := func(ctx context.Context, g *lent) {
		s.Evict(s.Plan().PackedBytes)
		m.asked, m.may = make(chan int64, 100), make(chan error)
		picture(i, 7)
		go func() { ran <- i.Run(ctx, g) }()
		synctest.Wait()
	}
	check := func(what string, g *lent, wantOut bool, wantLeft, wantBack int) {
		t.Helper()
		out, left, back := g.state()
		if out != wantOut || left != wantLeft || back != wantBack {
			t.Errorf("%s, %s: away %v, left %d times, asked for %d times; want %v, %d, %d", name,
				what, out, left, back, wantOut, wantLeft, wantBack)
		}
	}
	end := func() {
		t.Helper()
		if err := <-ran; err != nil || !bytes.Equal(result(i).Data, want.Data) {
			t.Errorf("%s: another result, or error %v", name, err)
		}
	}

	g := &lent{others: make(chan struct{})}
	begin(t.Context(), g)
	time.Sleep(patience / 2)
	check("at first", g, false, 0, 0)
	time.Sleep(patience)
	synctest.Wait()
	check("after a while", g, true, 1, 0)
	close(m.may)
	synctest.Wait()
	check("the weights are there", g, true, 1, 1)
	close(g.others)
	end()
	check("in the end", g, false, 1, 1)

	g = &lent{}
	begin(t.Context(), g)
	time.Sleep(patience / 2)
	close(m.may)
	end()
	check("weights that come at once", g, false, 0, 0)

	g = &lent{}
	ctx, cancel := context.WithCancel(t.Context())
	begin(ctx, g)
	time.Sleep(2 * patience)
	cancel()
	if err := <-ran; !errors.Is(err, context.Canceled) {
		t.Errorf("%s: cancelled: error %v", name, err)
	}
	check("cancelled", g, true, 1, 0)
	close(m.may)
	synctest.Wait()
	m.asked = nil
}

// TestCopiesLeaveDevice: an iteration whose inputs the meter holds back leaves the device, too.
func TestCopiesLeaveDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{quota: &ledger{cap: 1 << 40}}
		far := openFar(t, 8<<20)
		c := place{"far", far, far.Target(), false}
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
		m := &metered{ledger: b.quota}
		o := c.options(t, b, p)
		o.Quota, o.ArenaQuota = m, m
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		i := take(t, s)
		defer i.Put()
		picture(i, 7)
		m.asked, m.may = make(chan int64, 100), make(chan error)
		g, ran := &lent{}, make(chan error)
		go func() { ran <- i.Run(t.Context(), g) }()
		time.Sleep(2 * patience)
		synctest.Wait()
		if out, left, _ := g.state(); !out || left != 1 {
			t.Errorf("held back: away %v, left %d times", out, left)
		}
		close(m.may)
		if err := <-ran; err != nil {
			t.Error(err)
		}
	})
}

// TestOwnUnitsWriteUnderLease: weights that the device's own units pack again are written by the
// run that needs them alone, while it holds a lease, which is given back between two parts; what it
// has written when it gives up is not written again.
func TestOwnUnitsWriteUnderLease(t *testing.T) {
	b := newBench(t)
	c := places(t)[0]
	p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 4)), 2), 2)
	o := c.options(t, b, p)
	g := &lent{revoked: 2}
	var mu sync.Mutex
	var written int
	var stop func()
	o.Packed = func(*tensor.Tensor) {
		mu.Lock()
		defer mu.Unlock()
		if written++; stop != nil {
			stop()
		}
		if out, _, _ := g.state(); out {
			t.Error("weights are written while the device is somebody else's")
		}
	}
	s, err := Load(p, o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want, err := run(t.Context(), s, 1)
	if err != nil {
		t.Fatal(err)
	}
	all := written
	s.Evict(p.PackedBytes)
	if err := s.Recall(t.Context()); err != nil || written != all {
		t.Errorf("recalled: %d constants were packed before a run, error %v", written-all, err)
	}
	i := take(t, s)
	defer i.Put()
	picture(i, 1)
	err = i.Run(t.Context(), g)
	if err != nil || !bytes.Equal(result(i).Data, want.Data) {
		t.Errorf("packed under a lease: another result, or error %v", err)
	}
	if _, _, back := g.state(); written != 2*all || back < all {
		t.Errorf("%d constants were packed, want %d; the lease went %d times meanwhile",
			written-all, all, back)
	}
}

// TestOwnGroups: what is written at a time ends where the weights of a step do, and has some bytes,
// but for the last.
func TestOwnGroups(t *testing.T) {
	const n = ownGroup
	for _, c := range []struct{ borders, want []int64 }{
		{nil, nil},
		{[]int64{1}, []int64{1}},
		{[]int64{1, n - 1, n, n + 1, 2*n - 1, 2*n + 2}, []int64{n, 2*n + 2}},
		{[]int64{5 * n, 5*n + 1}, []int64{5 * n, 5*n + 1}},
	} {
		got := ownGroups(c.borders)
		if len(got) != len(c.want) {
			t.Errorf("borders %v: groups to %v, want %v", c.borders, got, c.want)
			continue
		}
		for i := range got {
			if got[i] != c.want[i] {
				t.Errorf("borders %v: groups to %v, want %v", c.borders, got, c.want)
			}
		}
	}
}

// TestOwnGivenUp: of two runs that wait for weights which the device's own units write the one that
// writes them is given up: the other goes on with them.
func TestOwnGivenUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &bench{pool: cpu.NewPool(cpu.PoolOptions{Threads: 1}), quota: &ledger{cap: 1 << 40}}
		defer b.pool.Close()
		c := places(t)[0]
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 4)), 2), 2)
		s, err := Load(p, c.options(t, b, p))
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		want, err := run(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		s.Evict(p.PackedBytes)
		one, two := take(t, s), take(t, s)
		defer one.Put()
		defer two.Put()
		picture(two, 1)
		ctx, cancel := context.WithCancel(t.Context())
		first, second := make(chan error, 1), make(chan error, 1)
		go func() { first <- one.Run(ctx, &lent{revoked: 2, others: make(chan struct{})}) }()
		synctest.Wait() // it writes, and waits for its lease
		go func() { second <- two.Run(t.Context(), &lent{}) }()
		time.Sleep(2 * patience)
		synctest.Wait()
		cancel()
		if err := <-first; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: error %v", err)
		}
		if err := <-second; err != nil || !bytes.Equal(result(two).Data, want.Data) {
			t.Errorf("another was cancelled: another result, or error %v", err)
		}
	})
}

var _ device.Leaver = (*lent)(nil)
var _ plan.Arrival = (*waiter)(nil)
