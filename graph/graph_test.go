package graph_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// val makes a value that nothing computes yet.
func val(name string) *graph.Value { return &graph.Value{Name: name} }

// sound is a graph of three nodes that tests break in one way each.
func sound() *graph.Graph {
	x := &graph.Value{Name: "x", Type: op.Ranked(tensor.Float32, op.Sym("N"))}
	a := graph.NewNode("a", "Relu", 17, nil, []*graph.Value{x}, "u")
	b := graph.NewNode("b", "Neg", 17, nil, []*graph.Value{a.Out[0]}, "v")
	c := graph.NewNode("c", "Add", 17, nil, []*graph.Value{a.Out[0], b.Out[0]}, "w")
	return &graph.Graph{
		Name:    "g",
		Inputs:  []*graph.Value{x},
		Nodes:   []*graph.Node{a, b, c},
		Outputs: c.Out,
	}
}

func TestCheck(t *testing.T) {
	if err := sound().Check(); err != nil {
		t.Fatal(err)
	}
	body := &graph.Graph{Name: "body", Captures: 2, Inputs: []*graph.Value{val("p"), val("q")}}
	tests := []struct {
		name  string
		wreck func(*graph.Graph)
		kind  error
		want  string
	}{
		{
			"cycle",
			func(g *graph.Graph) { g.Nodes[0].In[0] = g.Nodes[2].Out[0] },
			graph.ErrInvalid,
			`node "a" (Relu): input 0: value "w" is used before`,
		},
		{"order", func(g *graph.Graph) { slices.Reverse(g.Nodes) }, graph.ErrInvalid, `node "c"`},
		{
			"undefined",
			func(g *graph.Graph) { g.Nodes[1].In[0] = val("z") },
			graph.ErrInvalid,
			`value "z" is used before`,
		},
		{
			"two of one name",
			func(g *graph.Graph) { g.Nodes[1].Out[0].Name = "u" },
			graph.ErrInvalid,
			`two values are named "u"`,
		},
		{
			"no name",
			func(g *graph.Graph) { g.Nodes[1].Out[0].Name = "" },
			graph.ErrInvalid,
			"has no name",
		},
		{
			"two definitions",
			func(g *graph.Graph) { g.Inputs = append(g.Inputs, g.Inputs[0]) },
			graph.ErrInvalid,
			"defined twice",
		},
		{
			"wrong producer",
			func(g *graph.Graph) { g.Nodes[1].Out[0].Producer = g.Nodes[0] },
			graph.ErrInvalid,
			"does not know its producer",
		},
		{
			"wrong index",
			func(g *graph.Graph) { g.Nodes[1].Out[0].Index = 1 },
			graph.ErrInvalid,
			"does not know its producer",
		},
		{
			"input with a producer",
			func(g *graph.Graph) { g.Inputs[0].Producer = g.Nodes[0] },
			graph.ErrInvalid,
			"has a producer",
		},
		{
			"nil input",
			func(g *graph.Graph) { g.Inputs[0] = nil },
			graph.ErrInvalid,
			"input 0 is nil",
		},
		{
			"nil output",
			func(g *graph.Graph) { g.Outputs = []*graph.Value{nil} },
			graph.ErrInvalid,
			"output 0 is nil",
		},
		{
			"output of nowhere",
			func(g *graph.Graph) { g.Outputs = []*graph.Value{val("z")} },
			graph.ErrInvalid,
			`output "z"`,
		},
		{
			"unknown operator",
			func(g *graph.Graph) { g.Nodes[0].Type = "Rela" },
			op.ErrUnsupported,
			"Rela",
		},
		{
			"operands",
			func(g *graph.Graph) { g.Nodes[2].In = g.Nodes[2].In[:1] },
			op.ErrInput,
			"has 1 inputs",
		},
		{
			"required operand",
			func(g *graph.Graph) { g.Nodes[2].In[1] = nil },
			graph.ErrInvalid,
			"input 1 is required",
		},
		{
			"captures of nothing",
			func(g *graph.Graph) { g.Captures = 2 },
			graph.ErrInvalid,
			"2 captures of 1 inputs",
		},
		{
			"captures of a node",
			func(g *graph.Graph) { g.Nodes[0].Captures = 2 },
			graph.ErrInvalid,
			"2 captures of 1 inputs",
		},
		{"body's captures", func(g *graph.Graph) {
			g.Nodes[0].Attrs = op.Attrs{op.BodyAttr("then_branch", body)}
		}, graph.ErrInvalid, `body "body" takes 2 captures, the node has 0`},
		{"broken constant", func(g *graph.Graph) {
			g.Nodes[2].In[1] = graph.NewConst(
				"k",
				&tensor.Tensor{DType: tensor.Float32, Shape: []int{2}, Data: make([]byte, 4)},
			)
		}, graph.ErrInvalid, `constant "k"`},
	}
	for _, tt := range tests {
		g := sound()
		tt.wreck(g)
		if err := g.Check(); !errors.Is(err, tt.kind) || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: got %v, want %v with %q", tt.name, err, tt.kind, tt.want)
		}
	}
}

func TestSort(t *testing.T) {
	g := sound()
	order := slices.Clone(g.Nodes)
	if err := g.Sort(); err != nil || !slices.Equal(g.Nodes, order) {
		t.Errorf("a sorted graph was changed: %v, %v", g.Nodes, err)
	}
	slices.Reverse(g.Nodes)
	if err := g.Sort(); err != nil || !slices.Equal(g.Nodes, order) {
		t.Errorf("got %v, %v", g.Nodes, err)
	}
	g.Nodes[0].In[0] = g.Nodes[2].Out[0]
	if err := g.Sort(); !errors.Is(err, graph.ErrInvalid) ||
		!strings.Contains(err.Error(), "cycle") {
		t.Errorf("a cycle: %v", err)
	}
}

func TestCloneSharesConstantsOnly(t *testing.T) {
	g := parse(t, branch)
	c := g.Clone()
	same(t, g, c)
	if err := c.Check(); err != nil {
		t.Fatal(err)
	}
	if g.Constants()[0].Const() != c.Constants()[0].Const() {
		t.Error("a constant's tensor was copied")
	}
	want := text(t, g)
	c.Walk(func(b *graph.Graph) {
		for _, n := range b.Nodes {
			n.Type, n.Attrs = "Changed", nil
			for _, v := range slices.Concat(n.In, n.Out) {
				v.Name += "!"
			}
		}
	})
	c.Nodes, c.Inputs = nil, nil
	if got := text(t, g); got != want {
		t.Errorf("the original became\n%s", got)
	}
}

func TestUsesAndConstants(t *testing.T) {
	g := parse(
		t,
		`graph "g" { input %x: float32[N] const %k: float32[] = {2} const %o: float32[] = {3}
		%y: float32[N] = Add@17 (%k, %k) %z: float32[N] = Mul@17 (%x, %y) output %z output %o }`,
	)
	if uses := g.Uses(); len(uses[g.Nodes[0].In[0]]) != 2 || len(uses[g.Inputs[0]]) != 1 ||
		len(uses[g.Outputs[0]]) != 0 {
		t.Errorf("uses are %v", uses)
	}
	var names []string
	for _, v := range g.Constants() {
		names = append(names, v.Name)
	}
	if !slices.Equal(names, []string{"k", "o"}) {
		t.Errorf("constants are %v", names)
	}
	if g.Input("x") != g.Inputs[0] || g.Output("z") != g.Outputs[0] || g.Input("z") != nil {
		t.Error("inputs or outputs are not found by name")
	}
}

func TestInferTypes(t *testing.T) {
	g := parse(t, `graph "g" {
		input %x: float32[N,3]
		input %m: bool[N]
		const %two: int64[1] = {0}
		%a = Unsqueeze@17 (%x, %two)
		%s = Shape@17 (%a)
		%b = Compress@17 (%x, %m) {axis=0}
		%c = Concat@17 (%b, %b) {axis=1}
		output %c
	}`)
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, n := range g.Nodes {
		got = append(got, n.Out[0].Type.String())
	}
	if want := []string{
		"float32[1,N,3]",
		"int64[3]",
		"float32[b.0,3]",
		"float32[b.0,6]",
	}; !slices.Equal(
		got,
		want,
	) {
		t.Errorf("got %v, want %v", got, want)
	}
	if e := g.Nodes[1].Out[0].Type.Elems; len(e) != 3 || !e[1].Equal(op.Sym("N")) {
		t.Errorf("the shape's elements are %v", e)
	}
	if err := g.Nodes[3].InferTypes(); err != nil {
		t.Error(err)
	}
}

func TestInferTypesKeepsDeclaredTypes(t *testing.T) {
	g := parse(
		t,
		`graph "g" { input %x: float32[4] input %m: bool[4] %b: float32[K] = Compress@17 (%x, %m) {axis=0} output %b }`,
	)
	if err := g.InferTypes(); err != nil || g.Outputs[0].Type.String() != "float32[K]" {
		t.Errorf("got %v, %v", g.Outputs[0].Type, err)
	}
}

func TestInferTypesRefuses(t *testing.T) {
	g := parse(
		t,
		`graph "g" { input %x: float32[2,3] input %y: float32[4,5] %z = MatMul@17 "mm" (%x, %y) output %z }`,
	)
	if err := g.InferTypes(); !errors.Is(err, op.ErrInput) ||
		!strings.Contains(err.Error(), `graph "g": node "mm" (MatMul)`) {
		t.Errorf("got %v", err)
	}
}

func TestSpecialize(t *testing.T) {
	g := parse(
		t,
		`graph "g" { input %x: float32[N,3] input %y: float32[N,M] %z: float32[?,?] = Concat@17 (%x, %y) {axis=1} output %z }`,
	)
	s, err := g.Specialize(map[string][]int{"x": {2, 3}, "y": {2, 5}})
	if err != nil || s.Outputs[0].Type.String() != "float32[2,8]" {
		t.Fatalf("got %v, %v", s, err)
	}
	if s, err = g.Specialize(
		map[string][]int{"x": {2, 3}},
	); err != nil ||
		s.Inputs[1].Type.String() != "float32[2,M]" {
		t.Errorf("the other input is %v, %v", s.Inputs[1].Type, err)
	}
	if g.Outputs[0].Type.String() != "float32[?,?]" {
		t.Errorf("the original was changed: %v", g)
	}
	if _, err := g.Specialize(
		map[string][]int{"x": {7, 3}, "y": {2, 5}},
	); !errors.Is(
		err,
		op.ErrInput,
	) {
		t.Errorf("sizes that do not fit: %v", err)
	}
	for _, shape := range [][]int{{2, 4}, {2}, {-1, 3}} {
		if _, err := g.Specialize(
			map[string][]int{"x": shape},
		); err == nil ||
			!strings.Contains(err.Error(), `"x"`) {
			t.Errorf("shape %v: %v", shape, err)
		}
	}
	if _, err := g.Specialize(
		map[string][]int{"q": {1}},
	); !errors.Is(err, op.ErrInput) ||
		!strings.Contains(err.Error(), `"x" float32[N,3]`) {
		t.Errorf("an input that does not exist: %v", err)
	}
}

// TestSpecializeSeparates holds that after it nothing rests on names that a file gives: dimensions
// of inputs have symbols of their own, declared shapes are forgotten, and no two values of the
// model have one name, nor symbols that are made of it.
func TestSpecializeSeparates(t *testing.T) {
	g := parse(t, `graph "g" {
  input %x: float32[N,N,?,"b.0",4]
  input %y: float32["N + 1",M,N]
  input %m: bool[]
  %a: int64[7] = NonZero@17 (%x)
  %b: int64[3] = If@17 (%m | %y) {then_branch=graph "then" captures 1 {
    input %y
    %a: int64[9] = NonZero@17 (%y)
    output %a
  }, else_branch=graph "else" captures 1 {
    input %y
    %a: int64[9] = NonZero@17 (%y)
    output %a
  }}
  output %a
  output %b
}`)
	s, err := g.Specialize(nil)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, v := range slices.Concat(s.Inputs[:2], s.Outputs) {
		got = append(got, v.Type.String())
	}
	if want := []string{"float32[N,x.1,x.2,x.3,4]", "float32[y.0,M,y.2]", "int64[5,a.1]",
		"int64[3,b.1]"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	named := map[string]bool{}
	s.Walk(func(b *graph.Graph) {
		for _, n := range b.Nodes {
			if v := n.Out[0]; named[v.Name] {
				t.Errorf("two values are named %q", v.Name)
			} else {
				named[v.Name] = true
			}
		}
	})
}

func TestEval(t *testing.T) {
	g := parse(t, branch)
	x := tensor.From([]float32{1, -2, 3, -4}, 2, 2)
	for cond, want := range map[bool][]float32{true: {2, 0, 6, 0}, false: {2, -4, 6, -8}} {
		out, err := g.Eval(context.Background(), []*tensor.Tensor{x, tensor.Scalar(cond)})
		if err != nil {
			t.Fatal(err)
		}
		if err := tensor.Close(out[0], tensor.From(want, 2, 2), 0, 0); err != nil {
			t.Errorf("condition %v: %v", cond, err)
		}
	}
}

func TestEvalPassesInputsAndConstantsThrough(t *testing.T) {
	g := parse(
		t,
		`graph "g" { input %x: float32[2] const %k: float32[] = {7} output %x output %k output %x }`,
	)
	x := tensor.From([]float32{1, 2}, 2)
	out, err := g.Eval(context.Background(), []*tensor.Tensor{x})
	if err != nil || out[0] != x || out[2] != x || out[1].At(0) != float32(7) {
		t.Errorf("got %v, %v", out, err)
	}
}

func TestEvalErrors(t *testing.T) {
	g := parse(t, branch)
	x, c := tensor.From([]float32{1, 2}, 1, 2), tensor.Scalar(true)
	if _, err := g.Eval(context.Background(), []*tensor.Tensor{x}); !errors.Is(err, op.ErrInput) {
		t.Errorf("too few inputs: %v", err)
	}
	if _, err := g.Eval(
		context.Background(),
		[]*tensor.Tensor{x, x},
	); !errors.Is(err, op.ErrInput) ||
		!strings.Contains(err.Error(), "(If)") {
		t.Errorf("a condition that is no truth value: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := g.Eval(ctx, []*tensor.Tensor{x, c}); !errors.Is(err, context.Canceled) {
		t.Errorf("an ended context: %v", err)
	}
	g.Nodes[0].In[0] = val("z")
	if _, err := g.Eval(
		context.Background(),
		[]*tensor.Tensor{x, c},
	); !errors.Is(err, graph.ErrInvalid) ||
		!strings.Contains(err.Error(), `"z"`) {
		t.Errorf("a value of nowhere: %v", err)
	}
}
