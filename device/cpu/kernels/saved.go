package kernels

import (
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// saved is what the forward half of a step of training has left for a gradient: of float32 or,
// where it has waited in it, of bfloat16.
type saved struct {
	wide   []float32
	narrow []uint16
}

// savedOf are the elements of a tensor.
func savedOf(t *tensor.Tensor) saved {
	if t.DType == tensor.BFloat16 {
		return saved{narrow: tensor.Cast[uint16](t.Data)}
	}
	return saved{wide: tensor.As[float32](t)}
}

// piece is elements lo to hi in float32: where they lie, or in room, which holds so many.
//
//go:noinline
func (s *saved) piece(room []float32, lo, hi int) []float32 {
	if s.narrow == nil {
		return s.wide[lo:hi]
	}
	vec.BFloat16ToFloat32(room[:hi-lo], s.narrow[lo:hi])
	return room[:hi-lo]
}

// besideSaved reports whether all inputs that are present and output 0 are float32, but for input
// 1, which may have been saved in bfloat16.
//
//go:noinline
func (r *request) besideSaved() bool {
	for i, t := range r.In {
		if t.DType != tensor.Float32 && t.DType != tensor.Undefined &&
			!(i == 1 && t.DType == tensor.BFloat16) {
			return false
		}
	}
	return r.Out[0].DType == tensor.Float32
}
