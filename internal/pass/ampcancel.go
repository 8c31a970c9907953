package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// Opposite casts.
//
//	Cast(Cast(h, to float32), to T)  =  h    h float16 or bfloat16, of type T
//
// Every number of 16 bits is one of float32, so nothing is rounded on the way. The other way round
// rounds, and stays.

func startAmpCancel(*scope) rule {
	return func(n *graph.Node) *Patch {
		if !isCast(n) || !isCast(n.In[0].Producer) {
			return nil
		}
		wide, h := n.In[0], n.In[0].Producer.In[0]
		if wide.Type.DType != tensor.Float32 || !isHalf(h.Type) ||
			h.Type.DType != n.Out[0].Type.DType {
			return nil
		}
		return forward(n, h)
	}
}

// isCast reports whether a node, which may be nil, is ONNX's Cast.
func isCast(n *graph.Node) bool {
	return n != nil && n.Domain == "" && n.Type == "Cast" && n.In[0] != nil && n.Out[0] != nil
}
