package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Weights that are stored transposed.
//
//	MatMul(a, Transpose(w))  =  weir:MatMul(a, w){transB}
//	                              (w a constant matrix of floats, a of rank 2 or more)
//
// Kernels pack weights in any case, and can do so from the transpose just as well. The weights then
// stay where the model file has them, which saves a second copy of, for example, an embedding that
// also serves as output projection.

func startTransposed(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.portable || !is(n, "MatMul") || !n.In[0].Type.Ranked || len(n.In[0].Type.Shape) < 2 {
			return nil
		}
		t := from(n.In[1], "Transpose")
		if t == nil || !t.In[0].IsConst() || !t.In[0].Type.DType.IsFloat() ||
			t.In[0].Const().Rank() != 2 {
			return nil
		}
		if perm := t.Attrs.Ints("perm"); perm != nil && !slices.Equal(perm, []int64{1, 0}) {
			return nil
		}
		return instead(n, operator(n, op.FusedDomain, "MatMul", 1,
			op.Attrs{op.IntAttr("transB", 1)}, n.In[0], t.In[0]))
	}
}
