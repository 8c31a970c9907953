package onnx

import (
	"fmt"

	"github.com/weirgpu/weir/internal/op"
)

// frame is one call of a model-local function on the way to a node.
type frame struct {
	fn     *functionMessage
	parent *frame
	depth  int
}

// expand replaces calls of model-local functions by the functions' nodes, recursively, and appends
// all nodes to out.
func (b *builder) expand(nodes []*nodeMessage, out []*nodeMessage) ([]*nodeMessage, error) {
	for _, n := range nodes {
		if err := b.spend(1 + len(n.in) + len(n.out) + len(n.attrs)); err != nil {
			return nil, err
		}
		fn := b.function(n)
		if fn == nil {
			out = append(out, n)
			continue
		}
		body, err := b.call(n, fn)
		if err != nil {
			return nil, inNode(n, err)
		}
		if out, err = b.expand(body, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// function finds the model-local function that a node calls. weir's own operators come with a
// function for other runtimes, which weir itself does not need.
func (b *builder) function(n *nodeMessage) *functionMessage {
	fn := b.model.functions[functionKey{n.domain, n.op, n.overload}]
	if fn != nil && n.domain == fusedDomain {
		if _, err := op.Lookup(n.domain, n.op, 1); err == nil {
			return nil
		}
	}
	return fn
}

// enter makes the frame of a call and refuses recursion.
func enter(n *nodeMessage, fn *functionMessage) (*frame, error) {
	fr := &frame{fn: fn, parent: n.frame, depth: 1}
	if n.frame != nil {
		fr.depth = n.frame.depth + 1
	}
	for f := n.frame; f != nil; f = f.parent {
		if f.fn == fn {
			return nil, formatErr("function %q calls itself", fn.key.name)
		}
	}
	if fr.depth > maxDepth {
		return nil, formatErr("function calls nest deeper than %d", maxDepth)
	}
	return fr, nil
}

// call returns the nodes of a function with the operands and attributes of one call put in.
func (b *builder) call(n *nodeMessage, fn *functionMessage) ([]*nodeMessage, error) {
	fr, err := enter(n, fn)
	if err != nil {
		return nil, err
	}
	if len(n.in) > len(fn.inputs) || len(n.out) > len(fn.outputs) {
		return nil, formatErr(
			"function %q takes %d inputs and gives %d outputs, the call has %d and %d", fn.key.name,
			len(fn.inputs), len(fn.outputs), len(n.in), len(n.out))
	}
	prefix := n.name
	if prefix == "" {
		prefix = fn.key.name
	}
	c := &cloner{b: b, frame: fr, prefix: prefix + "/", attrs: arguments(n, fn),
		names: map[string]string{}}
	for i, formal := range fn.inputs {
		c.names[formal] = ""
		if i < len(n.in) {
			c.names[formal] = n.in[i]
		}
	}
	aliases := c.results(n, fn)
	nodes, err := c.nodes(fn.nodes)
	return append(nodes, aliases...), err
}

// results renames the outputs of the function to those of the call. An output that is an input of
// the function, or that the function names twice, cannot be renamed; for each of these, results
// returns a node that copies the value.
func (c *cloner) results(n *nodeMessage, fn *functionMessage) []*nodeMessage {
	var aliases []*nodeMessage
	for i, formal := range fn.outputs {
		if i >= len(n.out) || n.out[i] == "" {
			continue
		}
		if from, ok := c.names[formal]; ok {
			aliases = append(aliases,
				&nodeMessage{op: "Identity", in: []string{from}, out: []string{n.out[i]},
					frame: n.frame})
			continue
		}
		c.names[formal] = n.out[i]
	}
	return aliases
}

// arguments joins the attributes of a call with the function's defaults.
func arguments(n *nodeMessage, fn *functionMessage) map[string]*attrMessage {
	args := map[string]*attrMessage{}
	for _, a := range fn.defaults {
		args[a.name] = a
	}
	for _, a := range n.attrs {
		args[a.name] = a
	}
	return args
}

// cloner copies the nodes of a function for one call. Each nested graph has a cloner of its own for
// its names; names that it does not define are those of its parent.
type cloner struct {
	b      *builder
	frame  *frame
	prefix string
	attrs  map[string]*attrMessage
	parent *cloner
	names  map[string]string
}

// rename gives the name in the calling graph of a value of the function.
func (c *cloner) rename(name string) string {
	if name == "" {
		return ""
	}
	top := c
	for s := c; s != nil; s = s.parent {
		if to, ok := s.names[name]; ok {
			return to
		}
		top = s
	}
	return top.own(name)
}

// own makes a new name for a value that this graph defines.
func (c *cloner) own(name string) string {
	if to, ok := c.names[name]; ok || name == "" {
		return to
	}
	to := c.b.fresh(c.prefix + name)
	c.names[name] = to
	return to
}

func (c *cloner) renameAll(names []string) []string {
	out := make([]string, len(names))
	for i, n := range names {
		out[i] = c.rename(n)
	}
	return out
}

func (c *cloner) nodes(nodes []*nodeMessage) ([]*nodeMessage, error) {
	out := make([]*nodeMessage, 0, len(nodes))
	for _, n := range nodes {
		if err := c.b.spend(1 + len(n.in) + len(n.out) + len(n.attrs)); err != nil {
			return nil, err
		}
		m := &nodeMessage{op: n.op, domain: n.domain, overload: n.overload, frame: c.frame,
			in: c.renameAll(n.in), out: c.renameAll(n.out)}
		if n.name != "" {
			m.name = c.prefix + n.name
		}
		for _, a := range n.attrs {
			attr, err := c.attr(a)
			if err != nil {
				return nil, inNode(n, err)
			}
			if attr != nil {
				m.attrs = append(m.attrs, attr)
			}
		}
		out = append(out, m)
	}
	return out, nil
}

// attr copies an attribute. An attribute that refers to one of the function's takes the value of
// that one, and is left out when that one has a value neither from the call nor by default.
func (c *cloner) attr(a *attrMessage) (*attrMessage, error) {
	if a.ref != "" {
		arg := c.attrs[a.ref]
		if arg == nil {
			return nil, nil
		}
		if a.kind != 0 && a.kind != arg.kind {
			return nil, formatErr("attribute %q has type %d, its argument %q has type %d", a.name,
				a.kind, a.ref, arg.kind)
		}
		v := *arg
		v.name = a.name
		return &v, nil
	}
	if a.g == nil {
		return a, nil
	}
	g, err := c.graph(a.g)
	if err != nil {
		return nil, fmt.Errorf("attribute %q: %w", a.name, err)
	}
	v := *a
	v.g = g
	return &v, nil
}

// declare copies to out the inputs and constants that g defines, under new names, and makes new
// names for the outputs of its nodes.
func (c *cloner) declare(out, g *graphMessage) {
	for _, v := range g.inputs {
		out.inputs = append(out.inputs, &valueMessage{c.own(v.name), v.typ})
	}
	for _, t := range g.initializers {
		out.initializers = append(out.initializers, &tensorMessage{name: c.own(t.name), of: t})
	}
	for _, t := range g.sparse {
		u := &tensorMessage{name: c.own(t.values.name), of: t.values}
		out.sparse = append(out.sparse, &sparseMessage{values: u, of: t})
	}
	for _, n := range g.nodes {
		for _, name := range n.out {
			c.own(name)
		}
	}
}

// graph copies a sub-graph of a function with all of its own names made new, so that none hides a
// name of the caller.
func (c *cloner) graph(g *graphMessage) (*graphMessage, error) {
	in := &cloner{b: c.b, frame: c.frame, prefix: c.prefix, attrs: c.attrs, parent: c,
		names: map[string]string{}}
	out := &graphMessage{name: g.name}
	if err := c.b.spend(len(g.inputs) + len(g.outputs) + len(g.hints) + len(g.initializers) +
		len(g.sparse)); err != nil {
		return nil, err
	}
	in.declare(out, g)
	var err error
	if out.nodes, err = in.nodes(g.nodes); err != nil {
		return nil, err
	}
	for _, v := range g.outputs {
		out.outputs = append(out.outputs, &valueMessage{in.rename(v.name), v.typ})
	}
	for _, v := range g.hints {
		out.hints = append(out.hints, &valueMessage{in.rename(v.name), v.typ})
	}
	return out, nil
}
