package pass_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

func parse(t testing.TB, body string) *graph.Graph {
	t.Helper()
	g, err := graph.Parse(body)
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	if err := g.Check(); err != nil {
		t.Fatal(err)
	}
	return g
}

// only returns options that leave on nothing but the named passes.
func only(names ...string) pass.Options {
	o := pass.Options{Check: true}
	for _, n := range pass.Names() {
		if !slices.Contains(names, n) {
			o.Off = append(o.Off, n)
		}
	}
	return o
}

// able is a device that can do all that passes ask about.
var able = compute.Features{BF16: true, NHWC: true, Costs: compute.Costs{Rounding: 6,
	TiledWeights: 256 * 256, TiledPixels: 28 * 28, SharedQueries: 16}}

func optimise(t testing.TB, g *graph.Graph, o pass.Options) pass.Report {
	t.Helper()
	if o.Features == (compute.Features{}) {
		o.Features = able
	}
	r, err := pass.Run(context.Background(), g, o)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	if err := g.Check(); err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	return r
}

var typeNote = regexp.MustCompile(`: \w+\[[^\]]*\]|@\d+( "[^"]*")?|%`)

// short is one line a node without types, versions and node names: "y = Relu (x)".
func short(g *graph.Graph) string {
	var out []string
	for line := range strings.Lines(g.String()) {
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "%") || strings.HasPrefix(line, "_") {
			out = append(out, typeNote.ReplaceAllString(line, ""))
		}
	}
	return strings.Join(out, "\n")
}

// random makes inputs for g: floats near 0, small integers, half of the booleans true. Symbols of
// the inputs' types are sized by name.
func random(t testing.TB, g *graph.Graph, seed uint64) []*tensor.Tensor {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 7))
	sizes := map[string]int{"N": 2, "H": 6, "W": 5, "S": 3}
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		shape := make([]int, len(v.Type.Shape))
		for i, d := range v.Type.Shape {
			n, ok := d.Eval(sizes)
			if !ok {
				t.Fatalf("input %q has type %v", v.Name, v.Type)
			}
			shape[i] = n
		}
		in = append(in, fill(t, rng, v.Type.DType, shape))
	}
	return in
}

func fill(t testing.TB, rng *rand.Rand, d tensor.DType, shape []int) *tensor.Tensor {
	t.Helper()
	x, err := tensor.New(d, shape...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range x.Len() {
		switch d {
		case tensor.Float32:
			tensor.As[float32](x)[i] = float32(rng.NormFloat64())
		case tensor.Int64:
			tensor.As[int64](x)[i] = rng.Int64N(3)
		case tensor.Bool:
			x.Data[i] = byte(rng.IntN(2))
		default:
			t.Fatalf("no random %v", d)
		}
	}
	return x
}

func eval(t testing.TB, g *graph.Graph, in []*tensor.Tensor) []*tensor.Tensor {
	t.Helper()
	out, err := g.Eval(context.Background(), in)
	if err != nil {
		t.Fatalf("%v\n%v", err, g)
	}
	return out
}

// equivalent checks that two graphs compute the same from random inputs, bit for bit when exact is
// set.
func equivalent(t testing.TB, a, b *graph.Graph, exact bool) {
	t.Helper()
	for seed := range uint64(3) {
		in := random(t, a, seed)
		if err := compare(eval(t, b, in), eval(t, a, in), exact); err != nil {
			t.Fatalf("seed %d: %v\nbefore\n%v\nafter\n%v", seed, err, a, b)
		}
	}
}

func compare(got, want []*tensor.Tensor, exact bool) error {
	if len(got) != len(want) {
		return fmt.Errorf("%d outputs became %d", len(want), len(got))
	}
	for i := range want {
		rtol, atol := 1e-4, 1e-5
		if exact {
			rtol, atol = 0, 0
		}
		if err := tensor.Close(got[i], want[i], rtol, atol); err != nil {
			return fmt.Errorf("output %d: %w", i, err)
		}
	}
	return nil
}

// rewrite is one test of passes: a graph's text, and its nodes afterwards in the form of short.
type rewrite struct {
	name, in, want string
}

const head = "graph \"g\" {\n opset \"\" 17\n"

// check runs the named passes on each graph and compares nodes and results; running twice must
// change nothing. Passes that keep every bit are exact.
func check(t *testing.T, exact bool, tests []rewrite, names ...string) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := parse(t, head+tt.in+"\n}")
			g := before.Clone()
			outputs := outputNames(g)
			optimise(t, g, only(names...))
			if got := short(g); got != strings.TrimSpace(tt.want) {
				t.Errorf("got\n%s\nwant\n%s", got, tt.want)
			}
			if got := outputNames(g); !slices.Equal(got, outputs) {
				t.Errorf("outputs are now %v, were %v", got, outputs)
			}
			equivalent(t, before, g, exact)
			if r := optimise(t, g, only(names...)); r.Changes() > 0 {
				t.Errorf("a second run changed something: %v\n%v", r, g)
			}
		})
	}
}

func outputNames(g *graph.Graph) []string {
	var out []string
	for _, v := range g.Outputs {
		out = append(out, v.Name)
	}
	return out
}

// types reports the operators of a graph and its bodies with their numbers.
func types(g *graph.Graph) map[string]int {
	m := map[string]int{}
	g.Walk(func(g *graph.Graph) {
		for _, n := range g.Nodes {
			m[(&op.Call{Domain: n.Domain, Type: n.Type}).Name()]++
		}
	})
	return m
}
