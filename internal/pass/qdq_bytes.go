package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// addBytes proposes a sum of bytes in place of n, which quantises m, when m adds two quantised
// values of one shape.
func addBytes(n, m *graph.Node, out qGrid) *Patch {
	if !is(m, "Add") || !sameShape(m.In[0], m.Out[0]) || !sameShape(m.In[1], m.Out[0]) {
		return nil
	}
	in := make([]*graph.Value, 0, 8)
	for _, v := range m.In {
		x, grid, ok := dequantized(v)
		if !ok || len(in) > 0 && x.Type.DType != in[0].Type.DType {
			return nil
		}
		in = append(in, x, grid.scale, grid.zero)
	}
	return instead(n, operator(n, op.FusedDomain, "QLinearAdd", 1, nil,
		append(in, out.scale, out.zero)...))
}

// dequantized returns the bytes that a value stands for, on one constant scale; false when it is no
// such value.
func dequantized(v *graph.Value) (x *graph.Value, g qGrid, ok bool) {
	d := from(v, "DequantizeLinear")
	if d == nil {
		return nil, g, false
	}
	g, ok = gridOf(d)
	return d.In[0], g, ok && g.scale.Const().Len() == 1
}

// elementwise proposes one operator from bytes to bytes in place of n, which quantises m, when m
// computes each element from one element of a quantised value. It prefers a Rescale, which a
// convolution before it can take in, unless the operator before it is bytewise itself: then it
// prefers a Table, which can take that operator in.
func (s *scope) elementwise(n, m *graph.Node, out qGrid) *Patch {
	p := s.rescaled(n, m, out)
	if p != nil && !bytewise(producer(p.Insert[0].In[0])) {
		return p
	}
	if t := s.tabled(n); t != nil {
		return t
	}
	return p
}

// rescaled proposes a Rescale of bytes in place of n, which quantises m, when m is arithmetic on
// the channels of a quantised value.
func (s *scope) rescaled(n, m *graph.Node, out qGrid) *Patch {
	y, f, ok := s.channelwise(m)
	if !ok {
		return nil
	}
	x, g, ok := dequantized(y)
	if !ok || !y.Type.Ranked || len(y.Type.Shape) < 2 {
		return nil
	}
	from, _ := floatsOf(g.scale)
	zero, _ := floatsOf(g.zero)
	to, _ := floatsOf(out.scale)
	scale, bias := make([]float32, len(f.scale)), make([]float32, len(f.scale))
	for i := range scale {
		a := f.scale[i] * from[0] / to[0]
		scale[i], bias[i] = float32(a), float32(f.shift[i]/to[0]-a*zero[0])
		if finite := scale[i]*0 + bias[i]*0; finite != 0 {
			return nil
		}
	}
	if len(scale) > 1 && even(scale) && even(bias) {
		scale, bias = scale[:1], bias[:1]
	}
	constant := func(name string, v []float32) *graph.Value {
		return graph.NewConst(n.Name+name, tensor.From(v, len(v)))
	}
	return instead(n, operator(n, op.FusedDomain, "Rescale", 1, nil, x, constant("_scale", scale),
		constant("_bias", bias), out.zero))
}

// even reports whether all numbers are the same.
func even(x []float32) bool {
	return !slices.ContainsFunc(x, func(v float32) bool { return v != x[0] })
}

// channelwise recognises m as arithmetic with constants, one per index of axis 1. It returns the
// operand that is not constant and the map that m applies to it.
func (s *scope) channelwise(m *graph.Node) (y *graph.Value, f affine, ok bool) {
	if f, ok := s.normalisation(m); ok {
		return m.In[0], f, true
	}
	return channelArithmetic(m)
}

// rescaleInConv lets a convolution of bytes rescale its result, which nothing else reads.
func rescaleInConv(s *scope, n *graph.Node) *Patch {
	m := from(n.In[0], "QLinearConv")
	if m == nil || !s.only(n.In[0]) {
		return nil
	}
	in := make([]*graph.Value, 9, 12)
	copy(in, m.In)
	return instead(n, operator(n, op.FusedDomain, "QLinearConv", 1, m.Attrs,
		append(in, n.In[1:]...)...))
}
