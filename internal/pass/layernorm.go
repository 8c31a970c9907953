package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Layer normalisation (Ba et al. 2016), ONNX 17, as exporters for older opsets take it apart.
//
//	d / Sqrt(ReduceMean(d²) + ε)  =  LayerNormalization(x, 1){axis, epsilon ε}
//	LayerNormalization(x, 1) · γ  =  LayerNormalization(x, γ)
//	LayerNormalization(x, γ) + β  =  LayerNormalization(x, γ, β)
//
// where d is x - ReduceMean(x), d² is Pow(d, 2) or Mul(d, d), the division may be a multiplication
// by a Reciprocal, both means run over the same trailing axes of known size and keep them, and γ
// and β are constants of the shape of those axes. The inner values must serve nothing else.

const layerNormVersion = 17

func startLayerNorm(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if len(n.Out) != 1 || n.Domain != "" || !s.offers(layerNormVersion) ||
			!n.Out[0].Type.DType.IsFloat() {
			return nil
		}
		switch n.Type {
		case "Div":
			if root := from(n.In[1], "Sqrt"); root != nil && s.only(n.In[1]) {
				return s.normalise(n, n.In[0], root)
			}
		case "Mul":
			if p := s.reciprocal(n); p != nil {
				return p
			}
			return s.absorb(n, 1)
		case "Add":
			return s.absorb(n, 2)
		}
		return nil
	}
}

// reciprocal recognises d · Reciprocal(Sqrt(...)).
func (s *scope) reciprocal(n *graph.Node) *Patch {
	for i, v := range n.In {
		r := from(v, "Reciprocal")
		if r == nil || !s.only(v) {
			continue
		}
		if root := from(r.In[0], "Sqrt"); root != nil && s.only(r.In[0]) {
			return s.normalise(n, n.In[1-i], root)
		}
	}
	return nil
}

// normalise proposes LayerNormalization for n, which divides d by root.
func (s *scope) normalise(n *graph.Node, d *graph.Value, root *graph.Node) *Patch {
	sum := from(root.In[0], "Add")
	sub := from(d, "Sub")
	if sum == nil || sub == nil || !s.only(root.In[0]) || s.output[d] {
		return nil
	}
	variance, c, ok := sides(sum, func(v *graph.Value) bool { _, ok := scalar(v); return ok })
	if !ok {
		return nil
	}
	eps, _ := scalar(c)
	x := sub.In[0]
	axis, ok := s.means(x, sub.In[1], d, variance)
	if !ok || !sameShape(x, n.Out[0]) {
		return nil
	}
	ones, ok := onesLike(x.Type, axis)
	if !ok {
		return nil
	}
	attrs := op.Attrs{op.IntAttr("axis", int64(axis-len(x.Type.Shape))),
		op.FloatAttr("epsilon", float32(eps))}
	scale := graph.NewConst(n.Out[0].Name+"_scale", ones)
	return instead(n, operator(n, "", "LayerNormalization", max(s.opset, layerNormVersion), attrs,
		x, scale))
}

// means checks that mean is the mean of x, and variance the mean of d squared, over the same
// trailing axes, and that only the square and the division read d. It returns the first of these
// axes.
func (s *scope) means(x, mean, d, variance *graph.Value) (axis int, ok bool) {
	m, v := from(mean, "ReduceMean"), from(variance, "ReduceMean")
	if m == nil || v == nil || m.In[0] != x || !s.only(mean) || !s.only(variance) ||
		!x.Type.Ranked {
		return 0, false
	}
	square := v.In[0]
	p := s.product(square)
	if !s.only(square) || !p.of(1, d, 2) || s.count[d] != 1+reads(square.Producer, d) {
		return 0, false
	}
	rank := len(x.Type.Shape)
	axis, ok = trailing(m, rank)
	other, same := trailing(v, rank)
	return axis, ok && same && axis == other
}

// reads counts how often n reads v.
func reads(n *graph.Node, v *graph.Value) int {
	k := 0
	for _, w := range n.In {
		if w == v {
			k++
		}
	}
	return k
}

// reducedAxes returns the axes of a reduction, an input since opset 18; false when they are not
// known.
func reducedAxes(n *graph.Node) ([]int64, bool) {
	if len(n.In) < 2 || n.In[1] == nil {
		return n.Attrs.Ints("axes"), true
	}
	elems, ok := n.In[1].Type.IntElems()
	return convert[int64](elems), ok
}

// trailing returns the first axis of a reduction that keeps its dimensions and runs over the last
// ones.
func trailing(n *graph.Node, rank int) (int, bool) {
	axes, ok := reducedAxes(n)
	if !ok {
		return 0, false
	}
	if !n.Attrs.Bool("keepdims", true) || len(axes) == 0 || len(axes) > rank {
		return 0, false
	}
	set := make([]int, len(axes))
	for i, a := range axes {
		if set[i] = int(a); a < 0 {
			set[i] += rank
		}
	}
	slices.Sort(set)
	for i, a := range set {
		if a != rank-len(set)+i {
			return 0, false
		}
	}
	return set[0], true
}

// onesLike makes a tensor of ones of the shape of t from axis on.
func onesLike(t op.Type, axis int) (*tensor.Tensor, bool) {
	tail := op.Type{DType: t.DType, Ranked: true, Shape: t.Shape[axis:]}
	shape, ok := tail.Ints()
	if n, err := tensor.Count(shape); !ok || err != nil || n > maxNeutral {
		return nil, false
	}
	ones, err := tensor.New(t.DType, shape...)
	if err != nil {
		return nil, false
	}
	for i := range ones.Len() {
		switch t.DType {
		case tensor.Float32:
			tensor.As[float32](ones)[i] = 1
		case tensor.Float64:
			tensor.As[float64](ones)[i] = 1
		case tensor.Float16:
			tensor.As[tensor.Half](ones)[i] = tensor.HalfOf(1)
		case tensor.BFloat16:
			tensor.As[tensor.BHalf](ones)[i] = tensor.BHalfOf(1)
		}
	}
	return ones, true
}

// absorb makes the constant operand of n the scale (input 1) or bias (input 2) of the
// LayerNormalization that n reads, which must not have one yet.
func (s *scope) absorb(n *graph.Node, input int) *Patch {
	y, c, ok := sides(n, func(v *graph.Value) bool { return v.IsConst() })
	m := from(y, "LayerNormalization")
	if !ok || m == nil || !s.only(y) || !sameShape(y, n.Out[0]) || len(m.In) > 2 ||
		m.In[1] == nil || !m.In[1].IsConst() {
		return nil
	}
	scale := m.In[1].Const()
	t, fits := asShape(c.Const(), scale.Shape)
	if !fits || t.DType != scale.DType {
		return nil
	}
	v := holding(c, t)
	in := []*graph.Value{m.In[0], m.In[1], v}
	if input == 1 {
		if !isOne(scale) {
			return nil
		}
		in = []*graph.Value{m.In[0], v}
	}
	return instead(n, operator(n, "", "LayerNormalization", m.Version, m.Attrs, in...))
}

// asShape returns t under another shape that differs by leading ones only.
func asShape(t *tensor.Tensor, shape []int) (*tensor.Tensor, bool) {
	if slices.Equal(t.Shape, shape) {
		return t, true
	}
	lead := len(t.Shape) - len(shape)
	if lead < 0 || !slices.Equal(t.Shape[lead:], shape) ||
		slices.ContainsFunc(t.Shape[:lead], func(d int) bool {
			return d != 1
		}) {
		return nil, false
	}
	r, err := t.Reshaped(shape...)
	return r, err == nil
}
