package grad_test

import (
	"errors"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// withBodies are functions of %x and %w through operators that run sub-graphs; their results are
// all of float64.
var withBodies = map[string]string{
	"If taken": `%c = Greater@13 (%k, %zero)
		%y, %z = If@17 (%c | %x, %w) {then_branch=graph "t" captures 2 {
			input %x: float64[2,2]
			input %w: float64[2,2]
			%m = MatMul@13 (%x, %w)
			%n = Tanh@13 (%m)
			output %n
			output %x
		}, else_branch=graph "e" captures 2 {
			input %x: float64[2,2]
			input %w: float64[2,2]
			%m = Exp@13 (%x)
			output %m
			output %w
		}}
		output %y
		output %z`,
	"If not taken": `%c = Less@13 (%k, %zero)
		%y, %z = If@17 (%c | %x, %w) {then_branch=graph "t" captures 2 {
			input %x: float64[2,2]
			input %w: float64[2,2]
			%m = MatMul@13 (%x, %w)
			%n = Tanh@13 (%m)
			output %n
			output %x
		}, else_branch=graph "e" captures 2 {
			input %x: float64[2,2]
			input %w: float64[2,2]
			%m = Exp@13 (%x)
			%s = Mul@14 (%m, %x)
			output %s
			output %w
		}}
		output %y
		output %z`,
	"If with attention": `%c = Greater@13 (%k, %zero)
		%y = If@17 (%c | %x, %w) {then_branch=graph "t" captures 2 {
			input %x: float64[2,2]
			input %w: float64[2,2]
			%m = weir:Attention@1 (%x, %w, %x) {scale=0.7}
			output %m
		}, else_branch=graph "e" captures 2 {
			input %x: float64[2,2]
			input %w: float64[2,2]
			output %w
		}}
		output %y`,
	"Loop of attention": `const %n: int64[] = {3}
		%y = Loop@17 (%n, _, %x | %w) {body=graph "b" captures 1 {
			input %i: int64[]
			input %go: bool[]
			input %v: float64[2,2]
			input %w: float64[2,2]
			%t = weir:Attention@1 (%v, %v, %w)
			output %go
			output %t
		}}
		output %y`,
	"If in If": `%c = Greater@13 (%k, %zero)
		%y = If@17 (%c | %x, %c) {then_branch=graph "t" captures 2 {
			input %x: float64[2,2]
			input %c: bool[1]
			%i = If@17 (%c | %x) {then_branch=graph "a" captures 1 {
				input %x: float64[2,2]
				%m = Mul@14 (%x, %x)
				output %m
			}, else_branch=graph "b" captures 1 {
				input %x: float64[2,2]
				output %x
			}}
			%s = Sin@7 (%i)
			output %s
		}, else_branch=graph "e" captures 2 {
			input %x: float64[2,2]
			input %c: bool[1]
			output %x
		}}
		%z = Mul@14 (%y, %w)
		output %z`,
	"Loop": `const %n: int64[] = {3}
		%y, %all = Loop@17 (%n, _, %x | %w) {body=graph "b" captures 1 {
			input %i: int64[]
			input %go: bool[]
			input %v: float64[2,2]
			input %w: float64[2,2]
			%f: float64[] = Cast@13 (%i) {to=11}
			%p = MatMul@13 (%v, %w)
			%q = Add@14 (%p, %f)
			%t = Tanh@13 (%q)
			%s = Mul@14 (%v, %w)
			output %go
			output %t
			output %s
		}}
		output %y
		output %all`,
	"Loop without an iteration": `const %n: int64[] = {0}
		%y = Loop@17 (%n, _, %x) {body=graph "b" {
			input %i: int64[]
			input %go: bool[]
			input %v: float64[2,2]
			%t = Tanh@13 (%v)
			output %go
			output %t
		}}
		%z = Mul@14 (%y, %w)
		output %z`,
	"Scan": `%y, %all, %back = Scan@17 (%x, %w, %x) {num_scan_inputs=2, body=graph "b" {
			input %s: float64[2,2]
			input %a: float64[2]
			input %b: float64[2]
			%p = Mul@14 (%a, %b)
			%q = MatMul@13 (%s, %p)
			%t = Tanh@13 (%q)
			%n = Add@14 (%s, %t)
			output %n
			output %t
			output %p
		}, scan_input_axes=[1, 0], scan_input_directions=[1, 0], scan_output_axes=[1, 0],
		scan_output_directions=[0, 1]}
		output %y
		output %all
		output %back`,
}

// bodied is one of withBodies as a function.
func bodied(t *testing.T, lines string) *function {
	t.Helper()
	g := parse(t, "input %x: float64[2,2]\ninput %w: float64[2,2]\n"+
		"const %k: float64[1] = {1}\nconst %zero: float64[1] = {0}\n"+lines)
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	r := rand.New(rand.NewPCG(1, 2))
	f := &function{g: g, by: g.Inputs, at: []*tensor.Tensor{normal(r, 2, 2), normal(r, 2, 2)}}
	f.realOutputs(t, r)
	return f
}

// TestBodies holds gradients through If, Loop and Scan against central differences: all results by
// all operands, each alone, and the gradients of the gradients.
func TestBodies(t *testing.T) {
	for name, lines := range withBodies {
		t.Run(name, func(t *testing.T) {
			f := bodied(t, lines)
			f.compare(t, every(len(f.of)), every(2))
			for i := range f.of {
				f.compare(t, []int{i}, []int{0})
				f.compare(t, []int{i}, []int{1})
			}
			f.twice(t)
		})
	}
}

// TestBodiesRefused: loops whose count depends on data have no gradient, nor have those of more
// iterations than are written; the error says what to do, and the graph stays as it was.
func TestBodiesRefused(t *testing.T) {
	loop := withBodies["Loop"]
	for name, c := range map[string]struct{ lines, says string }{
		"count": {strings.Replace(loop, "const %n: int64[] = {3}", "input %n: int64[]", 1),
			"count"},
		"condition": {strings.Replace(loop, "(%n, _,", "(%n, %ask,", 1), "condition"},
		"ended": {strings.Replace(loop, "output %go", "%no = Not@1 (%go) output %no", 1),
			"count"},
		"long": {strings.Replace(loop, "{3}", "{1000000}", 1), "at most"},
		"axis": {strings.Replace(withBodies["Scan"], "(%x, %w, %x)", "(%x, %u, %x)", 1),
			"not known"},
	} {
		g := parse(t, "input %x: float64[2,2]\ninput %w: float64[2,2]\ninput %ask: bool[]\n"+
			"input %u: float64[2,n]\n"+c.lines)
		nodes := len(g.Nodes)
		_, err := grad.Backward(g, grad.Objective{Of: g.Outputs[:1], By: g.Inputs[:1]})
		if !errors.Is(err, op.ErrNoGradient) || !strings.Contains(err.Error(), c.says) ||
			len(g.Nodes) != nodes {
			t.Errorf("%s: %v, and %d nodes of %d", name, err, len(g.Nodes), nodes)
		}
	}
	for _, typ := range []string{"If", "Loop", "Scan"} {
		o, err := op.Lookup("", typ, newest)
		if err != nil {
			t.Fatal(err)
		}
		g, x, y := through(o)
		_, err = grad.Backward(g, grad.Objective{Of: []*graph.Value{y}, By: []*graph.Value{x}})
		if err == nil {
			t.Errorf("%s without a body has a gradient", typ)
		}
	}
}
