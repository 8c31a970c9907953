package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// faulty is a kernel that fails while armed, and is the real one otherwise.
type faulty struct {
	compute.Kernel
	armed *atomic.Bool
	how   func(x *compute.Exec) error
}

func (k faulty) Bind(b compute.Binding) compute.Task { return &faultyTask{k, k.Kernel.Bind(b)} }

type faultyTask struct {
	faulty
	real compute.Task
}

func (t *faultyTask) Run(x *compute.Exec) error {
	if t.armed.Load() {
		return t.how(x)
	}
	return t.real.Run(x)
}

// chunk is a region of one function.
type chunk func(i, worker int)

func (f chunk) Chunk(i, worker int) { f(i, worker) }

var errTest = errors.New("thrown")

// TestFaultsStayInTheirIteration makes a kernel in the middle of a network fail in several ways
// while a neighbour runs on the same pool. The iteration ends in an error, the neighbour does not
// notice, and the instance runs again.
func TestFaultsStayInTheirIteration(t *testing.T) {
	b := newBench(t)
	p := network(t)
	var armed atomic.Bool
	f := faulty{p.Steps[len(p.Steps)/2].Kernel, &armed, nil}
	ways := map[string]func(x *compute.Exec) error{
		"panic in a step": func(*compute.Exec) error { panic(errTest) },
		"panic in a chunk": func(x *compute.Exec) error {
			return x.For(40, chunk(func(i, _ int) { explode(i == 17) }))
		},
		"panic in all": func(x *compute.Exec) error {
			return x.For(40, chunk(func(int, int) { explode(true) }))
		},
		"index in a step": func(*compute.Exec) error {
			var none []int
			none[len(p.Steps)]++
			return nil
		},
		"nil in a chunk": func(x *compute.Exec) error {
			return x.For(9, chunk(func(int, int) { var q *int; *q++ }))
		},
		"panic with no one": func(x *compute.Exec) error {
			return x.For(1, chunk(func(int, int) { explode(true) }))
		},
	}
	for name, how := range ways {
		t.Run(name, func(t *testing.T) {
			f.how = how
			broken := *p
			broken.Steps = append([]plan.Step(nil), p.Steps...)
			broken.Steps[len(p.Steps)/2].Kernel = f
			i := take(t, b.load(t, &broken))
			defer i.Put()
			neighbour := b.startNeighbour(t, p)
			defer neighbour.stop(t)
			picture(i, 1)
			if err := i.Run(context.Background(), device.Open); err != nil {
				t.Fatal(err)
			}
			want := result(i)
			for range 5 {
				armed.Store(true)
				picture(i, 1)
				err := i.Run(context.Background(), device.Open)
				armed.Store(false)
				if !errors.Is(err, ErrFault) || !strings.Contains(err.Error(), p.Graph.Name) {
					t.Fatalf("error %v, want one of kind %v that names the graph", err, ErrFault)
				}
				picture(i, 1)
				if err := i.Run(context.Background(), device.Open); err != nil ||
					!tensor.Equal(i.Outputs()[0], want) {
					t.Fatalf("the next iteration: error %v, or another result", err)
				}
			}
		})
	}
}

func explode(yes bool) {
	if yes {
		panic(errTest)
	}
}

// neighbour is a session of its own that runs on the same pool until it is stopped.
type neighbour struct {
	halt atomic.Bool
	done chan error
}

func (b *bench) startNeighbour(t *testing.T, p *plan.Plan) *neighbour {
	i := take(t, b.load(t, p))
	n := &neighbour{done: make(chan error, 1)}
	started := make(chan struct{})
	go func() {
		defer i.Put()
		var want *tensor.Tensor
		for !n.halt.Load() {
			picture(i, 7)
			if err := i.Run(context.Background(), device.Open); err != nil {
				n.done <- err
				return
			}
			if want == nil {
				want = result(i)
				close(started)
			}
			if !tensor.Equal(i.Outputs()[0], want) {
				n.done <- errors.New("the neighbour's result changed")
				return
			}
		}
		n.done <- nil
	}()
	<-started
	return n
}

func (n *neighbour) stop(t *testing.T) {
	t.Helper()
	n.halt.Store(true)
	if err := <-n.done; err != nil {
		t.Error(err)
	}
}

// gate is a lease that is asked back at random: after each question with a chance of one in every.
type gate struct {
	every  uint64
	asked  atomic.Uint64
	gone   atomic.Bool
	leases int
	renew  func(lease int) error
}

func (g *gate) Revoked() bool {
	if n := g.asked.Add(1); rand.New(rand.NewPCG(n, g.every)).Uint64N(g.every) == 0 {
		g.gone.Store(true)
	}
	return g.gone.Load()
}

func (g *gate) Renew(ctx context.Context) error {
	if g.leases++; g.renew != nil {
		if err := g.renew(g.leases); err != nil {
			return err
		}
	}
	g.gone.Store(false)
	return ctx.Err()
}

// TestRevokedLeasesDoNotChangeResults takes the lease away at random between the chunks of all
// steps.
func TestRevokedLeasesDoNotChangeResults(t *testing.T) {
	b := newBench(t)
	i := take(t, b.load(t, network(t)))
	defer i.Put()
	picture(i, 3)
	if err := i.Run(context.Background(), device.Open); err != nil {
		t.Fatal(err)
	}
	want := result(i)
	for _, every := range []uint64{1, 2, 5, 30} {
		g := &gate{every: every}
		for range 5 {
			picture(i, 3)
			if err := i.Run(context.Background(), g); err != nil {
				t.Fatal(err)
			}
			if !tensor.Equal(i.Outputs()[0], want) {
				t.Errorf("leases asked back one time in %d: another result", every)
			}
		}
		if g.leases < 3 {
			t.Errorf("one time in %d: only %d leases", every, g.leases)
		}
	}
}

// TestLostLeaseEndsTheIteration ends an iteration when its job may not run any more.
func TestLostLeaseEndsTheIteration(t *testing.T) {
	b := newBench(t)
	i := take(t, b.load(t, network(t)))
	defer i.Put()
	for lost := 1; lost < 6; lost++ {
		picture(i, 3)
		g := &gate{every: 3, renew: func(lease int) error {
			if lease == lost {
				return errTest
			}
			return nil
		}}
		if err := i.Run(context.Background(), g); !errors.Is(err, errTest) ||
			errors.Is(err, ErrFault) {
			t.Errorf("lease %d lost: error %v", lost, err)
		}
	}
	if err := i.Run(context.Background(), device.Open); err != nil {
		t.Error(err)
	}
}

// TestCancelledContextEndsTheIteration cancels before an iteration and in the middle of one.
func TestCancelledContextEndsTheIteration(t *testing.T) {
	b := newBench(t)
	i := take(t, b.load(t, network(t)))
	defer i.Put()
	for _, lease := range []int{0, 1, 2, 5} {
		ctx, cancel := context.WithCancel(context.Background())
		if lease == 0 {
			cancel()
		}
		g := &gate{every: 3, renew: func(l int) error {
			if l == lease {
				cancel()
			}
			return nil
		}}
		picture(i, 3)
		if err := i.Run(ctx, g); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled at lease %d: error %v", lease, err)
		}
		cancel()
	}
	if err := i.Run(context.Background(), device.Open); err != nil {
		t.Error(err)
	}
}

// TestCloseWhileInUse closes a session under running instances: they finish, and the last gives the
// memory back.
func TestCloseWhileInUse(t *testing.T) {
	b := newBench(t)
	s := b.load(t, network(t))
	idle := take(t, s)
	var users sync.WaitGroup
	ready, closed := make(chan struct{}, 3), make(chan struct{})
	for range 3 {
		i := take(t, s)
		users.Go(func() {
			defer i.Put()
			picture(i, 5)
			ready <- struct{}{}
			<-closed
			if err := i.Run(context.Background(), device.Open); err != nil {
				t.Error(err)
			}
		})
	}
	idle.Put()
	for range 3 {
		<-ready
	}
	s.Close()
	if want := s.Plan().PeakBytes(3); b.quota.sum() != want {
		t.Errorf("%d bytes granted while three run, want %d", b.quota.sum(), want)
	}
	close(closed)
	users.Wait()
	b.nothingHeld(t)
}

// TestConcurrentUse has more goroutines than instances take, run and put back. Every one gets its
// own result.
func TestConcurrentUse(t *testing.T) {
	b := newBench(t)
	o := b.options()
	o.MaxInstances = 3
	s, err := Load(network(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	want := map[uint64]*tensor.Tensor{}
	for seed := range uint64(6) {
		i := take(t, s)
		picture(i, seed)
		if err := i.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
		want[seed] = result(i)
		i.Put()
	}
	var users sync.WaitGroup
	var ran atomic.Int32
	for seed := range uint64(6) {
		users.Go(func() {
			for n := 0; n < 8; {
				i, err := s.Take()
				if errors.Is(err, ErrBusy) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				picture(i, seed)
				if err := i.Run(context.Background(), &gate{every: 50}); err != nil {
					t.Error(err)
				}
				if !tensor.Equal(i.Outputs()[0], want[seed]) {
					t.Errorf("picture %d: another result", seed)
				}
				i.Put()
				ran.Add(1)
				n++
			}
		})
	}
	users.Wait()
	if ran.Load() != 48 {
		t.Errorf("%d iterations ran, want 48", ran.Load())
	}
}

// TestSteadyStateAllocatesNothing holds that taking, filling, running and putting back leaves Go's
// heap alone.
func TestSteadyStateAllocatesNothing(t *testing.T) {
	b := newBench(t)
	s := b.load(t, network(t))
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	take(t, s).Put()
	n := testing.AllocsPerRun(10, func() {
		i, err := s.Take()
		if err == nil {
			err = i.Run(ctx, device.Open)
			i.Put()
		}
		if err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations an iteration", n)
	}
}

// TestProfileVisitsEveryStep runs an iteration in steps, with the same result.
func TestProfileVisitsEveryStep(t *testing.T) {
	b := newBench(t)
	i := take(t, b.load(t, network(t)))
	defer i.Put()
	picture(i, 3)
	if err := i.Run(context.Background(), device.Open); err != nil {
		t.Fatal(err)
	}
	want := result(i)
	picture(i, 3)
	next := 0
	err := i.Profile(context.Background(), func(s *plan.Step, _ plan.Cost) {
		if s != &i.Plan().Steps[next] {
			t.Errorf("%v as step %d", s.Node, next)
		}
		next++
	})
	if err != nil || next != len(i.Plan().Steps) || !tensor.Equal(i.Outputs()[0], want) {
		t.Errorf("%d steps, error %v, or another result", next, err)
	}
}

// TestSettle runs before and after the session's memory was settled, weights packed by a pool, with
// the same result.
func TestSettle(t *testing.T) {
	b := newBench(t)
	defer b.nothingHeld(t)
	o := b.options()
	o.PackPool = b.pool
	s, err := Load(network(t), o)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := take(t, s)
	defer i.Put()
	var results []*tensor.Tensor
	for range 2 {
		picture(i, 3)
		if err := i.Run(context.Background(), device.Open); err != nil {
			t.Fatal(err)
		}
		results = append(results, result(i))
		i.Settle()
	}
	if !tensor.Equal(results[0], results[1]) {
		t.Error("another result")
	}
}
