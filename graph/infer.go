package graph

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// InferTypes sets the Type of every value that nodes compute, from the types of inputs and
// constants, by the operators' shape rules. A dimension that no rule can tell becomes a symbol
// named after its value. Types that were known before fill in what rules leave open, and their
// element types are checked against what rules tell. Values inside bodies are typed as far as the
// rules allow. A rule that fails there is no error, since the body may never run with these types.
//
// In a graph that comes straight from a file the types serve only to be read by people, since its
// dimension names and value_info may be wrong. [Graph.Specialize] makes a graph whose types hold
// for every run.
func (g *Graph) InferTypes() error {
	if err := g.inferNodes(); err != nil {
		return err
	}
	for _, n := range g.Nodes {
		n.inferBodies(maxTypedBodies)
	}
	return nil
}

// maxTypedBodies is the depth of nesting down to which bodies are typed. The shape rule of a node
// types a copy of its body with everything nested in it, so that each further level costs as much
// again as all levels together. Models nest at most four deep.
const maxTypedBodies = 4

// inferNodes types what nodes compute, and leaves the inside of bodies alone.
func (g *Graph) inferNodes() error {
	for _, n := range g.Nodes {
		if err := n.infer(); err != nil {
			return fmt.Errorf("graph %q: %w", g.Name, err)
		}
	}
	return nil
}

// inferBodies types the values in the node's bodies from the types of the values that they capture.
// It descends depth levels of nested bodies.
func (n *Node) inferBodies(depth int) {
	for _, b := range n.Bodies() {
		if depth == 0 {
			return
		}
		n.SeedCaptures(b)
		for _, inner := range b.Nodes {
			_ = inner.infer()
			inner.inferBodies(depth - 1)
		}
	}
}

// SeedCaptures gives the captures of one of the node's bodies the types of the values that they
// stand for, and reports whether that says anything new. A body's formal inputs keep their declared
// types, since a loop may change them from one iteration to the next.
func (n *Node) SeedCaptures(b *Graph) bool {
	changed := false
	outer, inner := n.In[len(n.In)-n.Captures:], b.Inputs[b.NumFormals():]
	for i := range min(len(outer), len(inner)) {
		if outer[i] == nil {
			continue
		}
		t := outer[i].Type
		t.Const = nil // an input with a constant would be a constant
		if !inner[i].Type.Identical(t) {
			inner[i].Type = t
			changed = true
		}
	}
	return changed
}

// InferTypes sets the types of the node's outputs from those of its inputs, as [Graph.InferTypes]
// does for all nodes. On an error the types stay as they were.
func (n *Node) InferTypes() error { return n.infer() }

// inTypes returns the types of the operands, and which are there.
func (n *Node) inTypes() (in []op.Type, present []bool) {
	in, present = make([]op.Type, len(n.In)), make([]bool, len(n.In))
	for i, v := range n.In {
		if v != nil {
			in[i], present[i] = v.Type, true
		}
	}
	return in, present
}

func (n *Node) infer() error {
	o, err := n.Op()
	if err != nil {
		return err
	}
	in, present := n.inTypes()
	out, err := op.InferTypes(o, n.Call(), in, present)
	if err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		t, err := merge(v, out[i])
		if err != nil {
			return fmt.Errorf("%v: output %d: %w", n, i, err)
		}
		v.Type = t
	}
	return nil
}

// merge joins what a rule tells of a value with what was declared of it.
func merge(v *Value, t op.Type) (op.Type, error) {
	was := v.Type
	if !compatible(was, t) {
		return op.Type{}, fmt.Errorf("%w: value %q is declared %v, the operator gives %v",
			ErrInvalid, v.Name, was, t)
	}
	if t.DType == tensor.Undefined {
		t.DType, t.Key, t.Elem = was.DType, was.Key, was.Elem
	}
	if t.DType.IsContainer() {
		return fill(was, t), nil
	}
	if !t.Ranked && was.Ranked {
		t.Ranked, t.Shape = true, append([]op.Dim{}, was.Shape...)
	}
	t.Shape = slices.Clone(t.Shape)
	for i, d := range t.Shape {
		if d.IsUnknown() && was.Ranked && len(was.Shape) == len(t.Shape) {
			t.Shape[i] = was.Shape[i]
		}
		if t.Shape[i].IsUnknown() {
			t.Shape[i] = place(v.Name, i)
		}
	}
	return t, nil
}

// compatible reports whether one value may have both types, as far as their element types tell.
func compatible(a, b op.Type) bool {
	if a.DType == tensor.Undefined || b.DType == tensor.Undefined {
		return true
	}
	if a.DType != b.DType ||
		a.Key != b.Key && a.Key != tensor.Undefined && b.Key != tensor.Undefined {
		return false
	}
	return a.Elem == nil || b.Elem == nil || compatible(*a.Elem, *b.Elem)
}

// fill completes the inferred type t of a container with the declared type was. It takes only the
// types of elements and keys from was, and no shapes: exporters write there the shape of one of the
// values, and the others may have different ones.
func fill(was, t op.Type) op.Type {
	if t.DType == tensor.Undefined {
		t.DType = was.DType
	}
	if t.Key == tensor.Undefined {
		t.Key = was.Key
	}
	if was.Elem == nil {
		return t
	}
	elem := was.Elem.TypeOnly()
	if t.Elem != nil {
		elem = fill(*was.Elem, *t.Elem)
	}
	t.Elem = &elem
	return t
}

// Infer types a body for the given input types and returns the types of its outputs. Like
// [Graph.Specialize] it ignores the declared sizes of computed values. It implements op.Body.
func (g *Graph) Infer(in []op.Type) ([]op.Type, error) {
	c := g.Clone()
	c.forgetShapes()
	if len(in) != len(c.Inputs) {
		return nil, fmt.Errorf("graph %q: %w: takes %d inputs, given %d", g.Name, ErrInvalid,
			len(c.Inputs), len(in))
	}
	for i, t := range in {
		c.Inputs[i].Type = t
	}
	if err := c.inferNodes(); err != nil {
		return nil, err
	}
	out := make([]op.Type, len(c.Outputs))
	for i, v := range c.Outputs {
		out[i] = v.Type
	}
	return out, nil
}
