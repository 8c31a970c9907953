package conformance

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
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

// way is one way of running a model. [way.arithmetic] says which ways have the same bits; the
// results of all are held against the definition's, within what its operators allow.
type way struct {
	off       string // passes left out, separated by commas
	reference bool   // no fast kernels
	constants bool   // every input but the first becomes a constant, as weights are in models
	written   bool   // optimised for other runtimes, written as ONNX and read back first
	half      bool   // products multiply in bfloat16, wherever they can
	// choices, when not 0, draws which of its ways each kernel computes by, as weir tune may choose
	choices uint64

	// What follows changes no arithmetic.

	threads   int
	placement uint64
	symbols   symbols
	before    bool // simplified before the shapes are known
	restored  bool // planned a second time of the text of the plan's graph
}

// ofGraphs says that a way differs from others in what becomes of the graph only, which is the same
// whatever instructions compute it.
func (w way) ofGraphs() bool { return w.off != "" || w.written || w.before || w.restored }

// inShort gives the ways that tests with -short keep: those that are not of graphs, and one that
// leaves passes out, so that kernels meet the nodes that passes would have joined.
func inShort(r *rand.Rand, all []way) []way {
	kept := slices.DeleteFunc(slices.Clone(all), way.ofGraphs)
	without := slices.DeleteFunc(all, func(w way) bool { return w.off == "" || w.written })
	return append(kept, without[r.IntN(len(without))])
}

// symbols says what a model declares of the sizes of its inputs.
type symbols int

const (
	asDeclared symbols = iota
	apart              // each size is a symbol of its own
	repeated           // sizes that are equal have one name
	sloppy             // all sizes have one name, as those of careless exporters
)

// arithmetic is the way without what changes none: ways for which it is the same have the same
// bits.
func (w way) arithmetic() way {
	w.threads, w.placement, w.symbols, w.before, w.restored = 0, 0, asDeclared, false, false
	return w
}

func (w way) String() string {
	if w.off == strings.Join(pass.Names(), ",") {
		w.off = "all"
	}
	type fields way // which prints as it is
	return fmt.Sprintf("%+v", fields(w))
}

// ways draws the ways of one round: with all passes, without any, without a random part of them or
// one, with random choices of kernels, in bfloat16, before shapes are known, and after a round trip
// through what weir optimize does. Operands are computed or constant, on which depends what passes
// and fast kernels do with them. One of them comes again on each number of threads. If short, the
// ways are fewer, and those that come again are of these.
func ways(r *rand.Rand, short bool) []way {
	coin := func() bool { return r.IntN(2) == 0 }
	var subset []string
	for _, name := range pass.Names() {
		if coin() {
			subset = append(subset, name)
		}
	}
	every := strings.Join(pass.Names(), ",")
	all := []way{
		{},
		{constants: true},
		{constants: coin(), before: true, symbols: apart + symbols(r.IntN(3))},
		{off: every},
		{off: every, constants: true},
		{constants: coin(), off: strings.Join(subset, ","), reference: r.IntN(4) == 0},
		{constants: coin(), off: strings.Join(subset, ","), written: true},
		{constants: r.IntN(4) > 0, restored: true},
		{constants: true, off: pass.Names()[r.IntN(len(pass.Names()))]},
		{constants: r.IntN(4) > 0, choices: 1 + r.Uint64N(1<<32)},
		{constants: coin(), half: true},
	}
	if short {
		all = inShort(r, all)
	}
	for i := range all {
		all[i].threads = 1 + r.IntN(mostThreads)
	}
	again := all[r.IntN(len(all))]
	for n := range mostThreads - 1 {
		again.threads = 1 + (again.threads+n)%mostThreads
		again.restored, again.symbols = coin(), symbols(r.IntN(4))
		all = append(all, again)
	}
	for i := range all {
		all[i].placement = 1 + r.Uint64N(1<<32)
	}
	return all
}

// mostThreads is the threads of the largest pool.
const mostThreads = 4

// tester runs cases in ways.
type tester struct {
	engines map[int]*Engine // by threads
	rounded atomic.Int64    // results of single products that are those of rounded operands
}

func newTester(t testing.TB) *tester {
	s := &tester{engines: map[int]*Engine{}}
	for n := 1; n <= mostThreads; n++ {
		s.engines[n] = testEngine(t, n)
		s.engines[n].Device = poisoned{s.engines[n].Device}
	}
	return s
}

// poisoned hands out memory full of NaNs, so that nothing passes because memory happens to be zero.
type poisoned struct{ device.Device }

// nans are NaNs of every type, from which memory is filled.
var nans = bytes.Repeat([]byte{0xff}, 1<<12)

func (d poisoned) Alloc(n int64) (device.Buffer, error) {
	b, err := d.Device.Alloc(n)
	if err == nil {
		mem := device.HostView(b)
		for at := copy(mem, nans); at < len(mem); {
			at += copy(mem[at:], mem[:at])
		}
	}
	return b, err
}

// runner is a way as a [Runner].
// The passes that change the graph are added to acting, unless that is nil.
func (s *tester) runner(w way, acting map[string]bool) Runner {
	return func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
		g := m.Graph.Clone()
		if w.constants && len(in) > 1 {
			in = fix(g, in)
		}
		w.symbols.declare(g)
		passes := pass.Options{}
		if w.off != "" {
			passes.Off = strings.Split(w.off, ",")
		}
		var err error
		if w.written {
			if g, err = roundTrip(ctx, g, passes); err != nil {
				return nil, err
			}
		}
		if w.before {
			if g, _, err = plan.SimplifyWith(ctx, g, passes); err != nil {
				return nil, err
			}
		}
		e := *s.engines[w.threads]
		e.Restored = w.restored
		e.Plan = plan.Options{Target: host, Passes: passes, Placement: w.placement}
		if w.half {
			e.Plan.Target, e.Plan.Passes.Precision = eager, pass.BF16
		}
		if w.choices != 0 {
			e.Choose = w.choose
		}
		if w.reference {
			e.Plan.Target = nil
		}
		if acting != nil {
			e.Choose = func(p *plan.Plan) compute.Choices {
				for _, r := range p.Passes {
					acting[r.Name] = acting[r.Name] || r.Changes > 0
				}
				return nil
			}
		}
		return e.Run(ctx, &onnx.Model{Graph: g}, in)
	}
}

// eager is host that multiplies in bfloat16 whatever that saves.
var eager = func() compute.Target {
	f := host.Features()
	f.Costs.Rounding = 0
	return compute.WithFeatures(host, f)
}()

// declare gives the sizes of the inputs names.
func (s symbols) declare(g *graph.Graph) {
	for _, v := range g.Inputs {
		if s == asDeclared || !v.Type.Ranked || v.Type.DType.IsContainer() {
			continue
		}
		shape := slices.Clone(v.Type.Shape)
		for i, d := range shape {
			switch s {
			case apart:
				shape[i] = op.Sym(fmt.Sprintf("%s_%d", v.Name, i))
			case repeated:
				shape[i] = op.Sym("d" + d.String())
			case sloppy:
				shape[i] = op.Sym("n")
			}
		}
		v.Type.Shape = shape
	}
}

// choose draws a way for each problem of a plan.
func (w way) choose(p *plan.Plan) compute.Choices {
	r, c := rand.New(rand.NewPCG(w.choices, 0)), compute.Choices{}
	for i := range p.Steps {
		if k, ok := p.Steps[i].Kernel.(compute.Choosing); ok {
			c[k.Problem()] = k.Algorithms()[r.IntN(len(k.Algorithms()))]
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
	o.Check = true
	g, _, err := plan.SimplifyWith(ctx, g, o)
	if err != nil {
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
// the first that fails. Whole networks run in two ways of one arithmetic: their definition takes
// minutes.
func (s *tester) run(ctx context.Context, c *Case) error {
	return s.runIn(ctx, &compared{ofCase: c})
}

// runIn is run for a case, or a graph.
func (s *tester) runIn(ctx context.Context, k *compared) error {
	c, r := k.ofCase, source(k.ofCase)
	k.tester, k.first = s, map[way][][]*tensor.Tensor{}
	for range *rounds {
		all := ways(r, testing.Short())
		if c.Set == "light" && *rounds == 1 {
			all = all[len(all)-2:]
		}
		for _, w := range all {
			if err := k.run(ctx, w, nil); err != nil {
				return err
			}
		}
	}
	if c.Set == "light" || testing.Short() {
		return nil
	}
	return k.withoutEach(ctx, way{constants: r.IntN(2) == 0, threads: 1})
}

// withoutEach runs the case in a way and without each pass that changes its graph then.
func (k *compared) withoutEach(ctx context.Context, w way) error {
	acting := map[string]bool{}
	if err := k.run(ctx, w, acting); err != nil {
		return err
	}
	for _, name := range pass.Names() {
		if w.off = name; acting[name] {
			if err := k.run(ctx, w, nil); err != nil {
				return err
			}
		}
	}
	return nil
}

// compared is a case and what it gave so far.
type compared struct {
	*tester
	ofCase *Case
	graph  *graph.Graph               // in place of the files of the case, and
	in     []*tensor.Tensor           // its inputs
	sets   []*definition              // of each data set
	first  map[way][][]*tensor.Tensor // of each arithmetic, the outputs of each data set
}

// run runs the case in a way and compares with the other ways. acting is that of runner.
func (k *compared) run(ctx context.Context, w way, acting map[string]bool) error {
	if err := k.compare(ctx, w, acting); err != nil {
		return fmt.Errorf("%s in the way %v: %w", k.ofCase.Name, w, err)
	}
	return nil
}

func (k *compared) compare(ctx context.Context, w way, acting map[string]bool) error {
	var results [][]*tensor.Tensor
	var apart error // from the definition
	run := k.runner(w, acting)
	held := func(ctx context.Context, m *onnx.Model, in []*tensor.Tensor) (
		[]*tensor.Tensor, error,
	) {
		out, err := run(ctx, m, in)
		if err != nil {
			return out, err
		}
		if k.ofCase.Set != "light" {
			apart = errors.Join(apart, k.hold(ctx, m, in, out, len(results), w))
		}
		results = append(results, out)
		return out, nil
	}
	got := k.each(ctx, w, held)
	if apart != nil {
		return apart
	}
	if got.Status != Passed {
		return fmt.Errorf("%s: %s", got.Status, got.Detail)
	}
	return k.same(w, results)
}

// each runs the data sets of the case, or the inputs of the graph, which has no other results than
// its definition's.
func (k *compared) each(ctx context.Context, w way, run Runner) Result {
	if k.graph != nil {
		if _, err := run(ctx, &onnx.Model{Graph: k.graph}, k.in); err != nil {
			return Result{Status: Failed, Detail: err.Error()}
		}
		return Result{Status: Passed}
	}
	c := *k.ofCase
	if w.half { // what ONNX expects has more digits
		c.RTol, c.ATol = math.MaxFloat32, math.MaxFloat32
	}
	return Run(ctx, &c, run)
}

// hold compares with the definition.
func (k *compared) hold(ctx context.Context, m *onnx.Model, in, out []*tensor.Tensor, set int,
	w way) error {
	if set == len(k.sets) {
		d, err := define(ctx, m.Graph.Clone(), in)
		if err != nil {
			return err
		}
		k.sets = append(k.sets, d)
	}
	d := *k.sets[set]
	d.graph, d.in = m.Graph, in // those of now: the files of the others are closed
	if w.half && d.product() {
		rounded, err := d.holdRounded(ctx, out)
		if rounded {
			k.rounded.Add(1)
		}
		return err
	}
	return d.hold(ctx, out, w.half)
}

// same compares the bits with those of the first way of the same arithmetic.
func (k *compared) same(w way, results [][]*tensor.Tensor) error {
	first := k.first[w.arithmetic()]
	if first == nil {
		k.first[w.arithmetic()] = results
		return nil
	}
	for set, outputs := range results {
		for i, v := range outputs {
			if other := first[set][i]; (v == nil) != (other == nil) ||
				v != nil && !tensor.Equal(v, other) {
				return fmt.Errorf("data set %d: output %d has other bits than in a way of the "+
					"same arithmetic", set, i)
			}
		}
	}
	return nil
}

// TestMetamorphic holds that the results of every case that passes are those of the definition in
// all ways of running it, within what its operators allow, and bit for bit the same in ways that
// differ in threads, memory, names of sizes and where the plan comes from. More ways:
//
//	go test ./internal/conformance -run TestMetamorphic -timeout 0 -rounds 100 -seed 2
func TestMetamorphic(t *testing.T) {
	failing := map[string]bool{}
	for _, e := range readExpectations(t) {
		failing[e.Name] = true
	}
	cases := found(t, true)
	if testing.Short() {
		cases = lighter(cases)
	}
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
	if n := s.rounded.Load(); n < 10 && *match == "" {
		t.Errorf("only %d products are those of operands rounded to bfloat16", n)
	}
}

// TestWaysInShort holds that tests with -short keep what instructions and threads can change: each
// round has one way on every number of threads, and one that leaves passes out; over the rounds,
// these leave out all passes and each one alone.
func TestWaysInShort(t *testing.T) {
	r, off := rand.New(rand.NewPCG(1, 0)), map[string]bool{}
	for range 1000 {
		threads, without := map[way]map[int]bool{}, 0
		most := 0
		for _, w := range ways(r, true) {
			a := w.arithmetic()
			if threads[a] == nil {
				threads[a] = map[int]bool{}
				off[w.off] = true
				if w.off != "" {
					without++
				}
			}
			threads[a][w.threads] = true
			most = max(most, len(threads[a]))
		}
		if most != mostThreads || without != 1 {
			t.Fatalf("%d numbers of threads and %d ways without passes", most, without)
		}
	}
	for _, name := range append(pass.Names(), strings.Join(pass.Names(), ",")) {
		if !off[name] {
			t.Errorf("never without %s", name)
		}
	}
}

// TestMemoryIsPoisoned holds that no byte of the memory that ways run in is zero by chance.
func TestMemoryIsPoisoned(t *testing.T) {
	for _, n := range []int64{1, int64(len(nans)), int64(3*len(nans)) + 5} {
		b, err := newTester(t).engines[1].Device.Alloc(n)
		if err != nil {
			t.Fatal(err)
		}
		if at := bytes.IndexFunc(device.HostView(b), func(r rune) bool { return r == 0 }); at >= 0 {
			t.Errorf("of %d bytes, byte %d is zero", n, at)
		}
		b.Free()
	}
}
