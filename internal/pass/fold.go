package pass

import (
	"context"
	"errors"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Constant folding.
//
//	f(c1, ..., cn)                =  its value
//	                                   (all inputs constant, f pure and without bodies)
//	v with Type.Elems [2, 3]      =  the constant [2, 3]
//	                                   (whatever computes v (Shape, Gather, Concat, ... on
//	                                    shapes))
//	EyeLike(x), x of known shape  =  its value
//	                                   (operators that read the shape of x only)
//	If(true){then, else}          =  then
//	                                   (see branch.go)
//
// Three limits bound folding. The outputs of one node may take maxFolded bytes, or as many as its
// inputs if that is more. All values together may take maxGrowth bytes more than the inputs of
// their nodes. The evaluation of one node may take maxFoldFlops operations; beyond that, loading
// would become slow for work that a fast kernel does quicker. A node whose evaluation fails stays
// in the graph, and fails when it runs, if it ever does.

const (
	maxFolded    = 64 << 20
	maxGrowth    = 1 << 30
	maxFoldFlops = 1 << 28
)

func startFold(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if p := s.inlineBranch(n); p != nil {
			return p
		}
		o, err := n.Op()
		if err != nil || !o.Pure(n.Call()) || s.dead(n) || s.ahead && s.besideBytes(n) {
			return nil
		}
		if p := s.foldElems(n); p != nil {
			return p
		}
		return s.foldNode(o, n)
	}
}

// besideBytes reports whether n makes floats of quantised weights for a product with what was
// quantised, too: pass qdq may make that a product of integers once it knows the shapes.
func (s *scope) besideBytes(n *graph.Node) bool {
	quantised := func(v *graph.Value) bool {
		d := from(v, "DequantizeLinear")
		return d != nil && !d.In[0].IsConst() && slices.Contains(byteTypes, d.In[0].Type.DType)
	}
	return is(n, "DequantizeLinear") && slices.ContainsFunc(s.users[n.Out[0]],
		func(m *graph.Node) bool { return slices.ContainsFunc(m.In, quantised) })
}

// foldElems replaces outputs whose elements the shape rules already tell.
func (s *scope) foldElems(n *graph.Node) *Patch {
	p := &Patch{}
	for _, v := range n.Out {
		if t := elems(v); t != nil && s.used(v) {
			p.Replace = append(p.Replace, Replacement{v, graph.NewConst(v.Name, t)})
		}
	}
	if p.Replace == nil {
		return nil
	}
	return p
}

// elems makes a tensor of the known elements of v, nil when they are not all known.
func elems(v *graph.Value) *tensor.Tensor {
	if v == nil {
		return nil
	}
	values, ok := v.Type.IntElems()
	shape, static := v.Type.Ints()
	if n, err := tensor.Count(shape); !ok || !static || err != nil || n != len(values) {
		return nil
	}
	switch v.Type.DType {
	case tensor.Int64:
		return tensor.From(convert[int64](values), shape...)
	case tensor.Int32:
		return tensor.From(convert[int32](values), shape...)
	case tensor.Bool:
		return tensor.From(truths(values), shape...)
	}
	return nil
}

func convert[T int32 | int64](values []int) []T {
	out := make([]T, len(values))
	for i, v := range values {
		out[i] = T(v)
	}
	return out
}

func truths(values []int) []bool {
	out := make([]bool, len(values))
	for i, v := range values {
		out[i] = v != 0
	}
	return out
}

// foldNode evaluates a node whose inputs are constants.
func (s *scope) foldNode(o *op.Op, n *graph.Node) *Patch {
	in := foldInputs(o, n)
	if in == nil || s.failed[n] || !s.worthFolding(o, n) {
		return nil
	}
	out, err := op.Run(s.ctx, o, n.Call(), in)
	if err != nil || len(out) < len(n.Out) || slices.ContainsFunc(out, isContainer) {
		s.failed[n] = true
		return nil
	}
	*s.room -= max(0, heldBytes(out)-heldBytes(in))
	p := &Patch{}
	for i, v := range n.Out {
		if s.used(v) && out[i] != nil {
			p.Replace = append(p.Replace, Replacement{v, graph.NewConst(v.Name, out[i])})
		}
	}
	return p
}

// Refuses reports whether a node reads constants alone and its operator does not take them
// (op.ErrInput), so that the graph fails whenever n runs. It evaluates n within the limits of
// folding, and says no of a node that is beyond them.
func Refuses(ctx context.Context, n *graph.Node) bool {
	o, err := n.Op()
	if err != nil {
		return false
	}
	in, room := foldInputs(o, n), maxGrowth
	if in == nil || !(&scope{room: &room}).worthFolding(o, n) {
		return false
	}
	_, err = op.Run(ctx, o, n.Call(), in)
	return errors.Is(err, op.ErrInput)
}

// isContainer tells sequences, optionals and maps, which are no constants.
func isContainer(t *tensor.Tensor) bool { return t != nil && t.DType.IsContainer() }

// heldBytes adds up the bytes of distinct tensors.
func heldBytes(ts []*tensor.Tensor) int {
	n := 0
	seen := map[*tensor.Tensor]bool{}
	for _, t := range ts {
		if t != nil && !seen[t] {
			n += len(t.Data)
			seen[t] = true
		}
	}
	return n
}

// foldInputs returns the constants that n reads, nil when it reads anything else. For an operator
// that reads only the shape of its input, it returns a tensor that has the shape and no elements.
func foldInputs(o *op.Op, n *graph.Node) []*tensor.Tensor {
	if len(n.Bodies()) > 0 {
		return nil
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, v := range n.In {
		switch {
		case v == nil:
		case v.IsConst():
			in[i] = v.Const()
		case o.Has(op.ShapeOnly) && i == 0 && v.Type.Static():
			shape, _ := v.Type.Ints()
			in[i] = &tensor.Tensor{DType: v.Type.DType, Shape: shape}
		default:
			return nil
		}
	}
	return in
}

// worthFolding bounds what folding n may cost. An input that is read twice counts once: otherwise
// Concat(x, x) would always be allowed, and a chain of them would double the value at each step
// without limit.
func (s *scope) worthFolding(o *op.Op, n *graph.Node) bool {
	var in, out int
	types := make([]op.Type, len(n.In))
	seen := map[*graph.Value]bool{}
	for i, v := range n.In {
		if v != nil {
			types[i] = v.Type
			if !seen[v] {
				in += byteCount(v.Type)
			}
			seen[v] = true
		}
	}
	outTypes := make([]op.Type, len(n.Out))
	for i, v := range n.Out {
		if v != nil {
			outTypes[i] = v.Type
			if !v.Type.Static() && in > 1<<20 { // data decides the size, such as of NonZero
				return false
			}
			out += byteCount(v.Type)
		}
	}
	if out > max(maxFolded, in) || out-in > *s.room {
		return false
	}
	return o.Flops == nil || o.Flops(n.Call(), types, outTypes) <= maxFoldFlops
}

// byteCount is the size of a value whose shape is known, 0 for others.
func byteCount(t op.Type) int {
	shape, ok := t.Ints()
	if !ok {
		return 0
	}
	n, err := tensor.ByteCount(t.DType, shape)
	if err != nil {
		return 0
	}
	return n
}
