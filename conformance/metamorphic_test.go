package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
)

var (
	rounds = flag.Int(
		"rounds",
		1,
		"how many random ways of each kind each case is run in; from 2 on also whole networks in "+
			"all of them",
	)
	seed = flag.Uint64("seed", 1, "seed of the random ways")
)

// way is one way of running a model that must not change its results.
type way struct {
	off       []string // passes left out
	threads   int
	placement uint64
	reference bool // no fast kernels
	constants bool // every input but the first becomes a constant, as weights are in models
	written   bool // optimised for other runtimes, written as ONNX and read back first
	before    bool // simplified before the shapes are known
	restored  bool // planned a second time of the text of the plan's graph
	// choices, when not 0, draws which of its ways each kernel computes by, as weir tune may choose
	choices uint64
}

func (w way) String() string {
	off := strings.Join(w.off, ",")
	if len(w.off) == len(pass.Names()) {
		off = "all"
	}
	return fmt.Sprintf(
		"off=%s threads=%d placement=%d reference=%v constants=%v written=%v "+
			"before=%v restored=%v choices=%d",
		off,
		w.threads,
		w.placement,
		w.reference,
		w.constants,
		w.written,
		w.before,
		w.restored,
		w.choices,
	)
}

// ways draws the ways of one round: with all passes, without any, without a random part of them or
// one, with random choices of kernels, before shapes are known, after a round trip through what
// weir optimize does, and restored as from a cache. Operands are computed or constant, on which
// depends what passes and fast kernels do with them.
func ways(r *rand.Rand) []way {
	coin := func() bool { return r.IntN(2) == 0 }
	subset := func() []string {
		var off []string
		for _, name := range pass.Names() {
			if coin() {
				off = append(off, name)
			}
		}
		return off
	}
	one := func() []string { return pass.Names()[r.IntN(len(pass.Names())):][:1] }
	all := []way{
		{threads: 1 + r.IntN(2)},
		{threads: 1 + r.IntN(2), constants: true},
		{threads: 1 + r.IntN(2), constants: coin(), before: true},
		{threads: 1, off: pass.Names()},
		{threads: 2, off: pass.Names(), constants: true},
		{threads: 1 + r.IntN(2), constants: coin(), off: subset(), reference: r.IntN(4) == 0},
		{threads: 1 + r.IntN(2), constants: coin(), off: subset(), written: true},
		{threads: 1 + r.IntN(2), constants: r.IntN(4) > 0, restored: true},
		{threads: 1 + r.IntN(2), constants: true, off: one()},
		{threads: 1 + r.IntN(2), constants: r.IntN(4) > 0, choices: 1 + r.Uint64N(1<<32)},
	}
	for i := range all {
		all[i].placement = 1 + r.Uint64N(1<<32)
	}
	return all
}

// twin is a way of the same arithmetic: other threads, other places in memory, and planned where
// the way restores a plan or the other way round. Its results have the same bits.
func (w way) twin(r *rand.Rand) way {
	w.threads = 1 + (w.threads+r.IntN(mostThreads-1))%mostThreads
	w.placement = 1 + r.Uint64N(1<<32)
	w.restored = !w.restored
	return w
}

// mostThreads is the threads of the largest pool.
const mostThreads = 4

// tester runs cases in ways.
type tester struct {
	engines map[int]*Engine // by threads
}

func newTester(t testing.TB) *tester {
	s := &tester{map[int]*Engine{}}
	for n := 1; n <= mostThreads; n++ {
		s.engines[n] = testEngine(t, n)
		s.engines[n].Device = poisoned{s.engines[n].Device}
	}
	return s
}

// poisoned hands out memory full of NaNs, so that nothing passes because memory happens to be zero.
type poisoned struct{ device.Device }

func (d poisoned) Alloc(n int64) (device.Buffer, error) {
	b, err := d.Device.Alloc(n)
	if err == nil {
		mem := device.HostView(b)
		for i := range mem {
			mem[i] = 0xff
		}
	}
	return b, err
}

// runner is a way as a [Runner].
func (s *tester) runner(w way) Runner {
	return func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		g := m.Graph.Clone()
		if w.constants && len(in) > 1 {
			in = fix(g, in)
		}
		passes := pass.Options{Off: w.off}
		if w.written {
			var err error
			if g, err = roundTrip(ctx, g, passes); err != nil {
				return nil, err
			}
		}
		if w.before {
			var err error
			if g, err = plan.Simplify(ctx, g); err != nil {
				return nil, err
			}
		}
		e := *s.engines[w.threads]
		e.Restored = w.restored
		e.Plan = plan.Options{Target: host, Passes: passes, Placement: w.placement}
		if w.choices != 0 {
			e.Choose = w.choose
		}
		if w.reference {
			e.Plan.Target = nil
		}
		return e.Run(ctx, &onnx.Model{Graph: g}, in)
	}
}

// choose draws a way for each problem of a plan.
func (w way) choose(p *plan.Plan) compute.Choices {
	r, c := rand.New(rand.NewPCG(w.choices, 0)), compute.Choices{}
	for i := range p.Steps {
		if k, ok := p.Steps[i].Kernel.(compute.Choosing); ok {
			c[k.Problem()] = k.Ways()[r.IntN(len(k.Ways()))]
		}
	}
	return c
}

// fix makes constants of all inputs but the first and what cannot be one, and returns what is left
// of in.
func fix(g *graph.Graph, in []*tensor.Tensor) []*tensor.Tensor {
	inputs, left := g.Inputs[:1:1], in[:1:1]
	for i, v := range g.Inputs[1:] {
		if in[i+1].DType.IsContainer() {
			inputs, left = append(inputs, v), append(left, in[i+1])
			continue
		}
		v.Type = op.TypeOf(in[i+1])
	}
	g.Inputs = inputs
	return left
}

// roundTrip does what weir optimize does, and reads the result.
func roundTrip(ctx context.Context, g *graph.Graph, o pass.Options) (*graph.Graph, error) {
	o.Portable, o.Check = true, true
	if _, err := pass.Run(ctx, g, o); err != nil {
		return nil, err
	}
	var file bytes.Buffer
	if err := onnx.Write(&file, g, onnx.WriteOptions{}); err != nil {
		return nil, fmt.Errorf("writing: %w", err)
	}
	m, err := onnx.Decode(file.Bytes(), "", onnx.Options{})
	if err != nil {
		return nil, fmt.Errorf("reading back: %w", err)
	}
	return m.Graph, nil
}

// run runs one case in the ways of all rounds, which its name and the seed determine, and reports
// the first that fails.
func (s *tester) run(ctx context.Context, c *Case) error {
	h := fnv.New64()
	h.Write([]byte(c.Name))
	r := rand.New(rand.NewPCG(h.Sum64(), *seed))
	for range *rounds {
		all := ways(r)
		if c.Set == "light" && *rounds == 1 {
			all = all[r.IntN(len(all)):][:1]
		}
		twin := r.IntN(len(all))
		for i, w := range all {
			if i == twin {
				if err := s.twins(ctx, c, w, w.twin(r)); err != nil {
					return err
				}
				continue
			}
			if got := Run(ctx, c, s.runner(w)); got.Status != Passed {
				return fmt.Errorf("%s in the way %v: %s: %s", c.Name, w, got.Status, got.Detail)
			}
		}
	}
	return nil
}

// twins runs a case in two ways whose results must pass and have the same bits.
func (s *tester) twins(ctx context.Context, c *Case, a, b way) error {
	results := [2][][]*tensor.Tensor{}
	for i, w := range [2]way{a, b} {
		run := s.runner(w)
		keep := func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) (
			[]*tensor.Tensor, error,
		) {
			out, err := run(ctx, m, in)
			results[i] = append(results[i], out)
			return out, err
		}
		if got := Run(ctx, c, keep); got.Status != Passed {
			return fmt.Errorf("%s in the way %v: %s: %s", c.Name, w, got.Status, got.Detail)
		}
	}
	for set, first := range results[0] {
		for i, v := range first {
			if other := results[1][set][i]; (v == nil) != (other == nil) ||
				v != nil && !tensor.Equal(v, other) {
				return fmt.Errorf("%s, data set %d: output %d has other bits in the way %v "+
					"than in the way %v", c.Name, set, i, b, a)
			}
		}
	}
	return nil
}

// TestMetamorphic holds that the results of every case that passes stay what they are in all ways
// of running it, and bit for bit in two that only differ in threads, memory and where the plan
// comes from. More ways:
//
//	go test ./conformance -run TestMetamorphic -timeout 0 -rounds 100 -seed 2
func TestMetamorphic(t *testing.T) {
	failing := map[string]bool{}
	for _, e := range readExpectations(t) {
		failing[e.Name] = true
	}
	cases := found(t, true)
	s := newTester(t)
	next := make(chan *Case)
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for c := range next {
				if err := s.run(t.Context(), c); err != nil && !errors.Is(err, context.Canceled) {
					t.Error(err)
				}
			}
		})
	}
	for _, c := range cases {
		if !failing[c.Name] {
			next <- c
		}
	}
	close(next)
	wg.Wait()
}
