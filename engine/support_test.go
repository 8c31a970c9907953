package engine

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// bench is a device, a pool and a quota of their own for one test, which ends with nothing held.
type bench struct {
	device *cpu.Device
	pool   *cpu.Pool
	quota  *ledger
}

func newBench(t testing.TB) *bench {
	t.Helper()
	d, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{d, cpu.NewPool(cpu.PoolOptions{Threads: 3}), &ledger{cap: 1 << 40}}
	t.Cleanup(func() {
		b.pool.Close()
		b.nothingHeld(t)
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func (b *bench) nothingHeld(t testing.TB) {
	t.Helper()
	if held, granted := b.device.Held(), b.quota.sum(); held != 0 || granted != 0 {
		t.Errorf("%d bytes held on the device, %d granted; want none", held, granted)
	}
}

func (b *bench) options() Options { return Options{Device: b.device, Pool: b.pool, Quota: b.quota} }

func (b *bench) load(t testing.TB, p *plan.Plan) *Session {
	t.Helper()
	s, err := Load(p, b.options())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func take(t testing.TB, s *Session) *Instance {
	t.Helper()
	i, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	return i
}

// ledger is a quota that grants up to a cap, and refuses the request of a given number.
type ledger struct {
	mu     sync.Mutex
	cap    int64
	held   int64
	most   int64
	asked  []int64
	refuse int  // which request to refuse, from 1
	terse  bool // asked is left as it is
}

var errQuota = errors.New("over quota")

func (l *ledger) Reserve(n int64) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.terse {
		l.asked = append(l.asked, n)
	}
	if len(l.asked) == l.refuse || l.held+n > l.cap {
		return errQuota
	}
	l.held += n
	l.most = max(l.most, l.held)
	return nil
}

func (l *ledger) Release(n int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held -= n
}

func (l *ledger) sum() int64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.held
}

// network is a small image network: convolutions of both kinds, poolings, products and additions,
// of many chunks each.
func network(t testing.TB) *plan.Plan {
	t.Helper()
	g, err := zoo.New("mobilenetv2",
		zoo.Options{Layers: 1, Width: 0.25, Resolution: 64, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, g, map[string][]int{"input": {2, 3, 64, 64}})
}

func compiled(t testing.TB, g *graph.Graph, shapes map[string][]int) *plan.Plan {
	t.Helper()
	p, err := plan.Compile(context.Background(), g,
		plan.Options{Target: kernels.Target(device.Info{}), Shapes: shapes, Threads: 3})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// selective is a graph with values whose shape depends on data: 8 bytes for each element of x that
// is not zero, and 4 more.
func selective(t testing.TB) *plan.Plan {
	t.Helper()
	g, err := graph.Parse(`graph "selective" {
		opset "" 17
		input %x: float32[8]
		%c: int64[1,?] = NonZero@17 (%x)
		%v: float32[1,?] = Gather@17 "look up" (%x, %c)
		output %v
	}`)
	if err != nil {
		t.Fatal(err)
	}
	return compiled(t, g, nil)
}

// picture fills the inputs with reproducible noise.
func picture(i *Instance, seed uint64) {
	r := rand.New(rand.NewPCG(seed, 8))
	for _, in := range i.Inputs() {
		for k := range tensor.As[float32](in) {
			tensor.As[float32](in)[k] = r.Float32()
		}
	}
}

func result(i *Instance) *tensor.Tensor { return i.Outputs()[0].Clone() }
