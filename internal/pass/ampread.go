package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// What has waited in bfloat16 is read as it lies by operators whose kernels widen it a piece at a
// time, so that it is never in memory in float32 again:
//
//	f(g, Cast(h, float32))  =  f(g, h)    f the gradient of an activation or a normalisation
//	ConvWeightsGradient(Cast(h, float32), g)  =  ConvWeightsGradient(h, g)

// ampReads are those operators, of weir's domain, and the input that may be narrow.
var ampReads = map[string]int{op.ReluGradient: 1, op.BatchNormGradient: 1, op.GeluGradient: 1,
	op.LayerNormGradient: 1, op.SoftmaxGradient: 1, op.ConvWeightsGradient: 0}

func startAmpRead(s *scope) rule {
	if s.precision == FP16 || !s.precision.mixed() || s.portable {
		return func(*graph.Node) *Patch { return nil }
	}
	return func(n *graph.Node) *Patch {
		i, reads := ampReads[n.Type]
		if !reads || n.Domain != op.FusedDomain || n.Out[0].Type.DType != tensor.Float32 ||
			!isCast(n.In[i].Producer) {
			return nil
		}
		h := n.In[i].Producer.In[0]
		if n.In[i].Type.DType != tensor.Float32 || h.Type.DType != tensor.BFloat16 {
			return nil
		}
		return reading(n, i, h)
	}
}

// reading proposes that node n reads v as its operand i, of another type.
func reading(n *graph.Node, i int, v *graph.Value) *Patch {
	in := slices.Clone(n.In)
	in[i] = v
	return instead(n, anew(n, n.Domain, n.Version, n.Attrs, in))
}

// savedOperand is what a node reads that has waited in 16 bits, to widen it or as it lies; nil of
// others.
func savedOperand(n *graph.Node) *graph.Value {
	if n.Attrs.Has(savedAttr) {
		return n.In[0]
	}
	if i, reads := ampReads[n.Type]; reads && n.Domain == op.FusedDomain &&
		n.In[i].Type.DType == tensor.BFloat16 {
		return n.In[i]
	}
	return nil
}
