package graph

import (
	"fmt"

	"github.com/weirgpu/weir/internal/op"
)

// Check verifies the invariants that every pass keeps and every reader establishes:
//
//   - inputs, constants and node outputs have distinct, non-empty names; a value has one
//     definition;
//   - nodes are in topological order, and each value knows its producer and index;
//   - every operator has a row in the table and takes that many operands;
//   - a body has as many captures as its node, and is itself sound.
//
// The error is of kind [ErrInvalid] or op.ErrUnsupported and names the graph, node and operator.
func (g *Graph) Check() error {
	c := checker{g: g, defined: map[*Value]bool{}, names: map[string]*Value{}}
	if err := c.inputs(); err != nil {
		return err
	}
	for _, n := range g.Nodes {
		if err := c.node(n); err != nil {
			return err
		}
	}
	for i, v := range g.Outputs {
		if v == nil {
			return c.errorf("output %d is nil", i)
		}
		if err := c.use(v); err != nil {
			return c.errorf("output %q: %v", v.Name, err)
		}
	}
	return nil
}

func (c *checker) inputs() error {
	for i, v := range c.g.Inputs {
		if v == nil {
			return c.errorf("input %d is nil", i)
		}
		if v.Producer != nil {
			return c.errorf("input %q has a producer, %v", v.Name, v.Producer)
		}
		if err := c.define(v); err != nil {
			return err
		}
	}
	if n := c.g.Captures; n < 0 || n > len(c.g.Inputs) {
		return c.errorf("%d captures of %d inputs", n, len(c.g.Inputs))
	}
	return nil
}

type checker struct {
	g       *Graph
	defined map[*Value]bool
	names   map[string]*Value
}

func (c *checker) errorf(format string, args ...any) error {
	return fmt.Errorf("graph %q: %w: %s", c.g.Name, ErrInvalid, fmt.Sprintf(format, args...))
}

func (c *checker) define(v *Value) error {
	if v.Name == "" {
		return c.errorf("a value has no name")
	}
	if c.defined[v] {
		return c.errorf("value %q is defined twice", v.Name)
	}
	if w := c.names[v.Name]; w != nil && w != v {
		return c.errorf("two values are named %q", v.Name)
	}
	c.defined[v], c.names[v.Name] = true, v
	return nil
}

func (c *checker) use(v *Value) error {
	if c.defined[v] {
		return nil
	}
	if !v.IsConst() {
		return fmt.Errorf("value %q is used before it is computed", v.Name)
	}
	if err := v.Const().Check(); err != nil {
		return fmt.Errorf("constant %q: %w", v.Name, err)
	}
	if d := v.Const().DType; d.IsContainer() {
		return fmt.Errorf("constant %q is a %v; constants are tensors", v.Name, d)
	}
	return c.define(v)
}

// operands checks what a node reads: what its operator requires and the captures must be there.
func (c *checker) operands(n *Node, o *op.Op) error {
	for i, v := range n.In {
		if v == nil {
			if o.Requires(i) || i >= len(n.In)-n.Captures {
				return c.errorf("%v: input %d is required", n, i)
			}
			continue
		}
		if err := c.use(v); err != nil {
			return c.errorf("%v: input %d: %v", n, i, err)
		}
	}
	return nil
}

func (c *checker) node(n *Node) error {
	o, err := n.Op()
	if err != nil {
		return fmt.Errorf("graph %q: %w", c.g.Name, err)
	}
	if n.Captures < 0 || n.Captures > len(n.In) {
		return c.errorf("%v: %d captures of %d inputs", n, n.Captures, len(n.In))
	}
	if err := o.Check(n.Call()); err != nil {
		return fmt.Errorf("graph %q: %v: %w", c.g.Name, n, err)
	}
	if err := c.operands(n, o); err != nil {
		return err
	}
	for _, b := range n.Bodies() {
		if b.Captures != n.Captures {
			return c.errorf("%v: body %q takes %d captures, the node has %d", n, b.Name, b.Captures,
				n.Captures)
		}
		if err := b.Check(); err != nil {
			return fmt.Errorf("graph %q: %v: %w", c.g.Name, n, err)
		}
	}
	return c.outputs(n)
}

func (c *checker) outputs(n *Node) error {
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		if v.Producer != n || v.Index != i {
			return c.errorf("%v: output %d, %q, does not know its producer", n, i, v.Name)
		}
		if err := c.define(v); err != nil {
			return err
		}
	}
	return nil
}
