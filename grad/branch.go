package grad

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// bodies carries out the rule of an operator that runs sub-graphs.
func (r *reverse) bodies(n *graph.Node) error {
	if n.Type == "If" {
		return r.branches(n)
	}
	return r.unrolled(n)
}

// branches adds to the gradients of what the branches of an If capture. They are those of another
// If with the same condition, whose branches compute the gradients of the branches of n:
//
//	d captures = If(condition, captures, d results){then: backward of then, else: of else}
func (r *reverse) branches(n *graph.Node) error {
	if c := n.In[0].Type; c.Const == nil && r.varied[n.In[0]] {
		return fmt.Errorf("%w of the condition", op.ErrNoGradient)
	}
	from := len(n.In) - n.Captures
	m := &graph.Node{Name: r.fresh(n.Name + "_gradient"), Type: n.Type, Version: n.Version,
		In: append([]*graph.Value{n.In[0]}, n.In[from:]...)}
	var by, of []int // captures and results, by number
	for i, v := range n.In[from:] {
		if r.varied[v] {
			by = append(by, i)
		}
	}
	for i, v := range n.Out {
		if r.given(v) {
			of, m.In = append(of, i), append(m.In, r.of[v])
		}
	}
	m.Captures = len(m.In) - 1
	for _, name := range []string{"then_branch", "else_branch"} {
		b, err := r.branch(n, name, by, of)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		m.Attrs = append(m.Attrs, op.BodyAttr(name, b))
	}
	for k := range by {
		m.Out = append(m.Out, &graph.Value{Name: r.fresh(m.Name), Producer: m, Index: k})
	}
	if err := r.make(m); err != nil {
		return err
	}
	for k, i := range by {
		v := n.In[from+i]
		m.Out[k].Type = v.Type
		m.Out[k].Type.Elems, m.Out[k].Type.Const = nil, nil
		if err := r.add(v, m.Out[k]); err != nil {
			return err
		}
	}
	return nil
}

// branch is the backward half of a branch of an If: its captures are those of the branch, and the
// gradients of some results; its outputs are the gradients of some captures.
func (r *reverse) branch(n *graph.Node, name string, by, of []int) (*graph.Graph, error) {
	body, ok := n.Attrs.Body(name).(*graph.Graph)
	if !ok || body.NumFormals() != 0 || len(body.Inputs) != n.Captures ||
		len(body.Outputs) != len(n.Out) {
		return nil, fmt.Errorf("%w: the branch does not fit", op.ErrInput)
	}
	n.SeedCaptures(body)
	b := body.Clone()
	if b.Opsets == nil {
		b.Opsets = r.g.Opsets
	}
	b.InferTypes()
	var o Objective
	for _, i := range by {
		o.By = append(o.By, b.Inputs[i])
	}
	for _, i := range of {
		y := b.Outputs[i]
		seed := &graph.Value{Name: r.fresh(n.Name + "_seed"), Type: y.Type}
		seed.Type.Elems, seed.Type.Const = nil, nil
		o.Of, o.Seeds = append(o.Of, y), append(o.Seeds, seed)
		b.Inputs = append(b.Inputs, seed)
		b.Captures++
	}
	var err error
	if b.Outputs, err = Backward(b, o); err != nil {
		return nil, err
	}
	return b, b.Sort()
}
