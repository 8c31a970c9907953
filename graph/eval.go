package graph

import (
	"context"
	"fmt"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Eval computes the outputs from the inputs (one an input of g, in order) by the reference
// evaluation of each node: slow, allocating, and the definition that every plan is tested against.
// Intermediate tensors are dropped after their last use. Outputs may alias inputs or constants. ctx
// is honoured between nodes. It implements op.Body.
func (g *Graph) Eval(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	if len(in) != len(g.Inputs) {
		return nil, fmt.Errorf("graph %q: %w: takes %d inputs, given %d", g.Name, op.ErrInput,
			len(g.Inputs), len(in))
	}
	out, err := g.evalNodes(ctx, in)
	if err != nil {
		return nil, fmt.Errorf("graph %q: %w", g.Name, err)
	}
	return out, nil
}

// evalNodes evaluates node after node. It lets go of each value once none reads it any more.
func (g *Graph) evalNodes(ctx context.Context, in []*tensor.Tensor) ([]*tensor.Tensor, error) {
	env := make(map[*Value]*tensor.Tensor, len(g.Nodes)+len(in))
	for i, v := range g.Inputs {
		env[v] = in[i]
	}
	ctx, end := op.Frame(ctx)
	defer end()
	last := g.lastUse()
	for i, n := range g.Nodes {
		if err := op.Pass(ctx); err != nil {
			return nil, fmt.Errorf("%v: %w", n, err)
		}
		if err := n.eval(ctx, env); err != nil {
			return nil, err
		}
		for _, v := range n.In {
			if k, ok := last[v]; ok && k == i {
				delete(env, v)
			}
		}
	}
	return values(env, g.Outputs)
}

// values returns what has been computed of vs, nil for nil.
func values(env map[*Value]*tensor.Tensor, vs []*Value) ([]*tensor.Tensor, error) {
	out := make([]*tensor.Tensor, len(vs))
	for i, v := range vs {
		if v == nil {
			continue
		}
		if out[i] = lookup(env, v); out[i] == nil {
			return nil, fmt.Errorf("%w: value %q was not computed", ErrInvalid, v.Name)
		}
	}
	return out, nil
}

// lastUse maps each value to the index of the last node that reads it; graph outputs are not in the
// map.
func (g *Graph) lastUse() map[*Value]int {
	last := make(map[*Value]int, len(g.Nodes))
	for i, n := range g.Nodes {
		for _, v := range n.In {
			last[v] = i
		}
	}
	for _, v := range g.Outputs {
		delete(last, v)
	}
	return last
}

func lookup(env map[*Value]*tensor.Tensor, v *Value) *tensor.Tensor {
	if t := env[v]; t != nil {
		return t
	}
	return v.Const()
}

func (n *Node) eval(ctx context.Context, env map[*Value]*tensor.Tensor) error {
	o, err := n.Op()
	if err != nil {
		return err
	}
	in, err := values(env, n.In)
	if err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	out, err := op.Run(ctx, o, n.Call(), in)
	if err != nil {
		return fmt.Errorf("%v: %w", n, err)
	}
	for i, v := range n.Out {
		if v == nil {
			continue
		}
		if i >= len(out) || out[i] == nil {
			return fmt.Errorf("%v: %w: output %d was not computed", n, ErrInvalid, i)
		}
		env[v] = out[i]
	}
	return nil
}
