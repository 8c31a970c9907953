package pass_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
)

// network has work for most passes.
const network = head + `input %x: float32[N,2,H,W]
	const %w: float32[2,2,3,3] = {1, 0.5, -1, 2, 1, 0, 0.25, 1, -1, 1, 0.5, -1, 2, 1, 0, 0.25, 1, -1, 1, 0.5, -1, 2, 1, 0, 0.25, 1, -1, 1, 0.5, -1, 2, 1, 0, 0.25, 1, -1}
	const %g: float32[2] = {2, 0.5}
	const %z: float32[2] = {0, 0}
	const %o: float32[2] = {1, 1}
	const %one: float32[] = {1}
	%c: float32[N,2,H,W] = Conv@17 (%x, %w) {pads=[1, 1, 1, 1]}
	%n: float32[N,2,H,W] = BatchNormalization@17 (%c, %g, %z, %z, %o)
	%i: float32[N,2,H,W] = Identity@17 (%n)
	%s: float32[N,2,H,W] = Sigmoid@17 (%i)
	%m: float32[N,2,H,W] = Mul@17 (%s, %i)
	%two: float32[] = Add@17 (%one, %one)
	%t: float32[N,2,H,W] = Mul@17 (%m, %two)
	%u: float32[N,2,H,W] = Mul@17 (%m, %two)
	%d: float32[N,2,H,W] = Conv@17 (%t, %w) {pads=[1, 1, 1, 1]}
	%a: float32[N,2,H,W] = Add@17 (%u, %d)
	%dead: float32[N,2,H,W] = Exp@17 (%a)
	%y: float32[N,2,H,W] = Relu@17 (%a)
	output %y
	}`

func TestRun(t *testing.T) {
	g := parse(t, network)
	before := g.Clone()
	var stages []string
	r := optimise(t, g, pass.Options{Check: true, Dump: func(stage string, g *graph.Graph) {
		stages = append(stages, stage)
	}})
	want := "m = weir:Conv (x, w_1, n_bias) {pads=[1, 1, 1, 1], activation=\"Silu\"}\n" +
		"t = Mul (m, float32[] {2})\ny = weir:Conv (t, w, _, t) {pads=[1, 1, 1, 1], " +
		"activation=\"Relu\"}"
	if got := short(g); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	equivalent(t, before, g, false)
	if g.Opsets["weir"] != 1 || g.Opsets[""] != 17 {
		t.Errorf("opsets are %v", g.Opsets)
	}
	if len(stages) < 6 || stages[0] != "start" || !slices.Contains(stages, "batchnorm") ||
		slices.Contains(stages, "gelu") {
		t.Errorf("stages dumped: %v", stages)
	}
	changes := map[string]int{}
	for _, p := range r {
		changes[p.Name] = p.Changes
	}
	if changes["fold"] != 1 || changes["batchnorm"] != 1 || changes["residual"] != 1 ||
		changes["activation"] != 2 || changes["gelu"] != 0 {
		t.Errorf("report: %v", r)
	}
}

func TestPortable(t *testing.T) {
	g := parse(t, network)
	before := g.Clone()
	optimise(t, g, pass.Options{Portable: true})
	for _, n := range g.Nodes {
		if n.Domain != "" || n.Version > 17 {
			t.Errorf("%v, version %d, is not for plain ONNX of opset 17", n, n.Version)
		}
	}
	if len(g.Nodes) >= len(before.Nodes)-3 || g.Opsets["weir"] != 0 {
		t.Errorf("%d nodes are left of %d; opsets %v", len(g.Nodes), len(before.Nodes), g.Opsets)
	}
	equivalent(t, before, g, false)
}

func TestPortableKeepsToTheOpset(t *testing.T) {
	g := parse(t, strings.Replace(head, "17", "11",
		1)+strings.ReplaceAll(lines("%s: float32[N,4,3] = HardSigmoid@17 (%x) "+
		"{alpha=0.16666667};%y: float32[N,4,3] = Mul@17 (%x, %s)"), "@17", "@11")+"}")
	if r := optimise(t, g, pass.Options{Portable: true}); r.Changes() > 0 {
		t.Errorf("HardSwish came with opset 14, the model has 11:\n%v", g)
	}
}

// TestStopAfter walks through the states between two patches, each of which must compute the same.
func TestStopAfter(t *testing.T) {
	before := parse(t, network)
	full := optimise(t, before.Clone(), pass.Options{}).Changes()
	if full < 8 {
		t.Fatalf("only %d patches", full)
	}
	for k := 1; k <= full+1; k++ {
		g := before.Clone()
		r := optimise(t, g, pass.Options{StopAfter: k, Check: true})
		if got := r.Changes(); got != min(k, full) {
			t.Errorf("StopAfter %d: %d patches", k, got)
		}
		equivalent(t, before, g, false)
	}
}

func TestOffNamesMustExist(t *testing.T) {
	_, err := pass.Run(context.Background(), parse(t, network),
		pass.Options{Off: []string{"fold", "nope"}})
	if err == nil || !strings.Contains(err.Error(), `"nope"`) ||
		!strings.Contains(err.Error(), "batchnorm") {
		t.Errorf("got %v, want an error that lists the passes", err)
	}
}

func TestOffTurnsPassesOff(t *testing.T) {
	g := parse(t, network)
	r := optimise(t, g, pass.Options{Off: pass.Names()})
	if r.Changes() > 0 || len(g.Nodes) != len(parse(t, network).Nodes) {
		t.Errorf("with every pass off: %v", r)
	}
}

func TestRunEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	g := parse(t, network)
	if _, err := pass.Run(ctx, g, pass.Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	if err := g.Check(); err != nil {
		t.Error(err)
	}
}

func TestCheckFindsAnUnsoundGraph(t *testing.T) {
	g := parse(t, network)
	slices.Reverse(g.Nodes)
	if _, err := pass.Run(context.Background(), g,
		pass.Options{Check: true}); !errors.Is(err, graph.ErrInvalid) {
		t.Errorf("got %v", err)
	}
}

func TestBodiesAreRewritten(t *testing.T) {
	g := parse(t, head+`input %x: float32[N,3]
		input %c: bool[]
		const %k: float32[] = {2}
		%y: float32[N,3] = If@17 (%c | %x, %k) {then_branch=graph "t" captures 2 {
			input %p
			input %k
			%a = Identity@17 (%p)
			%b = Mul@17 (%k, %k)
			%o = Mul@17 (%a, %b)
			output %o
		}, else_branch=graph "e" captures 2 {
			input %p
			input %k
			%s = Shape@17 (%p)
			%o = Expand@17 (%p, %s)
			output %o
		}}
		output %y
		}`)
	before := g.Clone()
	if r := optimise(t, g.Clone(), only("identity")); r.Changes() != 2 {
		t.Errorf("two nodes of bodies went, the report says %d", r.Changes())
	}
	optimise(t, g, pass.Options{Check: true})
	if got := types(g); got["Mul"] != 1 || got["Shape"]+got["Identity"] != 0 ||
		len(g.Nodes[0].Bodies()[1].Nodes) != 0 {
		t.Errorf("%v are left:\n%v", got, g)
	}
	equivalent(t, before, g, true)
}
