package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// Caffe writes a batch normalisation as one layer that normalises and another that scales and
// shifts, and its exporters keep that:
//
//	a · BatchNormalization(x, γ, β, μ, σ²) + c  =  BatchNormalization(x, a·γ, a·β + c, μ, σ²)
//
// for a and c one number a channel, a normalisation with constants, and a result of it that serves
// nothing else. The new constants are computed in float64 and rounded once.

func startScaleShift(s *scope) rule {
	return func(n *graph.Node) *Patch {
		y, f, ok := channelArithmetic(n)
		if !ok || !s.only(y) {
			return nil
		}
		m := producer(y)
		if m == nil {
			return nil
		}
		if norm, ok := s.normalisation(m); !ok || len(norm.scale) != len(f.scale) {
			return nil
		}
		gamma, beta := constants(m.In[1]), constants(m.In[2])
		scale, shift := make([]float32, len(gamma)), make([]float32, len(gamma))
		for i, a := range f.scale {
			scale[i], shift[i] = float32(a*gamma[i]), float32(a*beta[i]+f.shift[i])
		}
		constant := func(v *graph.Value, x []float32) *graph.Value {
			return graph.NewConst(v.Name, tensor.From(x, len(x)))
		}
		return instead(n, operator(n, "", m.Type, m.Version, m.Attrs, m.In[0],
			constant(m.In[1], scale), constant(m.In[2], shift), m.In[3], m.In[4]))
	}
}
