package kernels

import (
	"math"

	"github.com/weirgpu/weir/internal/kernel/gemm"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
)

// fusedActivations are the values of the attribute "activation" of weir's fused operators that have
// no parameters.
var fusedActivations = map[string]vecFunc{
	"Sigmoid":   vec.Sigmoid,
	"Silu":      vec.Silu,
	"HardSwish": vec.HardSwish,
	"Tanh":      vec.Tanh,
	"Gelu":      vec.Gelu,
	"GeluTanh":  vec.GeluTanh,
}

// setActivation adds a call's fused activation to an epilogue; false when it is one that no kernel
// has.
func setActivation(call *op.Call, e *gemm.Epilogue) bool {
	name := call.Attrs.String("activation", "")
	alpha := func(def float64) float32 { return call.Attrs.Float("activation_alpha", float32(def)) }
	beta := func(def float64) float32 { return call.Attrs.Float("activation_beta", float32(def)) }
	switch name {
	case "":
	case "Relu":
		e.Clamp, e.Lo, e.Hi = true, 0, float32(math.Inf(1))
	case "Clip":
		e.Clamp, e.Lo, e.Hi = true, alpha(math.Inf(-1)), beta(math.Inf(1))
		return e.Lo == e.Lo && e.Hi == e.Hi // bounds of NaN are the reference's
	case "Grid":
		scale, lo := alpha(1), beta(math.MinInt16)
		hi := call.Attrs.Float("activation_gamma", lo+math.MaxUint16)
		e.Map = func(dst, x []float32) { vec.Grid(dst, x, scale, lo, hi) }
		return lo == lo && hi == hi
	case "LeakyRelu":
		a := alpha(0.01)
		e.Map = func(dst, x []float32) { vec.LeakyRelu(dst, x, a) }
	case "HardSigmoid":
		a, b := alpha(0.2), beta(0.5)
		e.Map = func(dst, x []float32) { vec.HardSigmoid(dst, x, a, b) }
	default:
		e.Map = fusedActivations[name]
		return e.Map != nil
	}
	return true
}

// formatOf is how a product of weir's domain multiplies.
func formatOf(call *op.Call) gemm.Format {
	if call.Attrs.String("precision", "") == "bf16" {
		return gemm.BF16
	}
	return gemm.F32
}
