package pass

import (
	"bytes"
	"math"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Numbers that are only rounded to the steps of integers stay floats, on these steps.
//
//	DQ(Q(x))                =  weir:Grid(x)
//	                             (one constant scale and zero point, or one an index of an axis)
//	Grid(Conv(x, w, b))     =  weir:Conv(x, w, b){activation Grid}
//	                             (one scale: see epilogue.go)
//	Grid(Clip(y))           =  Grid(y)
//	                             (where saturation clips as far; likewise Relu: see qdq.go)
//	Grid(Resize(x))         =  Resize(Grid(x))
//	                             (to the nearest of fewer elements, on one scale)
//	Grid(Concat(x, ...))    =  Concat(Grid(x), ...)
//	                             (on one scale)
//
// That is what is left of quantised models where no kernel multiplies the integers, such as those
// of 16 bits: the bits are the same, and nothing is stored between.

func startGrid(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.portable {
			return nil
		}
		if n.Domain == op.FusedDomain && n.Type == "Grid" {
			if p := dropClip(s, n, qGrid{n.In[1], n.In[2]}); p != nil {
				return p
			}
			return s.roundedBefore(n)
		}
		if !is(n, "DequantizeLinear") {
			return nil
		}
		q := from(n.In[0], "QuantizeLinear")
		if q == nil || !s.onlyDequantized(q.Out[0]) {
			return nil
		}
		there, ok := gridOn(q, gridTypes)
		back, ok2 := gridOn(n, gridTypes)
		if !ok || !ok2 || !sameGrid(there, back) || q.In[0].Type.DType != tensor.Float32 ||
			n.Out[0].Type.DType != tensor.Float32 || q.Attrs.Int("precision", 0) != 0 {
			return nil
		}
		var attrs op.Attrs
		if there.scale.Const().Len() > 1 {
			axis := q.Attrs.Int("axis", 1)
			if axis != n.Attrs.Int("axis", 1) {
				return nil
			}
			attrs = op.Attrs{op.IntAttr("axis", axis)}
		}
		if s.onGrid(q.In[0], there) {
			return &Patch{Replace: []Replacement{{n.Out[0], q.In[0]}}}
		}
		return instead(n, operator(n, op.FusedDomain, "Grid", 1, attrs, q.In[0], there.scale,
			there.zero))
	}
}

// roundedBefore rounds what n rounds where it is fewer elements, or before it is joined, so that
// the operators that compute the parts can.
func (s *scope) roundedBefore(n *graph.Node) *Patch {
	m := producer(n.In[0])
	if m == nil || !s.only(n.In[0]) || !n.In[1].IsConst() || n.In[1].Const().Len() != 1 {
		return nil
	}
	parts := m.In[:1]
	switch {
	case is(m, "Concat"):
		parts = m.In
	case !is(m, "Resize") || !enlarges(m):
		return nil
	}
	p, in := &Patch{}, slices.Clone(m.In)
	for i, x := range parts {
		g := graph.NewNode(n.Name, "Grid", 1, nil, []*graph.Value{x, n.In[1], n.In[2]},
			n.Out[0].Name)
		g.Domain = op.FusedDomain
		p.Insert, in[i] = append(p.Insert, g), g.Out[0]
	}
	moved := operator(n, m.Domain, m.Type, m.Version, m.Attrs, in...)
	p.Insert = append(p.Insert, moved)
	p.Replace = []Replacement{{n.Out[0], moved.Out[0]}}
	return p
}

// enlarges reports whether a Resize gives elements of its image alone, each at least once.
func enlarges(m *graph.Node) bool {
	if m.Attrs.String("mode", "nearest") != "nearest" || m.Version < 11 || len(m.In) < 3 ||
		m.Attrs.String("coordinate_transformation_mode", "half_pixel") == "tf_crop_and_resize" {
		return false
	}
	scales, ok := floatsOf(m.In[2])
	return ok && !slices.ContainsFunc(scales, func(by float64) bool { return !(by >= 1) })
}

// gridTypes are the integers that numbers are rounded to: of these the steps are exact in float32.
var gridTypes = []tensor.DType{tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16}

// onlyDequantized reports whether all that reads v makes floats of it.
func (s *scope) onlyDequantized(v *graph.Value) bool {
	return !s.output[v] && !slices.ContainsFunc(s.readers(v),
		func(n *graph.Node) bool { return !is(n, "DequantizeLinear") || n.In[0] != v })
}

// choosing are operators whose results are elements of input 0.
var choosing = append([]string{"MaxPool", "Transpose", "Slice", "Relu"}, views...)

// onGrid reports whether all elements of v are on the steps of g already, which has one scale: they
// were rounded to them, and chosen since.
func (s *scope) onGrid(v *graph.Value, g qGrid) bool {
	n := producer(v)
	for left := maxNear; n != nil && left > 0 && n.Domain == "" &&
		slices.Contains(choosing, n.Type) && n.Out[0] == v; left-- {
		v = n.In[0]
		n = producer(v)
	}
	return n != nil && n.Domain == op.FusedDomain && n.Type == "Grid" && n.Out[0] == v &&
		g.scale.Const().Len() == 1 && sameGrid(qGrid{n.In[1], n.In[2]}, g)
}

// gridActivation takes a grid of one scale: scale and bounds.
func gridActivation(n *graph.Node) (name string, params []float32, ok bool) {
	scale, zero := n.In[1].Const(), n.In[2].Const()
	if scale == nil || zero == nil || scale.Len() != 1 || scale.DType != tensor.Float32 ||
		!slices.Contains(gridTypes, zero.DType) {
		return "", nil, false
	}
	z, ok := floatsOf(n.In[2])
	least, most := integerRange(zero.DType)
	return "Grid", []float32{tensor.As[float32](scale)[0], float32(least - z[0]),
		float32(most - z[0])}, ok
}

// integerRange is the least and the greatest integer of one of gridTypes.
func integerRange(d tensor.DType) (least, most float64) {
	most = math.Ldexp(1, d.Bits()) - 1
	if d.IsSigned() {
		least = -math.Ldexp(1, d.Bits()-1)
	}
	return least, most + least
}

// sameGrid reports whether two grids have the same scales and zero points.
func sameGrid(a, b qGrid) bool {
	return sameConst(a.scale.Const(), b.scale.Const()) && sameConst(a.zero.Const(), b.zero.Const())
}

func sameConst(a, b *tensor.Tensor) bool {
	return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && bytes.Equal(a.Data, b.Data)
}
