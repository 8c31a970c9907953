package onnx

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// trainingDomain is where ONNX keeps the operators of training loops.
const trainingDomain = "ai.onnx.preview.training"

// gradientOpset is the version of the nodes that compute derivatives.
const gradientOpset = 13

// gradients replaces the nodes Gradient (ai.onnx.preview.training, version 1) of a graph by nodes
// that compute the derivatives: the chain rule backwards from y, node by node. The operator names
// tensors of the graph around it, which no evaluation of a single node can see.
func (b *builder) gradients(g *graph.Graph) error {
	isGradient := func(n *graph.Node) bool {
		return n.Domain == trainingDomain && n.Type == "Gradient"
	}
	if !slices.ContainsFunc(g.Nodes, isGradient) {
		return nil
	}
	for _, n := range g.Nodes {
		guess(n)
	}
	for i := slices.IndexFunc(g.Nodes, isGradient); i >= 0; i = slices.IndexFunc(g.Nodes,
		isGradient) {
		n := g.Nodes[i]
		d := &differentiator{b: b, of: map[*graph.Value]*graph.Value{},
			moves: map[*graph.Value]bool{}}
		g.Nodes = slices.Delete(g.Nodes, i, i+1)
		if err := d.node(g, n); err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
		g.Nodes = append(g.Nodes, d.made...)
		if err := b.spend(len(d.made)); err != nil {
			return err
		}
		if err := g.Sort(); err != nil {
			return err
		}
	}
	return nil
}

// differentiator computes the derivatives of one value.
type differentiator struct {
	b     *builder
	made  []*graph.Node
	of    map[*graph.Value]*graph.Value // derivative of y by a value, as far as it is known
	moves map[*graph.Value]bool         // values that depend on one of xs
}

// node replaces one Gradient.
func (d *differentiator) node(g *graph.Graph, n *graph.Node) error {
	xs, zs := n.Attrs.Strings("xs"), n.Attrs.Strings("zs")
	if len(n.In) != len(xs)+len(zs) || len(n.Out) > len(xs) {
		return formatErr("has %d inputs and %d outputs for %d tensors xs and %d zs", len(n.In),
			len(n.Out), len(xs), len(zs))
	}
	for i, name := range slices.Concat(xs, zs) {
		if n.In[i] == nil || n.In[i].Name != name {
			return fmt.Errorf("%w: input %d is not the tensor %q that it stands for",
				op.ErrUnsupported, i, name)
		}
	}
	y := find(g, n.Attrs.String("y", ""))
	if y == nil {
		return formatErr("y names no tensor of the graph: %q", n.Attrs.String("y", ""))
	}
	if t := y.Type.DType; t != tensor.Float32 && t != tensor.Float64 {
		return fmt.Errorf("%w: derivatives of %v", op.ErrUnsupported, t)
	}
	ones := d.apply("ConstantOfShape", op.Attrs{op.TensorAttr("value", floatOf(y.Type.DType, 1))},
		d.apply("Shape", nil, y))
	d.of[y] = ones
	if err := d.back(g, n.In[:len(xs)]); err != nil {
		return err
	}
	for i, out := range n.Out {
		if out == nil {
			continue
		}
		x := n.In[i]
		if d.of[x] == nil { // y does not depend on x
			d.of[x] = d.apply("Sub", nil, x, x)
		}
		id := &graph.Node{Name: d.b.fresh(n.Name + "_" + x.Name), Type: "Identity",
			Version: gradientOpset, In: []*graph.Value{d.of[x]}, Out: []*graph.Value{out}}
		out.Producer, out.Index = id, 0
		d.made = append(d.made, id)
		guess(id)
	}
	return nil
}

// floatOf is a vector of one element of a floating-point type, float32 unless it is float64.
func floatOf(t tensor.DType, v float32) *tensor.Tensor {
	if t == tensor.Float64 {
		return tensor.From([]float64{float64(v)}, 1)
	}
	return tensor.From([]float32{v}, 1)
}

// find returns the value of a name in a graph.
func find(g *graph.Graph, name string) *graph.Value {
	for _, v := range g.Inputs {
		if v.Name == name {
			return v
		}
	}
	for _, n := range g.Nodes {
		for _, v := range slices.Concat(n.In, n.Out) {
			if v != nil && v.Name == name {
				return v
			}
		}
	}
	return nil
}

// back goes through the nodes from the last to the first and adds to the derivatives of their
// inputs. The xs are where it ends.
func (d *differentiator) back(g *graph.Graph, xs []*graph.Value) error {
	for _, x := range xs {
		d.moves[x] = true
	}
	for _, n := range g.Nodes {
		if o, err := n.Op(); err == nil && o.Has(op.ShapeOnly) {
			continue // sizes do not move with elements
		}
		if slices.ContainsFunc(n.In, func(v *graph.Value) bool { return d.moves[v] }) {
			for _, v := range n.Out {
				d.moves[v] = true
			}
		}
	}
	for _, n := range slices.Backward(g.Nodes) {
		if len(n.Out) == 0 || n.Out[0] == nil || d.of[n.Out[0]] == nil || !d.moves[n.Out[0]] ||
			slices.Contains(xs, n.Out[0]) {
			continue
		}
		f := derivatives[n.Type]
		if f == nil || n.Domain != "" {
			return fmt.Errorf("%w: there is no derivative of %v; weir has those of %s",
				op.ErrUnsupported, n, strings.Join(slices.Sorted(maps.Keys(derivatives)), ", "))
		}
		if err := f(d, n, d.of[n.Out[0]]); err != nil {
			return fmt.Errorf("derivative of %v: %w", n, err)
		}
	}
	return nil
}

// apply makes a node of one output.
func (d *differentiator) apply(typ string, attrs op.Attrs, in ...*graph.Value) *graph.Value {
	name := d.b.fresh("gradient_" + typ)
	n := graph.NewNode(name, typ, gradientOpset, attrs, in, name)
	d.made = append(d.made, n)
	guess(n)
	return n.Out[0]
}

// add adds a part to the derivative by input i of a node, as the sum over the elements that the
// input was repeated to.
func (d *differentiator) add(n *graph.Node, i int, part *graph.Value) error {
	v := n.In[i]
	if v == nil || !d.moves[v] {
		return nil
	}
	if !part.Type.Equal(v.Type) {
		var err error
		if part, err = d.summed(part, v); err != nil {
			return err
		}
	}
	if old := d.of[v]; old != nil {
		part = d.apply("Add", nil, old, part)
	}
	d.of[v] = part
	return nil
}

// summed sums part over the axes along which v was repeated.
func (d *differentiator) summed(part, v *graph.Value) (*graph.Value, error) {
	from, to := part.Type, v.Type
	if !from.Ranked || !to.Ranked || len(from.Shape) < len(to.Shape) {
		return nil, fmt.Errorf("%w: the shapes %v and %v are not known well enough",
			op.ErrUnsupported, from, to)
	}
	var axes []int64
	lead := len(from.Shape) - len(to.Shape)
	for k, n := range from.Shape {
		switch {
		case k < lead || to.Shape[k-lead].Is(1) && !n.Is(1):
			axes = append(axes, int64(k))
		case !n.Equal(to.Shape[k-lead]):
			return nil, fmt.Errorf("%w: the sizes %v and %v are not known well enough",
				op.ErrUnsupported, n, to.Shape[k-lead])
		}
	}
	if len(axes) > 0 {
		part = d.apply("ReduceSum", nil, part,
			graph.NewConst(d.b.fresh("gradient_axes"), tensor.From(axes, len(axes))))
	}
	return d.apply("Reshape", nil, part, d.apply("Shape", nil, v)), nil
}
