package step

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/scale"
)

// opset is the version of ONNX's operators of which a step adds calls. The graph of a step is
// planned, never written, so it need not be that of the model.
const opset = 18

// prefix begins the names of what a step adds to a graph.
const prefix = "weir."

// builder adds nodes to a model.
type builder struct {
	g       *graph.Graph
	own     map[string]bool // constants of the model; nil for all
	params  []Param
	weights []*graph.Value // those that are trained
	stats   []*graph.Value
	vars    []plan.Variable
	sums    []string
	updates []replaced
	scale   *scale.Scaler
	names   map[string]bool
	made    int
}

// replaced is a variable and what it becomes.
type replaced struct {
	variable string
	by       *graph.Value
	// finite is set where by is what the variable was, if gradients have overflowed
	finite bool
}

// newBuilder returns the builder of a copy of a model for the shapes of a batch.
func newBuilder(model *graph.Graph, o Options) (*builder, error) {
	g, err := model.Specialize(o.Shapes)
	if err != nil {
		return nil, err
	}
	for _, v := range g.Inputs {
		if !v.Type.Static() {
			return nil, fmt.Errorf("graph %q: input %q: %w: it is %v; give data for it", g.Name,
				v.Name, plan.ErrShape, v.Type)
		}
	}
	own := map[string]bool{}
	for _, v := range g.Constants() {
		own[v.Name] = true
	}
	if g, err = whole(g, own); err != nil {
		return nil, err
	}
	b := &builder{g: g, own: own, names: map[string]bool{}}
	g.Walk(func(g *graph.Graph) {
		for _, v := range g.Inputs {
			b.names[v.Name] = true
		}
		for _, n := range g.Nodes {
			for _, v := range slices.Concat(n.In, n.Out) {
				if v != nil {
					b.names[v.Name] = true
				}
			}
		}
	})
	return b, b.find(o)
}

// whole is a graph that computes by one operator what exporters take apart, where the gradient of
// that operator keeps less for the backward half than those of its parts. The graph given, which
// has these constants, is used up.
func whole(g *graph.Graph, own map[string]bool) (*graph.Graph, error) {
	w := g.Clone()
	if err := makeWhole(w, "gelu", "layernorm", "dead"); err != nil {
		return nil, err
	}
	if keepsWeights(w, own) {
		return w, nil
	}
	return g, makeWhole(g, "gelu", "dead")
}

func makeWhole(g *graph.Graph, passes ...string) error {
	off := slices.DeleteFunc(pass.Names(), func(name string) bool {
		return slices.Contains(passes, name)
	})
	_, err := pass.Run(context.Background(), g, pass.Options{Off: off})
	return err
}

// keepsWeights reports whether the constants of a graph are those that it had, but for the ones
// that a layer normalisation without a scale is given: no weight was copied to another shape.
func keepsWeights(g *graph.Graph, own map[string]bool) bool {
	seen := map[string]bool{}
	for _, v := range g.Constants() {
		if seen[v.Name] || !own[v.Name] && !strings.HasSuffix(v.Name, "_scale") {
			return false
		}
		seen[v.Name] = true
	}
	return true
}

// fresh is a name that the graph does not have.
func (b *builder) fresh(base string) string {
	name := prefix + base
	for b.names[name] {
		b.made++
		name = fmt.Sprint(prefix, base, ".", b.made)
	}
	b.names[name] = true
	return name
}

// op adds a node with one result. Its types are inferred; an error shows when the graph is checked
// and compiled.
func (b *builder) op(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	name := b.fresh(typ)
	n := graph.NewNode(name, typ, opset, attrs, in, name)
	b.g.Nodes = append(b.g.Nodes, n)
	_ = n.InferTypes()
	return n.Out[0]
}

// number is a constant of rank 0.
func (b *builder) number(v float64) *graph.Value {
	return graph.NewConst(b.fresh("number"), tensor.Scalar(float32(v)))
}

// ints is a constant of rank 1.
func (b *builder) ints(v ...int64) *graph.Value {
	return graph.NewConst(b.fresh("ints"), tensor.From(v, len(v)))
}

// scalar is the input that takes a number of the step.
func (b *builder) scalar(name string) *graph.Value {
	if v := b.g.Input(name); v != nil {
		return v
	}
	v := &graph.Value{Name: name, Type: op.Concrete(tensor.Float32)}
	b.g.Inputs = append(b.g.Inputs, v)
	return v
}

// variable is the input that reads a variable of the state.
func (b *builder) variable(name string, t op.Type) *graph.Value {
	shape, _ := t.Ints()
	v := &graph.Value{Name: name, Type: op.Concrete(t.DType, shape...)}
	b.g.Inputs = append(b.g.Inputs, v)
	b.vars = append(b.vars, plan.Variable{Name: name, DType: t.DType, Shape: shape})
	return v
}

// train makes inputs of the weights and of the statistics that move with them.
func (b *builder) train() {
	for _, v := range slices.Concat(b.weights, b.stats) {
		shape, _ := v.Type.Ints()
		v.Type = op.Concrete(v.Type.DType, shape...)
		b.g.Inputs = append(b.g.Inputs, v)
		b.vars = append(b.vars, plan.Variable{Name: v.Name, DType: v.Type.DType, Shape: shape})
	}
}

// become notes what variables are after an iteration.
func (b *builder) become(rs ...replaced) { b.updates = append(b.updates, rs...) }

// finish makes the graph whose first outputs are given; what variables become follows them.
func (b *builder) finish(outs ...*graph.Value) (Graph, error) {
	out := Graph{Graph: b.g}
	b.g.Outputs = outs
	for _, r := range b.updates {
		out.Updates = append(out.Updates, plan.Update{Output: len(b.g.Outputs),
			Variable: r.variable})
		b.g.Outputs = append(b.g.Outputs, r.by)
	}
	if err := b.g.Sort(); err != nil {
		return out, err
	}
	return out, b.g.Check()
}
