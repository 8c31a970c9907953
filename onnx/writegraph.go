package onnx

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// writer turns a graph into a GraphProto.
type writer struct {
	o       WriteOptions
	ext     *externalLayout
	shared  map[*tensor.Tensor]bool
	hoisted map[*tensor.Tensor]string // names in the main graph of the shared constants

	opset int // of ONNX's own operators
	// the overload names of the functions of weir's own operators, keyed by [functionOf]
	overloads map[string]string
	functions []*message
}

// names are the value names of one graph of the file and of those that enclose it: ONNX lets a body
// refer to them, so it must not use one for a value of its own.
type names struct {
	outer *names
	taken map[string]bool
	of    map[*graph.Value]string
	nodes map[string]bool // names of nodes, which ONNX Runtime wants to be different within a graph
}

// node returns a node's name, with a number when another node of the graph has it.
func (s *names) node(name string) string {
	unique := name
	for i := len(s.nodes); s.nodes[unique]; i++ {
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	s.nodes[unique] = name != ""
	return unique
}

func (s *names) visible(name string) bool {
	for ; s != nil; s = s.outer {
		if s.taken[name] {
			return true
		}
	}
	return false
}

// add names a value as it is, or with a number when that name is visible already.
func (s *names) add(v *graph.Value, name string) string {
	unique := name
	for i := len(s.taken); unique == "" || s.visible(unique); i++ {
		unique = fmt.Sprintf("%s_%d", name, i)
	}
	s.taken[unique] = true
	if v != nil {
		s.of[v] = unique
	}
	return unique
}

func (w *writer) main(g *graph.Graph) (*message, error) {
	s := &names{taken: map[string]bool{}, of: map[*graph.Value]string{}, nodes: map[string]bool{}}
	for _, v := range g.Inputs {
		s.add(v, v.Name)
	}
	w.define(s, g)
	m := &message{}
	for _, c := range g.Constants() {
		if w.shared[c.Const()] && w.hoisted[c.Const()] == "" {
			w.hoisted[c.Const()] = s.of[c]
		}
	}
	var err error
	g.Walk(func(b *graph.Graph) {
		for _, c := range b.Constants() {
			if t := c.Const(); w.shared[t] && w.hoisted[t] == "" {
				w.hoisted[t] = s.add(nil, c.Name)
				err = w.initializer(m, w.hoisted[t], t)
			}
		}
	})
	if err != nil {
		return nil, err
	}
	return m, w.graph(m, g, s)
}

// define names the values that a graph computes or holds.
func (w *writer) define(s *names, g *graph.Graph) {
	for _, n := range g.Nodes {
		for _, v := range n.Out {
			if v != nil {
				s.add(v, v.Name)
			}
		}
	}
	for _, c := range g.Constants() {
		if name := w.hoisted[c.Const()]; name != "" && s.outer != nil {
			s.of[c] = name
			continue
		}
		s.add(c, c.Name)
	}
}

// graph writes the parts of a graph whose values are named into m.
func (w *writer) graph(m *message, g *graph.Graph, s *names) error {
	m.text(2, g.Name)
	for _, v := range g.Inputs[:g.NumFormals()] {
		m.nest(11, valueProto(s.of[v], v.Type))
	}
	outs, extra := w.outputs(g, s)
	for _, c := range g.Constants() {
		t := c.Const()
		if s.outer != nil && w.hoisted[t] != "" || extra[c] {
			continue
		}
		if err := w.initializer(m, s.of[c], t); err != nil {
			return fmt.Errorf("graph %q: constant %q: %w", g.Name, c.Name, err)
		}
	}
	if err := w.nodes(m, g, s); err != nil {
		return err
	}
	for _, o := range outs {
		if o.node != nil {
			m.nest(1, o.node)
		}
		m.nest(12, valueProto(o.name, o.typ))
	}
	return nil
}

func (w *writer) nodes(m *message, g *graph.Graph, s *names) error {
	for _, n := range g.Nodes {
		p, err := w.node(n, s)
		if err != nil {
			return err
		}
		m.nest(1, p)
		for _, v := range n.Out {
			if v != nil && w.o.Types {
				m.nest(13, valueProto(s.of[v], v.Type))
			}
		}
	}
	return nil
}

// output is an output of a graph in the file, and the node that it needs when the value itself
// cannot be one.
type output struct {
	name string
	typ  op.Type
	node *message
}

// outputs makes every output of the graph a distinct value that a node of the graph computes, as
// ONNX requires of bodies. An output that is a constant of this graph alone is written as a
// Constant node; the set returned holds these constants, which are then not written as
// initialisers. An output that is a value of an outer graph, or that is an output already, passes
// through an Identity node. Outputs that are inputs of the main graph stay as they are and keep
// their names.
func (w *writer) outputs(g *graph.Graph, s *names) ([]output, map[*graph.Value]bool) {
	var outs []output
	used := map[*graph.Value]bool{}
	constants := map[*graph.Value]bool{}
	captured := map[*graph.Value]bool{}
	for _, v := range g.Inputs[g.NumFormals():] {
		captured[v] = true
	}
	for _, v := range g.Outputs {
		o := output{name: s.of[v], typ: v.Type}
		switch {
		case used[v] || captured[v] || v.IsConst() && s.outer != nil && w.hoisted[v.Const()] != "":
			from := o.name
			o.name = s.add(nil, v.Name)
			o.node = identity(from, o.name)
		case v.IsConst() && !(s.outer == nil && w.hoisted[v.Const()] != ""):
			o.node = constantNode(o.name, v.Const())
			constants[v] = true
		}
		used[v] = true
		outs = append(outs, o)
	}
	return outs, constants
}

func identity(from, to string) *message {
	m := &message{}
	m.str(1, from)
	m.str(2, to)
	m.str(4, "Identity")
	return m
}

func constantNode(name string, t *tensor.Tensor) *message {
	m := &message{}
	m.str(2, name)
	m.str(4, "Constant")
	m.nest(5, attrProto(op.TensorAttr("value", t)))
	return m
}

func (w *writer) initializer(m *message, name string, t *tensor.Tensor) error {
	if err := t.Check(); err != nil {
		return err
	}
	p := tensorHeader(name, t)
	if w.ext == nil || len(t.Data) < minExternal {
		tensorBody(p, t)
		m.nest(5, p)
		return nil
	}
	p.nest(13, pair("location", w.ext.location))
	p.nest(13, pair("offset", fmt.Sprint(w.ext.place(t))))
	p.nest(13, pair("length", fmt.Sprint(len(t.Data))))
	p.int(14, 1)
	m.nest(5, p)
	return nil
}

// operands writes the names of what a node reads, captures left out, and gives.
func (s *names) operands(m *message, n *graph.Node) {
	ins := s.list(n.In[:len(n.In)-n.Captures])
	if len(ins) == 1 && ins[0] == "" {
		ins = nil
	}
	for _, name := range trimmed(ins) {
		m.str(1, name)
	}
	for _, name := range s.list(n.Out) {
		m.str(2, name)
	}
}

func (w *writer) node(n *graph.Node, s *names) (*message, error) {
	m := &message{}
	s.operands(m, n)
	m.text(3, s.node(n.Name))
	m.str(4, n.Type)
	m.text(7, n.Domain)
	if n.Domain == fusedDomain {
		overload, err := w.overload(n)
		if err != nil {
			return nil, err
		}
		m.str(8, overload)
	}
	for _, a := range n.Attrs {
		p, err := w.attr(n, a, s)
		if err != nil {
			return nil, fmt.Errorf("%v: attribute %q: %w", n, a.Name, err)
		}
		m.nest(5, p)
	}
	return m, nil
}

// list returns the names of values, "" for absent ones.
func (s *names) list(vs []*graph.Value) []string {
	out := make([]string, len(vs))
	for i, v := range vs {
		if v != nil {
			out[i] = s.of[v]
		}
	}
	return out
}

// attr writes an attribute; a body's captures become references to the outer names.
func (w *writer) attr(n *graph.Node, a op.Attr, s *names) (*message, error) {
	if a.Kind != op.AttrBody {
		if a.Tensor != nil {
			if err := a.Tensor.Check(); err != nil {
				return nil, err
			}
		}
		return attrProto(a), nil
	}
	b, ok := a.Body.(*graph.Graph)
	if !ok || b == nil || b.Captures != n.Captures {
		return nil, fmt.Errorf("%w: is no graph with %d captures", graph.ErrInvalid, n.Captures)
	}
	body, err := w.body(n, b, s)
	if err != nil {
		return nil, err
	}
	m := &message{}
	m.str(1, a.Name)
	m.int(20, int64(op.AttrBody))
	m.nest(6, body)
	return m, nil
}

func (w *writer) body(n *graph.Node, b *graph.Graph, s *names) (*message, error) {
	in := &names{outer: s, taken: map[string]bool{}, of: map[*graph.Value]string{},
		nodes: map[string]bool{}}
	for _, v := range b.Inputs[:b.NumFormals()] {
		in.add(v, v.Name)
	}
	for i, v := range b.Inputs[b.NumFormals():] {
		in.of[v] = s.of[n.In[len(n.In)-n.Captures+i]]
	}
	w.define(in, b)
	m := &message{}
	return m, w.graph(m, b, in)
}
