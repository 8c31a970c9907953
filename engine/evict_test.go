package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

// followers are what follows a product of a tower: a bound; the addition of a table that a device
// out of sight reads as it is; a branch and a loop with products of their own; values whose shape
// depends on data; a product of as many rows as data says; and a loop of as many rounds, with a
// branch within, whose results are stacked. %d are the layer, its width, the next layer and a
// constant.
var followers = []string{
	` %%x%[3]d: float32[N,%[2]d] = Tanh@17 (%%p%[1]d)
`, ` const %%k%[1]d: float32[31,%[2]d] = at %[4]d
 %%s%[1]d: float32[1,%[2]d] = ReduceMax@17 (%%k%[1]d) {axes=[0], keepdims=1}
 %%x%[3]d: float32[N,%[2]d] = Add@17 (%%p%[1]d, %%s%[1]d)
`, ` const %%zero%[1]d: float32[] = {0}
 %%sum%[1]d: float32[] = ReduceSum@17 (%%p%[1]d) {keepdims=0}
 %%c%[1]d: bool[] = Greater@17 (%%sum%[1]d, %%zero%[1]d)
 %%x%[3]d: float32[N,%[2]d] = If@17 (%%c%[1]d | %%p%[1]d) {then_branch=graph "then" captures 1 {
  input %%h: float32[N,%[2]d]
  const %%w: float32[%[2]d,%[2]d] = at %[4]d
  %%y: float32[N,%[2]d] = MatMul@17 (%%h, %%w)
  output %%y
 }, else_branch=graph "else" captures 1 {
  input %%h: float32[N,%[2]d]
  %%y: float32[N,%[2]d] = Tanh@17 (%%h)
  output %%y
 }}
`, ` const %%n%[1]d: int64[] = {2}
 %%x%[3]d: float32[N,%[2]d] = Loop@17 (%%n%[1]d, _, %%p%[1]d) {body=graph "body" {
  input %%i: int64[]
  input %%c: bool[]
  input %%h: float32[N,%[2]d]
  const %%w: float32[%[2]d,%[2]d] = at %[4]d
  %%m: float32[N,%[2]d] = MatMul@17 (%%h, %%w)
  %%y: float32[N,%[2]d] = Tanh@17 (%%m)
  output %%c
  output %%y
 }}
`, ` %%f%[1]d: int64[2,?] = NonZero@17 (%%p%[1]d)
 %%g%[1]d: float32[2,?] = Cast@17 (%%f%[1]d) {to=1}
 %%m%[1]d: float32[] = ReduceMean@17 (%%g%[1]d) {keepdims=0}
 %%x%[3]d: float32[N,%[2]d] = Add@17 (%%p%[1]d, %%m%[1]d)
`, positive + ` const %%rows%[1]d: int64[1] = {0}
 const %%v%[1]d: float32[%[2]d,%[2]d] = at %[4]d
 %%f%[1]d: float32[?,%[2]d] = Compress@17 (%%p%[1]d, %%c%[1]d) {axis=0}
 %%g%[1]d: float32[?,%[2]d] = MatMul@17 (%%f%[1]d, %%v%[1]d)
 %%m%[1]d: float32[1,%[2]d] = ReduceSum@17 (%%g%[1]d, %%rows%[1]d) {keepdims=1}
 %%s%[1]d: float32[N,%[2]d] = Add@17 (%%p%[1]d, %%m%[1]d)
 %%x%[3]d: float32[N,%[2]d] = Tanh@17 (%%s%[1]d)
`, positive + ` %%l%[1]d: int64[N] = Cast@17 (%%c%[1]d) {to=7}
 %%n%[1]d: int64[] = ReduceSum@17 (%%l%[1]d) {keepdims=0}
 %%x%[3]d: float32[N,%[2]d], %%t%[1]d: float32[?,N,%[2]d] = Loop@17 (%%n%[1]d, _, %%p%[1]d) {body=graph "body" {
  input %%i: int64[]
  input %%c: bool[]
  input %%h: float32[N,%[2]d]
  const %%one: int64[] = {1}
  %%first: bool[] = Less@17 (%%i, %%one)
  %%y: float32[N,%[2]d] = If@17 (%%first | %%h) {then_branch=graph "then" captures 1 {
   input %%g: float32[N,%[2]d]
   const %%w: float32[%[2]d,%[2]d] = at %[4]d
   %%m: float32[N,%[2]d] = MatMul@17 (%%g, %%w)
   output %%m
  }, else_branch=graph "else" captures 1 {
   input %%g: float32[N,%[2]d]
   %%m: float32[N,%[2]d] = Tanh@17 (%%g)
   output %%m
  }}
  output %%c
  output %%y
  output %%y
 }}
`}

// positive are which rows of a product have a sum above 0.
const positive = ` const %%columns%[1]d: int64[1] = {1}
 const %%zero%[1]d: float32[] = {0}
 %%sums%[1]d: float32[N] = ReduceSum@17 (%%p%[1]d, %%columns%[1]d) {keepdims=0}
 %%c%[1]d: bool[N] = Greater@17 (%%sums%[1]d, %%zero%[1]d)
`

// tower is a graph of products of random widths, each followed by one of the first so many
// followers.
func tower(t testing.TB, r *rand.Rand, kinds int) *graph.Graph {
	t.Helper()
	var text strings.Builder
	var consts []*tensor.Tensor
	constant := func(shape ...int) int {
		x, err := tensor.New(tensor.Float32, shape...)
		if err != nil {
			t.Fatal(err)
		}
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = r.Float32() - 0.5
		}
		consts = append(consts, x)
		return len(consts) - 1
	}
	width, layers := 32, 2+r.IntN(6)
	fmt.Fprintf(&text, "graph \"tower\" {\n opset \"\" 17\n input %%x0: float32[N,%d]\n", width)
	var body strings.Builder
	for i := range layers {
		next := 32 * (1 + r.IntN(4))
		fmt.Fprintf(&text, " const %%w%d: float32[%d,%d] = at %d\n", i, width, next,
			constant(width, next))
		fmt.Fprintf(&body, " %%p%d: float32[N,%d] = MatMul@17 (%%x%[1]d, %%w%[1]d)\n", i, next)
		kind, at := r.IntN(kinds), 0
		switch kind {
		case 1:
			at = constant(31, next)
		case 2, 3, 5, 6:
			at = constant(next, next)
		}
		fmt.Fprintf(&body, followers[kind], i, next, i+1, at)
		width = next
	}
	fmt.Fprintf(&body, " output %%x%d\n}\n", layers)
	g, err := graph.ParseExternal(text.String()+body.String(),
		func(_ tensor.DType, _ []int, at int64) (*tensor.Tensor, error) { return consts[at], nil })
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// place is a device, how plans are made for it, and where weights come from when they come again.
type place struct {
	name   string
	device device.Device
	target compute.Target
	given  bool
}

// places are the ways in which weights are brought, on devices of 8 MiB.
func places(t *testing.T) []place {
	t.Helper()
	const limit = 8 << 20
	far := openFar(t, limit)
	near, err := cpu.Open("cpu:0", cpu.Options{MemoryBytes: limit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := near.Close(); err != nil {
			t.Error(err)
		}
	})
	return []place{
		{"cpu, packed again", near, kernels.Target(device.Info{}), false},
		{"cpu, in place", near, kernels.Target(device.Info{}), true},
		{"far, packed again", far, far.Target(), false},
		{"far, copied", far, far.Target(), true},
	}
}

// options are those of a session of p, with weights that are given in memory of their own.
func (c *place) options(t *testing.T, b *bench, p *plan.Plan) Options {
	t.Helper()
	o := Options{Device: c.device, Pool: b.pool, Quota: b.quota,
		HostQuota: &ledger{cap: 1 << 40}}
	if c.given {
		mem, err := tensor.New(tensor.Uint8, int(p.PackedBytes))
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Pack(mem.Data, plan.PackOptions{}); err != nil {
			t.Fatal(err)
		}
		o.Weights = mem.Data
	}
	return o
}

func (c *place) compile(t *testing.T, g *graph.Graph, n int) *plan.Plan {
	t.Helper()
	p, err := plan.Compile(t.Context(), g, plan.Options{Target: c.target, Threads: 3,
		Shapes: map[string][]int{g.Inputs[0].Name: {n, 32}}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run takes an instance, computes on noise of a seed and returns the result.
func run(ctx context.Context, s *Session, seed uint64) (*tensor.Tensor, error) {
	i, err := s.Take()
	if err != nil {
		return nil, err
	}
	defer i.Put()
	picture(i, seed)
	if err := i.Run(ctx, device.Open); err != nil {
		return nil, err
	}
	return result(i), nil
}

// agree holds that two sessions, the quota and the device count the same bytes.
func (c *place) agree(t *testing.T, b *bench, sessions ...*Session) {
	t.Helper()
	var held int64
	for _, s := range sessions {
		held += s.Held()
	}
	if granted := b.quota.sum(); granted != held || c.device.Held() != held {
		t.Errorf("%s: sessions hold %d bytes, %d are granted, %d on the device", c.name, held,
			granted, c.device.Held())
	}
}

// TestEvict follows the bytes of a session whose weights go bit by bit and come again, and that
// results stay what they are.
func TestEvict(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		g := tower(t, rand.New(rand.NewPCG(13, 4)), 2)
		p := c.compile(t, g, 2)
		var discarded [2]int64
		o := c.options(t, b, p)
		o.Discard = func(from, to int64) { discarded = [2]int64{from, to} }
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		want, err := run(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		whole := s.Held()
		for _, most := range []int64{0, -1, 1, 63, 64, 1000, p.PackedBytes / 2, p.PackedBytes,
			2 * p.PackedBytes} {
			discarded = [2]int64{}
			freed := s.Evict(most)
			stretch := [2]int64{}
			if c.given && !p.Remote() && freed > 0 {
				stretch = [2]int64{p.PackedBytes - freed, p.PackedBytes}
			}
			if discarded != stretch {
				t.Errorf("%s: the host let go of %v, want %v", c.name, discarded, stretch)
			}
			if n := min(max(0, most), p.PackedBytes); freed != n || s.Away() != n ||
				s.Held() != whole-n {
				t.Errorf("%s: %d bytes at most: freed %d, %d away, %d held", c.name, most, freed,
					s.Away(), s.Held())
			}
			c.agree(t, b, s)
			got, err := run(t.Context(), s, 1)
			if err != nil || !bytes.Equal(got.Data, want.Data) {
				t.Errorf("%s: after %d bytes were away: another result, or error %v", c.name, most,
					err)
			}
			if s.Away() != 0 || s.Held() != whole {
				t.Errorf("%s: %d bytes are away after a run, %d held", c.name, s.Away(), s.Held())
			}
			c.agree(t, b, s)
		}
		s.Evict(p.PackedBytes - 100)
		s.Evict(p.PackedBytes)
		if s.Away() != p.PackedBytes {
			t.Errorf("%s: %d bytes are away, want all %d", c.name, s.Away(), p.PackedBytes)
		}
		if err := s.Recall(t.Context()); err != nil || s.Away() != 0 || s.Held() != whole {
			t.Errorf("%s: recalled: %d bytes away, %d held, error %v", c.name, s.Away(), s.Held(),
				err)
		}
		s.Evict(p.PackedBytes / 3)
		s.Close()
		b.nothingHeld(t)
	}
}

// unwritable is memory of a device that cannot be written now.
type unwritable struct{ device.Elastic }

var errUnwritable = errors.New("cannot be written")

func (unwritable) CopyIn(int64, []byte) error { return errUnwritable }

// TestShrunkAndUnwritable: an arena that comes again, and into which what it holds from the
// beginning cannot be written, goes again, to the byte.
func TestShrunkAndUnwritable(t *testing.T) {
	b := newBench(t)
	d := openFar(t, 8<<20)
	g, err := graph.ParseExternal(`graph "sum" {
		opset "" 17
		input %x: float32[1,32]
		const %b: float32[1,32] = at 0
		%y: float32[1,32] = Add@14 (%x, %b)
		output %y
	}`, func(d tensor.DType, shape []int, _ int64) (*tensor.Tensor, error) {
		return tensor.New(d, shape...)
	})
	if err != nil {
		t.Fatal(err)
	}
	p, err := plan.Compile(t.Context(), g, plan.Options{Target: d.Target()})
	if err != nil {
		t.Fatal(err)
	}
	s, err := Load(p, Options{Device: d, Pool: b.pool, Quota: b.quota,
		HostQuota: &ledger{cap: 1 << 40}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i := take(t, s)
	arena := i.arena
	i.arena = unwritable{arena.(device.Elastic)}
	i.Put()
	s.Shrink(1 << 40)
	for range 2 {
		if _, err := s.Take(); !errors.Is(err, errUnwritable) || d.Held() != p.PackedBytes ||
			b.quota.sum() != p.PackedBytes || s.Held() != p.PackedBytes {
			t.Errorf("%d bytes on the device, %d granted, %d held, want %d: error %v", d.Held(),
				b.quota.sum(), s.Held(), p.PackedBytes, err)
		}
	}
	i.arena = arena
	if i, err = s.Take(); err != nil || d.Held() != p.PackedBytes+p.ArenaBytes {
		t.Fatalf("%d bytes on the device: error %v", d.Held(), err)
	}
	i.Put()
}

// TestShrink follows the bytes of arenas of free instances.
func TestShrink(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		g := tower(t, rand.New(rand.NewPCG(13, 5)), 2)
		p := c.compile(t, g, 2)
		s, err := Load(p, c.options(t, b, p))
		if err != nil {
			t.Fatal(err)
		}
		want, err := run(t.Context(), s, 1)
		if err != nil {
			t.Fatal(err)
		}
		one, two := take(t, s), take(t, s)
		if n := s.Shrink(1 << 40); n != 0 {
			t.Errorf("%s: instances in use gave %d bytes", c.name, n)
		}
		one.Put()
		two.Put()
		for _, most := range []int64{0, 1, 100, p.ArenaBytes, 2 * p.ArenaBytes, 1 << 40} {
			before := s.Held()
			n := s.Shrink(most)
			if s.Held() != before-n || n > most {
				t.Errorf("%s: %d bytes at most: gave %d, %d of %d held", c.name, most, n, s.Held(),
					before)
			}
			c.agree(t, b, s)
		}
		if s.Held() != p.PackedBytes {
			t.Errorf("%s: %d bytes are held, want the %d of weights", c.name, s.Held(),
				p.PackedBytes)
		}
		b.quota.cap = s.Held() + p.ArenaBytes - 1
		if _, err := s.Take(); !errors.Is(err, errQuota) || s.Held() != p.PackedBytes {
			t.Errorf("%s: a byte too few for an arena: error %v", c.name, err)
		}
		b.quota.cap = 1 << 40
		other, err := c.device.Alloc(c.device.Info().MemoryBytes - c.device.Held() - 1)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Take(); !errors.Is(err, device.ErrOutOfMemory) {
			t.Errorf("%s: a full device: error %v", c.name, err)
		}
		other.Free()
		c.agree(t, b, s)
		got, err := run(t.Context(), s, 1)
		if err != nil || !bytes.Equal(got.Data, want.Data) {
			t.Errorf("%s: another result, or error %v", c.name, err)
		}
		if s.Held() != p.PackedBytes+p.ArenaBytes {
			t.Errorf("%s: %d bytes are held of one arena that came again", c.name, s.Held())
		}
		s.Shrink(10)
		s.Close()
		b.nothingHeld(t)
	}
}

// TestRecallRefused has the quota and the device refuse what is away: nobody holds more than
// before, and a later run goes well.
func TestRecallRefused(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		g := tower(t, rand.New(rand.NewPCG(13, 6)), 2)
		p := c.compile(t, g, 1)
		s, err := Load(p, c.options(t, b, p))
		if err != nil {
			t.Fatal(err)
		}
		i := take(t, s)
		if s.Evict(1000) != 1000 {
			t.Fatalf("%s: weights of %d bytes, too few for the test", c.name, p.PackedBytes)
		}
		b.quota.cap = s.Held() + 999
		for _, err := range []error{s.Recall(t.Context()), i.Run(t.Context(), device.Open),
			s.WithWeights(t.Context(), func([]byte) error { return nil })} {
			if !errors.Is(err, errQuota) || s.Away() != 1000 {
				t.Errorf("%s: %d bytes away, error %v", c.name, s.Away(), err)
			}
		}
		c.agree(t, b, s)
		b.quota.cap = 1 << 40
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := i.Run(ctx, device.Open); !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled: error %v", c.name, err)
		}
		other, err := c.device.Alloc(c.device.Info().MemoryBytes - c.device.Held() - 999)
		if err != nil {
			t.Fatal(err)
		}
		if s.Away() > 0 {
			if err := s.Recall(t.Context()); !errors.Is(err, device.ErrOutOfMemory) {
				t.Errorf("%s: a full device: error %v", c.name, err)
			}
		}
		other.Free()
		if err := i.Run(t.Context(), device.Open); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		c.agree(t, b, s)
		i.Put()
		s.Close()
		if err := s.Recall(t.Context()); !errors.Is(err, ErrClosed) || s.Evict(1) != 0 {
			t.Errorf("%s: closed: error %v", c.name, err)
		}
		b.nothingHeld(t)
	}
}

// TestPackedAgainIsWhatWasAway: weights that stayed are not packed once more.
func TestPackedAgainIsWhatWasAway(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
		if c.given || p.Remote() { // where constants are copied as they are
			continue
		}
		var packed atomic.Int64
		o := c.options(t, b, p)
		o.Packed = func(*tensor.Tensor) { packed.Add(1) }
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		all := packed.Swap(0)
		s.Evict(1)
		if _, err := run(t.Context(), s, 1); err != nil {
			t.Fatal(err)
		}
		if n := packed.Load(); n == 0 || n >= all {
			t.Errorf("%s: %d constants of %d were packed for a byte", c.name, n, all)
		}
		s.Close()
	}
}

// slowly is a quota that keeps who asks it waiting until told, where on is set.
type slowly struct {
	*ledger
	on chan struct{}
}

func (q *slowly) Reserve(n int64) error {
	if q.on != nil {
		<-q.on
	}
	return q.ledger.Reserve(n)
}

func (q *slowly) Release(n int64) {
	if q.on != nil {
		<-q.on
	}
	q.ledger.Release(n)
}

// slowlyAsked calls use with a session at each place, whose quota keeps who asks it waiting.
func slowlyAsked(t *testing.T,
	use func(t *testing.T, c *place, b *bench, q *slowly, s *Session)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		b := &bench{pool: cpu.NewPool(cpu.PoolOptions{Threads: 1}), quota: &ledger{cap: 1 << 40}}
		defer b.pool.Close()
		for _, c := range places(t) {
			p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 6)), 2), 2)
			q := &slowly{ledger: b.quota}
			o := c.options(t, b, p)
			o.Quota = q
			s, err := Load(p, o)
			if err != nil {
				t.Fatal(err)
			}
			use(t, &c, b, q, s)
		}
	})
}

// TestCloseWaitsForEvict: once Close has returned nothing is held, though the session was giving
// weights back when it was called. A job that ends then leaves nothing that others were promised.
func TestCloseWaitsForEvict(t *testing.T) {
	slowlyAsked(t, func(t *testing.T, c *place, b *bench, q *slowly, s *Session) {
		q.on = make(chan struct{})
		closed := make(chan int64)
		go s.Evict(1000)
		synctest.Wait()
		go func() { s.Close(); closed <- b.quota.sum() }()
		synctest.Wait()
		select {
		case held := <-closed:
			t.Errorf("%s: closed while it gives weights back: %d bytes are held", c.name, held)
			close(q.on)
		default:
			close(q.on)
			if held := <-closed; held != 0 {
				t.Errorf("%s: closed: %d bytes are held", c.name, held)
			}
		}
	})
}

// TestRecallAsksOnce: of many who want the same weights back one asks the quota for them, and who
// waits for that one gives up with its context.
func TestRecallAsksOnce(t *testing.T) {
	slowlyAsked(t, func(t *testing.T, c *place, b *bench, q *slowly, s *Session) {
		s.Evict(1000)
		q.on, b.quota.asked = make(chan struct{}), nil
		ctx, cancel := context.WithCancel(t.Context())
		errs, gave := make(chan error, 3), make(chan error, 1)
		for range cap(errs) {
			go func() { errs <- s.Recall(t.Context()) }()
		}
		synctest.Wait()
		go func() { gave <- s.Recall(ctx) }()
		synctest.Wait()
		cancel()
		if err := <-gave; !errors.Is(err, context.Canceled) {
			t.Errorf("%s: cancelled while another asks: %v", c.name, err)
		}
		close(q.on)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Errorf("%s: %v", c.name, err)
			}
		}
		if !slices.Equal(b.quota.asked, []int64{1000}) || s.Away() != 0 {
			t.Errorf("%s: asked for %v, %d away", c.name, b.quota.asked, s.Away())
		}
		c.agree(t, b, s)
		s.Close()
	})
}

// TestEvictAtRandom has sessions of one model for two shapes, which share weights, run, lose and
// recall them, shrink and close at the same time: results are those of a session that was never
// evicted, nobody holds more than was granted, and nothing is left.
func TestEvictAtRandom(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		for seed := range uint64(4) {
			evictAtRandom(t, b, c, seed)
			b.nothingHeld(t)
		}
	}
}

func evictAtRandom(t *testing.T, b *bench, c place, seed uint64) {
	g := tower(t, rand.New(rand.NewPCG(seed, 13)), len(followers))
	var sessions [2]*Session
	var want [2][3][]byte
	var o Options
	for k := range sessions {
		p := c.compile(t, g, 1+2*k)
		if k == 0 {
			o = c.options(t, b, p)
		}
		s, err := Load(p, o)
		if err != nil {
			t.Fatal(err)
		}
		o.Like, sessions[k] = s, s
		for seed := range want[k] {
			got, err := run(t.Context(), s, uint64(seed))
			if err != nil {
				t.Fatal(err)
			}
			want[k][seed] = got.Data
		}
	}
	var all sync.WaitGroup
	each := func(n int, act func(s *Session, k int, r *rand.Rand)) {
		for k, s := range sessions {
			all.Go(func() {
				r := rand.New(rand.NewPCG(seed, uint64(n+k)))
				for range n {
					act(s, k, r)
				}
			})
		}
	}
	iterate := func(s *Session, k int, r *rand.Rand) {
		input := r.IntN(len(want[k]))
		got, err := run(t.Context(), s, uint64(input))
		if errors.Is(err, ErrClosed) {
			return
		}
		if err != nil || !bytes.Equal(got.Data, want[k][input]) {
			t.Errorf("%s, seed %d: another result, or error %v", c.name, seed, err)
		}
	}
	each(30, iterate)
	each(31, iterate)
	each(60, func(s *Session, _ int, r *rand.Rand) { s.Evict(r.Int64N(s.Plan().PackedBytes + 1)) })
	each(20, func(s *Session, _ int, r *rand.Rand) { s.Shrink(r.Int64N(s.Plan().ArenaBytes)) })
	each(20, func(s *Session, _ int, _ *rand.Rand) {
		if err := s.Recall(t.Context()); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("%s, seed %d: %v", c.name, seed, err)
		}
	})
	all.Go(func() {
		for range 20 {
			_, err := run(t.Context(), sessions[0], 0)
			if err != nil && !errors.Is(err, ErrClosed) {
				t.Errorf("%s, seed %d: %v", c.name, seed, err)
			}
		}
		sessions[seed%2].Close()
	})
	all.Wait()
	c.agree(t, b, sessions[:]...)
	for _, s := range sessions {
		s.Close()
	}
}

// TestSwitchAllocatesNothing has a session's weights go and come with every run: that allocates no
// more on the Go heap than the run does.
func TestSwitchAllocatesNothing(t *testing.T) {
	b := newBench(t)
	for _, c := range places(t) {
		if !c.given { // packing makes lists
			continue
		}
		p := c.compile(t, tower(t, rand.New(rand.NewPCG(13, 8)), 2), 1)
		s, err := Load(p, c.options(t, b, p))
		if err != nil {
			t.Fatal(err)
		}
		i := take(t, s)
		iterate := func() {
			if err := i.Run(t.Context(), device.Open); err != nil {
				t.Fatal(err)
			}
		}
		b.quota.terse = true
		resident := testing.AllocsPerRun(100, iterate)
		switched := testing.AllocsPerRun(100, func() {
			if s.Evict(p.PackedBytes) != p.PackedBytes {
				t.Fatal("weights stayed")
			}
			iterate()
		})
		b.quota.terse = false
		if switched > resident {
			t.Errorf("%s: %v allocations in a run after a switch, %v without", c.name, switched,
				resident)
		}
		i.Put()
		s.Close()
	}
}
