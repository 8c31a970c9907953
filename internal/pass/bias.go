package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
)

// Bias of a matrix product.
//
//	MatMul(a, b) + k   =  weir:MatMul(a, b, k)    k a constant of the product's last dimension
//
// for float types when the product serves nothing else. Leading ones of k's shape are taken away.

func startBias(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if !is(n, "Add") {
			return nil
		}
		y, k, ok := sides(n, func(v *graph.Value) bool { return v.IsConst() })
		m := producer(y)
		nbits := m != nil && m.Domain == op.FusedDomain && m.Type == "MatMulNBits" &&
			(len(m.In) <= microsoft.NBitsBias || m.In[microsoft.NBitsBias] == nil)
		if !ok || m == nil || !nbits && (m.Type != "MatMul" || len(m.In) != 2) ||
			m.Attrs.Has("activation") || !s.only(y) ||
			!sameShape(y, n.Out[0]) || !y.Type.DType.IsFloat() || len(y.Type.Shape) == 0 {
			return nil
		}
		if b := m.In[1].Type; !nbits && (!b.Ranked || len(b.Shape) < 2) {
			return nil
		}
		cols, ok := y.Type.Shape[len(y.Type.Shape)-1].Int()
		if !ok {
			return nil
		}
		t, ok := asShape(k.Const(), []int{cols})
		if !ok {
			return nil
		}
		if nbits {
			return nbitsBiased(n, m, holding(k, t))
		}
		return instead(n, operator(n, op.FusedDomain, "MatMul", 1, m.Attrs, m.In[0], m.In[1],
			holding(k, t)))
	}
}
