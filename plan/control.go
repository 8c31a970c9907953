package plan

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/tensor"
)

// control is a kernel of an operator with bodies, each a plan of its own. The bodies' arenas lie in
// the step's scratch, their packed weights in the step's, one after the other, and captured values
// are read where the enclosing plan has them.
type control interface {
	compute.Kernel
	// bodies lists the plans.
	bodies() []*Plan
	// flops estimates the operations of one run.
	flops() int64
}

// control returns a kernel for operators with bodies that are worth planning, nil for all others,
// which run by the reference evaluation.
func (c *compiler) control(n *graph.Node) (control, error) {
	if n.Domain != "" || c.opts.Target == nil || c.plan.remote {
		return nil, nil
	}
	switch n.Type {
	case "If":
		return c.branches(n)
	case "Loop":
		return c.loop(n), nil
	case "Scan":
		return c.scan(n), nil
	}
	return nil, nil
}

// body plans a body of n for formal inputs of the given types.
func (c *compiler) body(n *graph.Node, body *graph.Graph, formals []op.Type) (*Plan, error) {
	b := body.Clone()
	for i, t := range formals {
		b.Inputs[i].Type = withoutContents(t)
	}
	for i, v := range n.In[len(n.In)-n.Captures:] {
		b.Inputs[len(formals)+i].Type = withoutContents(v.Type)
	}
	b, err := b.Specialize(nil)
	if err != nil {
		return nil, err
	}
	if _, err := pass.Run(c.ctx, b, c.opts.Passes); err != nil {
		return nil, err
	}
	return compile(c.ctx, b, c.opts, true)
}

// withoutContents is t without its constant, which is known only outside a body. The known elements
// stay: they are known inside it, too.
func withoutContents(t op.Type) op.Type {
	t.Const = nil
	return t
}

// packedSpans returns where the packed weights of each plan lie in those of a step.
func packedSpans(plans []*Plan) (spans []span, total int64) {
	for _, p := range plans {
		spans = append(spans, span{total, p.PackedBytes})
		total += p.PackedBytes
	}
	return spans, total
}

// packBodies packs the weights of each plan.
func packBodies(plans []*Plan, dst []byte) {
	spans, _ := packedSpans(plans)
	for i, p := range plans {
		if p.Pack(spans[i].of(dst), PackOptions{}) != nil {
			panic("plan: packed span shorter than its plan")
		}
	}
}

// bindBody binds the plan of a body to memory whose sizes came from it.
func bindBody(p *Plan, arena, packed []byte, captures []*tensor.Tensor) *Program {
	r, err := p.bind(arena, packed, nil, captures)
	if err != nil {
		panic(err)
	}
	return r
}

// iteration runs a body once, after passing the gate. What the run allocates beside its arena is
// garbage at its end, since outputs of bodies that are planned lie in the arena.
func (r *Program) iteration(x *compute.Exec) error {
	if err := x.Pass(); err != nil {
		return err
	}
	held := x.Dynamic
	if err := r.Run(x); err != nil {
		return err
	}
	if x.Dynamic > held {
		x.Release(x.Dynamic - held)
	}
	return nil
}

// truth reads a condition.
func truth(n *graph.Node, t *tensor.Tensor) (bool, error) {
	if t.DType != tensor.Bool || len(t.Data) != 1 {
		return false, n.Call().Errorf(op.ErrInput, "the condition is %v, want one bool", t)
	}
	return t.Data[0] != 0, nil
}
