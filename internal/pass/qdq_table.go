package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Whatever is computed element by element from one quantised value, and quantised again, is a table
// of 256 bytes.
//
//	Q(f(DQ(x)))                   =  weir:Table(x, t)
//	                                   (f any elementwise operators with constants of one element)
//	Q(g(DQ(x), DQ(Table(x, t))))  =  weir:Table(x, t')
//	                                   (and so on through tables, and Rescale by one scale)
//
// The table holds what the operators' definitions make of each byte.

// tabled proposes a table in place of n, which quantises; nil where it computes something else.
func (s *scope) tabled(n *graph.Node) *Patch {
	f := byteFunction{scope: s, shape: n.Out[0], values: map[*graph.Value]*tensor.Tensor{},
		left: maxTabled}
	t := f.node(n)
	if t == nil || f.root == nil {
		return nil
	}
	table := &tensor.Tensor{DType: t.DType, Shape: []int{256}, Data: t.Data}
	return instead(n, operator(n, op.FusedDomain, "Table", 1, nil, f.root,
		graph.NewConst(n.Name+"_table", table)))
}

// maxTabled bounds the operators that one table stands for.
const maxTabled = 32

// byteFunction evaluates values that depend on one value of bytes, the root, and constants, for all
// bytes that the root may hold.
type byteFunction struct {
	*scope
	shape  *graph.Value // that all values but constants must have the shape of
	root   *graph.Value
	values map[*graph.Value]*tensor.Tensor
	left   int
}

// value returns what v is for each byte of the root; nil where it is no function of it.
func (f *byteFunction) value(v *graph.Value) *tensor.Tensor {
	if t := f.values[v]; t != nil {
		return t
	}
	if v.IsConst() {
		return oneElement(v.Const())
	}
	if of := v.Type; !of.Ranked || !f.shape.Type.Ranked ||
		!slices.EqualFunc(of.Shape, f.shape.Type.Shape, op.Dim.Equal) {
		return nil
	}
	var t *tensor.Tensor
	m := producer(v)
	switch d := v.Type.DType; {
	case bytewise(m):
		t = f.node(m)
	case d == tensor.Uint8 || d == tensor.Int8:
		t = f.bytes(v)
	case m != nil && len(m.Out) == 1 && d == tensor.Float32:
		t = f.node(m)
	}
	f.values[v] = t
	return t
}

// oneElement is a constant of one element in a shape that broadcasts to any; nil for others.
func oneElement(t *tensor.Tensor) *tensor.Tensor {
	if t.Len() != 1 {
		return nil
	}
	return &tensor.Tensor{DType: t.DType, Shape: make([]int, 0), Data: t.Data}
}

// bytewise reports whether m maps each byte of one value to one of another.
func bytewise(m *graph.Node) bool {
	if m == nil || m.Domain != op.FusedDomain {
		return false
	}
	return m.Type == "Table" || m.Type == "Rescale" && m.In[1].IsConst() && m.In[1].Const().
		Len() == 1
}

// bytes makes v the root, unless another value is.
func (f *byteFunction) bytes(v *graph.Value) *tensor.Tensor {
	if f.root != nil && f.root != v {
		return nil
	}
	f.root = v
	all := make([]byte, 256)
	for i := range all {
		all[i] = byte(i)
	}
	// Of the rank of v, because operators have axes as attributes.
	shape := slices.Repeat([]int{1}, max(1, len(v.Type.Shape)))
	shape[len(shape)-1] = len(all)
	return &tensor.Tensor{DType: v.Type.DType, Shape: shape, Data: all}
}

// node evaluates a node whose operands are functions of the root.
func (f *byteFunction) node(n *graph.Node) *tensor.Tensor {
	o, err := n.Op()
	if f.left--; f.left < 0 || err != nil || f.failed[n] || !bytewise(n) && !quantising(n) &&
		o.Traits&op.Elementwise == 0 {
		return nil
	}
	in := make([]*tensor.Tensor, len(n.In))
	for i, v := range n.In {
		if v == nil {
			continue
		}
		if bytewise(n) && i > 0 {
			in[i] = v.Const()
			continue
		}
		if in[i] = f.value(v); in[i] == nil {
			return nil
		}
	}
	out, err := op.Run(f.ctx, o, n.Call(), in)
	if err != nil || len(out) != 1 || out[0] == nil || out[0].Len() != 256 {
		return nil
	}
	return out[0]
}

// quantising reports whether n is a QuantizeLinear or DequantizeLinear of bytes on one scale.
func quantising(n *graph.Node) bool {
	if !is(n, "QuantizeLinear") && !is(n, "DequantizeLinear") {
		return false
	}
	g, ok := gridOf(n)
	return ok && g.scale.Const().Len() == 1
}
