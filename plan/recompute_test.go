package plan

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// bounded compiles a graph under ever smaller bounds, down to the first that is refused, and hands
// out every plan. It reports how many there were.
func bounded(t *testing.T, g *graph.Graph, o Options, each func(p *Plan)) (plans int) {
	t.Helper()
	whole := compileAs(t, g, o)
	for part := 0.95; ; part -= 0.05 {
		o.MostArena = max(1, int64(part*float64(whole.ArenaBytes)))
		p, err := Compile(t.Context(), g, o)
		if errors.Is(err, ErrArena) {
			return plans
		}
		if err != nil {
			t.Fatal(err)
		}
		if checkPlan(t, p); p.ArenaBytes > o.MostArena {
			t.Fatalf("an arena of %d bytes, bound %d", p.ArenaBytes, o.MostArena)
		}
		each(p)
		plans++
	}
}

// TestBoundedArenas: plans of random graphs under a bound keep it, and compute the same bits.
func TestBoundedArenas(t *testing.T) {
	pool := newPool(t)
	smaller, seeds := 0, 400
	if testing.Short() {
		seeds = 160
	}
	for seed := range uint64(seeds) {
		g, r := grown(seed)
		in := fill(r, g)
		if _, err := g.Eval(t.Context(), in); err != nil {
			continue // a -1 among the sizes of an empty value, which only running it tells
		}
		o := Options{Target: host, Threads: threads}
		want := runPlan(t, pool, compileAs(t, g, o), in)
		smaller += bounded(t, g, o, func(p *Plan) {
			equalBits(t, fmt.Sprint("seed ", seed), runPlan(t, pool, p, in), want)
		})
	}
	if smaller < seeds/40 {
		t.Errorf("%d plans are smaller than those without a bound", smaller)
	}
}

// TestBoundedState: what iterations leave for those after them is the same under a bound.
func TestBoundedState(t *testing.T) {
	pool := newPool(t)
	smaller := 0
	for seed := range uint64(150) {
		g, r := grown(seed)
		var values []*graph.Value
		for _, n := range g.Nodes {
			values = append(values, n.Out...)
		}
		o := Options{Target: host, Threads: threads}
		o.State, o.Updates = stateOf(t, g, values)
		in := fill(r, g)
		smaller += bounded(t, g, o, func(p *Plan) {
			o := o
			o.MostArena = p.ArenaBytes
			iterate(t, pool, g, o, in)
		})
	}
	if smaller < 5 {
		t.Errorf("%d plans are smaller than those without a bound", smaller)
	}
}

func equalBits(t *testing.T, what string, got, want []*tensor.Tensor) {
	t.Helper()
	for i := range want {
		if !bytes.Equal(got[i].Data, want[i].Data) {
			t.Fatalf("%s: output %d differs", what, i)
		}
	}
}

// learning is an update of a deep network, or of another model, whose weights are a state.
func learning(t *testing.T, model string) (*graph.Graph, Options) {
	t.Helper()
	g, weights := training(t, model, one)
	o := Options{Target: host, Threads: threads}
	var vars []Variable
	for _, v := range g.Inputs {
		if v.Name[0] == 'p' {
			shape, _ := v.Type.Ints()
			o.Updates = append(o.Updates, Update{Output: len(vars), Variable: v.Name})
			vars = append(vars, Variable{Name: v.Name, DType: v.Type.DType, Shape: shape})
		}
	}
	g.Outputs = g.Outputs[:weights]
	if err := g.Sort(); err != nil {
		t.Fatal(err)
	}
	var err error
	if o.State, err = NewState(vars); err != nil {
		t.Fatal(err)
	}
	return g, o
}

// learned is the state after some updates by a plan, each on an arena that begins with nothing
// useful.
func learned(t *testing.T, pool *cpu.Pool, p *Plan) []byte {
	t.Helper()
	arena, packed, state := memory(t, p.ArenaBytes), memory(t, p.PackedBytes),
		memory(t, p.State.Bytes())
	if err := p.Pack(packed, PackOptions{}); err != nil {
		t.Fatal(err)
	}
	prog, err := p.BindState(arena, packed, state)
	if err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	draw := func(x *tensor.Tensor, size float64) {
		for i := range tensor.As[float32](x) {
			tensor.As[float32](x)[i] = float32(size * r.NormFloat64())
		}
	}
	clear(state)
	for _, v := range p.State.Views(state) {
		draw(v, 0.15)
	}
	for range 3 {
		poison(arena)
		draw(prog.Inputs[0], 1)
		if err := prog.Run(exec(pool)); err != nil {
			t.Fatal(err)
		}
	}
	return state
}

// TestTrainInHalf: what a deep network leaves for its gradients takes half the memory for at most a
// third more time, and weights are replaced where they lie. The updates are the same to the bit.
func TestTrainInHalf(t *testing.T) {
	pool := newPool(t)
	g, o := learning(t, deep(24, 64, "Tanh@13"))
	whole := compileAs(t, g, o)
	want := learned(t, pool, whole)
	if len(whole.updates) > 0 || slices.Equal(want, make([]byte, len(want))) {
		t.Fatalf("%d weights are copied", len(whole.updates))
	}
	plans := bounded(t, g, o, func(p *Plan) {
		if !bytes.Equal(learned(t, pool, p), want) {
			t.Errorf("weights differ in an arena of %d bytes", p.ArenaBytes)
		}
		if len(p.updates) > 0 {
			t.Errorf("%d weights are copied in an arena of %d bytes", len(p.updates), p.ArenaBytes)
		}
	})
	trades, err := Trades(t.Context(), g, o, 0.5, 0.001, 0.4)
	if err != nil {
		t.Fatal(err)
	}
	if plans < 10 || len(trades) != 2 {
		t.Fatalf("%d smaller plans, trades %+v", plans, trades)
	}
	if half := trades[0]; half.ArenaBytes > whole.ArenaBytes/2 || half.Time > 1.33 ||
		half.Time <= 1 || half.Again < 1 || trades[1].Time <= half.Time {
		t.Errorf("of %d bytes: %+v", whole.ArenaBytes, trades)
	}
}

// TestSmallerBoundsNeedMore: where a bound is kept, so is every larger one, however little it is
// less than what a plan takes.
func TestSmallerBoundsNeedMore(t *testing.T) {
	for layers, parts := range map[int]int64{24: 40, 10: 300} {
		g, o := learning(t, deep(layers, 64, "Tanh@13"))
		whole := compileAs(t, g, o).ArenaBytes
		refused := int64(0)
		for bound := whole - 1; bound > whole/3; bound -= whole / parts {
			o.MostArena = bound
			switch _, err := Compile(t.Context(), g, o); {
			case errors.Is(err, ErrArena):
				refused = bound
			case err != nil:
				t.Fatal(err)
			case refused > 0:
				t.Fatalf("%d layers: %d bytes are too few, and %d are enough", layers, refused,
					bound)
			}
		}
	}
}

// TestTradesAlone: what a part of an arena costs does not depend on the parts asked for beside it.
func TestTradesAlone(t *testing.T) {
	g, o := learning(t, deep(24, 64, "Tanh@13"))
	parts := []float64{0.9, 0.7, 0.5, 0.8, 0.001, 0.3}
	var alone []Trade
	for _, part := range parts {
		one, err := Trades(t.Context(), g, o, part)
		if err != nil {
			t.Fatal(err)
		}
		alone = append(alone, one...)
	}
	all, err := Trades(t.Context(), g, o, parts...)
	if err != nil || len(all) < 4 || !slices.Equal(all, alone) {
		t.Errorf("together %+v, %v; alone %+v", all, err, alone)
	}
}

// TestTradesBelow: of a plan that computes again already, parts are of what it takes, and times
// over that of one that computes nothing again.
func TestTradesBelow(t *testing.T) {
	g, o := learning(t, deep(24, 64, "Tanh@13"))
	whole := compileAs(t, g, o)
	o.Recompute = Recompute{MostTime: 1.1}
	p := compileAs(t, g, o)
	trades, err := Trades(t.Context(), g, o, 0.9, 0.8, 0.001)
	if err != nil || len(trades) != 2 {
		t.Fatalf("of %d bytes: %+v, %v", p.ArenaBytes, trades, err)
	}
	for i, part := range []float64{0.9, 0.8} {
		if got := trades[i]; float64(got.ArenaBytes) > part*float64(p.ArenaBytes) ||
			got.Time < p.work()/whole.work() {
			t.Errorf("%v of %d bytes at %v: %+v", part, p.ArenaBytes, p.work()/whole.work(), got)
		}
	}
}

// TestRecomputeWithin: arenas become smaller the more time is allowed, which no plan exceeds; none
// changes a bit, or is made smaller that is small enough; and a bound is kept beside.
func TestRecomputeWithin(t *testing.T) {
	pool := newPool(t)
	g, o := learning(t, deep(24, 64, "Tanh@13"))
	whole := compileAs(t, g, o)
	want := learned(t, pool, whole)
	before := whole.ArenaBytes
	for _, most := range []float64{1.02, 1.1, 1.3} {
		o.Recompute = Recompute{MostTime: most}
		p := compileAs(t, g, o)
		checkPlan(t, p)
		if took := p.work() / whole.work(); took > most {
			t.Errorf("%v times the time, %v allowed", took, most)
		}
		if p.ArenaBytes >= before {
			t.Errorf("%d bytes within %v, %d within less", p.ArenaBytes, most, before)
		}
		if before = p.ArenaBytes; !bytes.Equal(learned(t, pool, p), want) {
			t.Errorf("weights differ within %v", most)
		}
	}
	if before > whole.ArenaBytes/2 {
		t.Errorf("%d bytes of %d within 1.3", before, whole.ArenaBytes)
	}
	for _, r := range []Recompute{{}, {MostTime: 1},
		{MostTime: 1.3, LeastArena: whole.ArenaBytes}} {
		o.Recompute = r
		if p := compileAs(t, g, o); len(p.Steps) != len(whole.Steps) {
			t.Errorf("%+v: %d steps, %d without", r, len(p.Steps), len(whole.Steps))
		}
	}
	o.Recompute, o.MostArena = Recompute{MostTime: 1.02}, before
	if p := compileAs(t, g, o); p.ArenaBytes > before {
		t.Errorf("%d bytes under a bound of %d", p.ArenaBytes, before)
	}
	o.Recompute, o.MostArena = Recompute{MostTime: 1.3}, whole.ArenaBytes
	if p := compileAs(t, g, o); p.ArenaBytes != before {
		t.Errorf("%d bytes under a loose bound, %d without", p.ArenaBytes, before)
	}
}

// wide is a value that costs little to make and is read at once and at the end of a chain as wide.
const wide = `input %%x: float32[1,64]
	const %%to: int64[2] = {64, 64}
	%%a = %s
	%%b = Softmax@13 (%%a) {axis=0}
	%%c = Softmax@13 (%%b) {axis=1}
	%%d = MatMul@13 (%%c, %%b)
	%%y = Add@14 (%%d, %%a)
	output %%y`

// TestAgainOncePerDraw: what draws numbers is kept, and what does not is made again.
func TestAgainOncePerDraw(t *testing.T) {
	for text, smaller := range map[string]bool{
		"Expand@13 (%x, %to)": true,
		"RandomNormal@1 () {dtype=1, shape=[64,64], mean=0., scale=1.}": false,
	} {
		g := parse(t, fmt.Sprintf(wide, text))
		o := Options{Target: host, Threads: threads}
		plans := bounded(t, g, o, func(p *Plan) {
			drawn := slices.DeleteFunc(slices.Clone(p.Steps), func(st Step) bool {
				return st.Node.Type != "RandomNormal"
			})
			if len(drawn) > 1 {
				t.Errorf("%d draws", len(drawn))
			}
		})
		if plans > 0 != smaller {
			t.Errorf("%s: %d smaller plans", text, plans)
		}
	}
}

// TestReorder: two branches whose wide values are not needed at a time are computed one after the
// other.
func TestReorder(t *testing.T) {
	g := parse(t, `input %x: float32[1,64]
	const %to: int64[2] = {64, 64}
	%a = Softmax@13 (%x) {axis=1}
	%wa = Expand@13 (%a, %to)
	%wb = Expand@13 (%x, %to)
	%sa = ReduceMax@13 (%wa) {axes=[0,1], keepdims=1}
	%sb = ReduceMax@13 (%wb) {axes=[0,1], keepdims=1}
	%y = Add@14 (%sa, %sb)
	output %y`)
	o := Options{Target: host, Threads: threads}
	whole := compileAs(t, g, o)
	o.MostArena = whole.ArenaBytes * 2 / 3
	if p := compileAs(t, g, o); len(p.Steps) != len(whole.Steps) {
		t.Errorf("%d steps, want %d in another order", len(p.Steps), len(whole.Steps))
	}
}

// TestArenaOverBound: a bound that nothing keeps is an error with what the graph takes as it is,
// what it takes at least, and what is allowed.
func TestArenaOverBound(t *testing.T) {
	g := parse(t, fmt.Sprintf(wide, "Expand@13 (%x, %to)"))
	_, err := Compile(t.Context(), g, Options{Target: host, Threads: threads, MostArena: 100})
	if !errors.Is(err, ErrArena) || !strings.Contains(err.Error(), "100 are allowed") {
		t.Error(err)
	}
}

// TestArenaGivenUp: a smaller plan that nobody waits for is not searched for.
func TestArenaGivenUp(t *testing.T) {
	g := parse(t, fmt.Sprintf(wide, "Expand@13 (%x, %to)"))
	o := Options{Target: host, Threads: threads}
	g, _, err := optimised(t.Context(), g, &o)
	if err != nil {
		t.Fatal(err)
	}
	c, err := compiled(t.Context(), g, o, false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := newSchedule(g, c.traits())
	before := len(s.graph.Nodes)
	if err := s.lower(ctx, 1, math.Inf(1)); !errors.Is(err, context.Canceled) ||
		len(s.graph.Nodes) != before {
		t.Errorf("%v, and %d nodes of %d", err, len(s.graph.Nodes), before)
	}
	if err := s.lower(t.Context(), 1, math.Inf(1)); err != nil || len(s.graph.Nodes) == before {
		t.Errorf("while somebody waits: %v, and %d nodes", err, len(s.graph.Nodes))
	}
}
