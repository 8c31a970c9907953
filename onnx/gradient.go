package onnx

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// trainingDomain is where ONNX keeps the operators of training loops.
const trainingDomain = "ai.onnx.preview.training"

func isGradient(n *graph.Node) bool {
	return n.Domain == trainingDomain && n.Type == "Gradient"
}

// gradients replaces each Gradient node of a graph (ai.onnx.preview.training, version 1) by the
// nodes that compute the derivatives, which package grad makes. It is done while reading because
// the operator refers by name to tensors of the graph around it, which the evaluation of a single
// node cannot see.
func (b *builder) gradients(g *graph.Graph) error {
	if err := refuseInBodies(g); err != nil {
		return err
	}
	for i := slices.IndexFunc(g.Nodes, isGradient); i >= 0; i = slices.IndexFunc(g.Nodes,
		isGradient) {
		n := g.Nodes[i]
		g.Nodes = slices.Delete(g.Nodes, i, i+1)
		had := len(g.Nodes)
		if err := b.gradient(g, n); err != nil {
			return fmt.Errorf("%v: %w", n, err)
		}
		if err := b.spend(len(g.Nodes) - had); err != nil {
			return err
		}
		if err := g.Sort(); err != nil {
			return err
		}
	}
	return nil
}

// refuseInBodies looks for nodes Gradient below the main graph.
func refuseInBodies(g *graph.Graph) error {
	for _, n := range g.Nodes {
		for _, body := range n.Bodies() {
			if i := slices.IndexFunc(body.Nodes, isGradient); i >= 0 {
				return fmt.Errorf("%v: body %q: %v: %w in bodies; compute it in the main graph "+
					"and capture the result", n, body.Name, body.Nodes[i], op.ErrNoGradient)
			}
			if err := refuseInBodies(body); err != nil {
				return fmt.Errorf("%v: %w", n, err)
			}
		}
	}
	return nil
}

// gradient writes the nodes of one Gradient: y by each of xs, zs held.
func (b *builder) gradient(g *graph.Graph, n *graph.Node) error {
	xs := n.Attrs.Strings("xs")
	if err := checkGradient(n, xs, n.Attrs.Strings("zs")); err != nil {
		return err
	}
	y := find(g, n.Attrs.String("y", ""))
	if y == nil {
		return formatErr("y names no tensor of the graph: %q", n.Attrs.String("y", ""))
	}
	ds, err := grad.Backward(g, grad.Objective{Of: []*graph.Value{y}, By: n.In[:len(xs)],
		Held: n.In[len(xs):]})
	if err != nil {
		return err
	}
	for i, out := range n.Out {
		if out == nil {
			continue
		}
		id := &graph.Node{Name: b.fresh(n.Name + "_" + xs[i]), Type: "Identity",
			Version: max(g.Opsets[""], 1), In: []*graph.Value{ds[i]}, Out: []*graph.Value{out}}
		out.Producer, out.Index = id, 0
		g.Nodes = append(g.Nodes, id)
		guess(id)
	}
	return nil
}

// checkGradient checks that the inputs of a Gradient are the tensors that xs and zs name.
func checkGradient(n *graph.Node, xs, zs []string) error {
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
	return nil
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
