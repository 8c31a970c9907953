package cpu

import (
	"math"

	"github.com/weirgpu/weir/kernel/gemm"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/op"
)

// fusedActivations are the values of the attribute "activation" of weir's fused operators; alpha and beta are the attributes
// activation_alpha and activation_beta.
var fusedActivations = map[string]func(alpha, beta float32) vecFunc{
	"LeakyRelu":   func(a, _ float32) vecFunc { return func(dst, x []float32) { vec.LeakyRelu(dst, x, a) } },
	"HardSigmoid": func(a, b float32) vecFunc { return func(dst, x []float32) { vec.HardSigmoid(dst, x, a, b) } },
	"Sigmoid":     func(_, _ float32) vecFunc { return vec.Sigmoid },
	"Silu":        func(_, _ float32) vecFunc { return vec.Silu },
	"HardSwish":   func(_, _ float32) vecFunc { return vec.HardSwish },
	"Tanh":        func(_, _ float32) vecFunc { return vec.Tanh },
	"Gelu":        func(_, _ float32) vecFunc { return vec.Gelu },
	"GeluTanh":    func(_, _ float32) vecFunc { return vec.GeluTanh },
}

// setActivation adds a call's fused activation to an epilogue; false when it is one that no kernel has.
func setActivation(call *op.Call, e *gemm.Epilogue) bool {
	name := call.Attrs.String("activation", "")
	alpha, beta := call.Attrs.Float("activation_alpha", 0), call.Attrs.Float("activation_beta", 0)
	switch name {
	case "":
	case "Relu":
		e.Clamp, e.Lo, e.Hi = true, 0, float32(math.Inf(1))
	case "Clip":
		e.Clamp, e.Lo, e.Hi = true, alpha, beta
	default:
		f := fusedActivations[name]
		if f == nil {
			return false
		}
		e.Map = f(alpha, beta)
	}
	return true
}
