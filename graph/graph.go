package graph

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// ErrInvalid is the kind of every error about a graph that breaks an invariant.
var ErrInvalid = errors.New("invalid graph")

// Graph is a function from inputs to outputs.
type Graph struct {
	Name    string
	Inputs  []*Value // for a body: formal inputs, then captures
	Outputs []*Value
	Nodes   []*Node // in topological order
	// Captures is how many of the trailing inputs are captured values of the enclosing graph; 0 for
	// a main graph.
	Captures int
	// Opsets gives the imported version of each operator domain ("" is ONNX's).
	Opsets map[string]int
	// Meta carries the model's metadata_props and producer through reading and writing.
	Meta map[string]string
}

// Value is one tensor of a graph.
type Value struct {
	Name string
	Type op.Type
	// Producer is the node that computes the value, nil for inputs and constants. The value is
	// Producer.Out[Index].
	Producer *Node
	Index    int
}

// Const returns the value's constant, nil when it is not one.
func (v *Value) Const() *tensor.Tensor { return v.Type.Const }

// IsConst reports whether v is a constant that no node computes.
func (v *Value) IsConst() bool { return v.Producer == nil && v.Type.Const != nil }

// NewConst makes a constant value. The tensor is shared and must not be written from now on.
func NewConst(name string, t *tensor.Tensor) *Value {
	return &Value{Name: name, Type: op.TypeOf(t)}
}

// Node is one operator call.
type Node struct {
	Name     string
	Domain   string // "" is ONNX's
	Type     string
	Version  int // opset version of the domain
	Attrs    op.Attrs
	Captures int      // how many of the trailing inputs are captures of the bodies in Attrs
	In       []*Value // nil for an absent optional input
	Out      []*Value // nil for an output that is not asked for
	// Row is the operator's row where internal/op has none. The text form does not keep it.
	Row *op.Op
}

// NewNode makes a node with fresh output values of the given names; an empty name leaves that
// output out.
func NewNode(name, typ string, version int, attrs op.Attrs, in []*Value, out ...string) *Node {
	n := &Node{Name: name, Type: typ, Version: version, Attrs: attrs, In: in}
	n.Out = make([]*Value, len(out))
	for i, o := range out {
		if o != "" {
			n.Out[i] = &Value{Name: o, Producer: n, Index: i}
		}
	}
	return n
}

// Call returns the node as its operator sees it.
func (n *Node) Call() *op.Call {
	return &op.Call{Domain: n.Domain, Type: n.Type, Version: n.Version, Attrs: n.Attrs,
		NumIn: len(n.In), NumOut: len(n.Out), Captures: n.Captures}
}

// Op returns the operator's row, that of the node where it has one.
func (n *Node) Op() (*op.Op, error) {
	if n.Row != nil {
		return n.Row, nil
	}
	o, err := op.Lookup(n.Domain, n.Type, n.Version)
	if err != nil {
		return nil, fmt.Errorf("node %q: %w", n.Name, err)
	}
	return o, nil
}

// Bodies returns the sub-graphs among the node's attributes, in attribute order.
func (n *Node) Bodies() []*Graph {
	var bodies []*Graph
	for _, a := range n.Attrs {
		if g, ok := a.Body.(*Graph); ok && g != nil {
			bodies = append(bodies, g)
		}
	}
	return bodies
}

// String names a node in errors: `node "conv1" (Conv)`.
func (n *Node) String() string {
	name := n.Type
	if n.Domain != "" {
		name = n.Domain + ":" + name
	}
	return fmt.Sprintf("node %q (%s)", n.Name, name)
}

// Input returns the input of that name, nil when there is none.
func (g *Graph) Input(name string) *Value { return find(g.Inputs, name) }

// Output returns the output of that name, nil when there is none.
func (g *Graph) Output(name string) *Value { return find(g.Outputs, name) }

func find(vs []*Value, name string) *Value {
	for _, v := range vs {
		if v.Name == name {
			return v
		}
	}
	return nil
}

// Constants returns every constant that a node or an output uses, each once, in order of first use.
// Bodies hold their own.
func (g *Graph) Constants() []*Value {
	var out []*Value
	seen := map[*Value]bool{}
	add := func(v *Value) {
		if v != nil && v.IsConst() && !seen[v] {
			seen[v] = true
			out = append(out, v)
		}
	}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			add(v)
		}
	}
	for _, v := range g.Outputs {
		add(v)
	}
	return out
}

// Uses returns, for each value, the nodes that read it. A node that reads the value several times
// is listed that many times. Outputs of the graph are not counted.
func (g *Graph) Uses() map[*Value][]*Node {
	uses := make(map[*Value][]*Node)
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil {
				uses[v] = append(uses[v], n)
			}
		}
	}
	return uses
}

// Walk calls f for g and for every graph nested in it, outer graphs first.
func (g *Graph) Walk(f func(*Graph)) {
	f(g)
	for _, n := range g.Nodes {
		for _, b := range n.Bodies() {
			b.Walk(f)
		}
	}
}

// Clone returns a deep copy of the structure; constants' tensors are shared, since nobody writes
// them.
func (g *Graph) Clone() *Graph {
	to := cloned{}
	c := &Graph{
		Name:     g.Name,
		Captures: g.Captures,
		Opsets:   maps.Clone(g.Opsets),
		Meta:     maps.Clone(g.Meta),
		Inputs:   to.values(g.Inputs),
	}
	for _, n := range g.Nodes {
		c.Nodes = append(c.Nodes, to.node(n))
	}
	c.Outputs = to.values(g.Outputs)
	return c
}

// cloned maps the values of a graph to those of its copy, made on first use.
type cloned map[*Value]*Value

func (to cloned) values(vs []*Value) []*Value {
	out := make([]*Value, len(vs))
	for i, v := range vs {
		if v == nil {
			continue
		}
		if to[v] == nil {
			to[v] = &Value{Name: v.Name, Type: v.Type, Index: v.Index}
		}
		out[i] = to[v]
	}
	return out
}

func (to cloned) node(n *Node) *Node {
	m := &Node{
		Name:     n.Name,
		Domain:   n.Domain,
		Type:     n.Type,
		Version:  n.Version,
		Captures: n.Captures,
		Attrs:    slices.Clone(n.Attrs),
		In:       to.values(n.In),
		Out:      to.values(n.Out),
		Row:      n.Row,
	}
	for i := range m.Attrs {
		if b, ok := m.Attrs[i].Body.(*Graph); ok && b != nil {
			m.Attrs[i].Body = b.Clone()
		}
	}
	for _, v := range m.Out {
		if v != nil {
			v.Producer = m
		}
	}
	return m
}

// dependencies counts, for each node, those of its operands that other nodes compute. It also lists
// the readers of each node, a reader once for each operand that it takes from the node.
func (g *Graph) dependencies() (pending map[*Node]int, readers map[*Node][]*Node) {
	pending, readers = make(map[*Node]int, len(g.Nodes)), map[*Node][]*Node{}
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && v.Producer != nil {
				pending[n]++
				readers[v.Producer] = append(readers[v.Producer], n)
			}
		}
	}
	return pending, readers
}

// Sort puts the nodes into topological order, keeping the given order where it can. It fails with
// [ErrInvalid] on a cycle, naming a node on it.
func (g *Graph) Sort() error {
	pending, waiters := g.dependencies()
	var ready []*Node
	for _, n := range g.Nodes {
		if pending[n] == 0 {
			ready = append(ready, n)
		}
	}
	order := make([]*Node, 0, len(g.Nodes))
	for len(ready) > 0 {
		n := ready[0]
		ready = ready[1:]
		order = append(order, n)
		for _, m := range waiters[n] {
			if pending[m]--; pending[m] == 0 {
				ready = append(ready, m)
			}
		}
	}
	if i := slices.IndexFunc(g.Nodes, func(n *Node) bool { return pending[n] > 0 }); i >= 0 {
		return fmt.Errorf(
			"graph %q: %w: %v is on a cycle or reads a value of a node outside the graph", g.Name,
			ErrInvalid, g.Nodes[i])
	}
	g.Nodes = stable(g.Nodes, order)
	return nil
}

// stable returns the given order when it is already topological, and sorted otherwise. Dumps and
// diffs of passes rely on an order that does not change without need.
func stable(given, sorted []*Node) []*Node {
	done := map[*Node]bool{}
	for _, n := range given {
		for _, v := range n.In {
			if v != nil && v.Producer != nil && !done[v.Producer] {
				return sorted
			}
		}
		done[n] = true
	}
	return given
}

// NumFormals returns how many inputs come before the captures. With [Graph.Infer] it makes a graph
// an op.Body.
func (g *Graph) NumFormals() int { return len(g.Inputs) - g.Captures }

// NumOutputs returns the number of outputs.
func (g *Graph) NumOutputs() int { return len(g.Outputs) }
