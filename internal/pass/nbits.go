package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// Products by weights of four bits, whose kernel reads them as they are.
//
//	com.microsoft:MatMulNBits(a, w, s, z, _, b)  =  weir:MatMulNBits(a, w, s, z, _, b)
//	weir:MatMulNBits(a, w, s, z) + k             =  weir:MatMulNBits(a, w, s, z, _, k)
//	act(weir:MatMulNBits(a, w, s, z, _, b))      =  the same {activation act}
//
// for a of float32 and the rest constant; see bias.go for the sum and epilogue.go for the
// activation. With {accuracy_level=4} the kernel rounds a to bytes, as the attribute allows; not
// with zero points of floats.
//
// Others become products by weights of floats, eight times their size: see expand.go.

func startNBits(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.portable || n.Domain != microsoft.Domain || n.Type != "MatMulNBits" ||
			len(n.Out) != 1 || n.Attrs.Int("bits", 4) != 4 ||
			n.In[microsoft.NBitsA].Type.DType != tensor.Float32 {
			return nil
		}
		for i, v := range n.In[microsoft.NBitsB:] {
			if v != nil && (!v.IsConst() || i+microsoft.NBitsB == microsoft.NBitsGroups ||
				v.Type.DType != tensor.Uint8 && v.Type.DType != tensor.Float32) {
				return nil
			}
		}
		attrs := slices.Clone(n.Attrs)
		if len(n.In) > microsoft.NBitsZeros && n.In[microsoft.NBitsZeros] != nil &&
			n.In[microsoft.NBitsZeros].Type.DType != tensor.Uint8 {
			attrs = slices.DeleteFunc(attrs, func(a op.Attr) bool {
				return a.Name == "accuracy_level"
			})
		}
		return instead(n, operator(n, op.FusedDomain, "MatMulNBits", 1, attrs, n.In...))
	}
}

// nbitsBiased makes k, a constant of the product's last dimension, the bias of a product of four
// bits.
func nbitsBiased(n, m *graph.Node, k *graph.Value) *Patch {
	in := append(slices.Clone(m.In), make([]*graph.Value, microsoft.NBitsBias+1-len(m.In))...)
	in[microsoft.NBitsBias] = k
	return instead(n, operator(n, op.FusedDomain, "MatMulNBits", 1, m.Attrs, in...))
}
