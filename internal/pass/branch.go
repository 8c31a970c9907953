package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Branches that are certain, a part of constant folding.
//
//	If(true, captures){then, else}   =  the nodes of then
//	If(false, captures){then, else}  =  the nodes of else
//
// with their captures wired to what they stand for. The values of the branch get names that are
// unique in the graph, and its outputs take the names of the If's outputs. Of the types declared
// inside the branch only element types and fixed sizes are kept, since a symbol of a body may stand
// for another size outside.

// inlineBranch proposes the branch that an If with a constant condition takes, nil when n is none.
func (s *scope) inlineBranch(n *graph.Node) *Patch {
	if n.Type != "If" || n.Domain != "" {
		return nil
	}
	cond := n.In[0].Const()
	if cond == nil || cond.DType != tensor.Bool || cond.Len() != 1 {
		return nil
	}
	name := "else_branch"
	if cond.Data[0] != 0 {
		name = "then_branch"
	}
	body, ok := n.Attrs.Body(name).(*graph.Graph)
	if !ok || len(body.Inputs) != n.Captures || len(body.Outputs) != len(n.Out) {
		return nil
	}
	return splice(n, body.Clone())
}

// splice proposes the nodes of b, whose inputs are all captures of n, in place of n.
func splice(n *graph.Node, b *graph.Graph) *Patch {
	wire := map[*graph.Value]*graph.Value{}
	for i, v := range b.Inputs {
		wire[v] = n.In[len(n.In)-n.Captures+i]
	}
	p := &Patch{Insert: b.Nodes}
	for _, m := range b.Nodes {
		exchange(m.In, wire)
		for _, v := range m.Out {
			if v != nil {
				v.Type = forget(v.Type)
			}
		}
	}
	exchange(b.Outputs, wire)
	for i, v := range n.Out {
		if v != nil {
			p.Replace = append(p.Replace, Replacement{v, b.Outputs[i]})
		}
	}
	return p
}

// forget keeps the element type and the fixed sizes of a declared type.
func forget(t op.Type) op.Type {
	f := op.Type{DType: t.DType, Ranked: t.Ranked}
	for _, d := range t.Shape {
		if _, ok := d.Int(); !ok {
			d = op.Unknown()
		}
		f.Shape = append(f.Shape, d)
	}
	return f
}
