package pass

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Automatic mixed precision on the graph, as in Micikevicius et al., "Mixed precision training",
// ICLR 2018, and Alibaba PAI's graph rewriting: products multiply in bfloat16 and add up in
// float32, everything else stays float32.
//
//	Conv(x, w, ...)  =  weir:Conv(x, w, ...){precision bf16}
//	                      (likewise ConvTranspose, Gemm, MatMul and products of Attention)
//
// The decision takes three steps, each in a file of its own: which list an operator is on
// (amplist.go), whether multiplying at the rate that was measured saves more than rounding the
// operands costs (ampcost.go), and how the result is used on the way to the next product
// (ampflow.go). Rewriting by lists elsewhere inserts casts around each product. Here no cast
// becomes a node, and no value of the graph changes its type: a constant is rounded once when it is
// packed, kernels round other operands as they pack them, and results need no cast because sums are
// float32 anyway (ampcast.go). Only images between convolutions stay in bfloat16, where a device
// multiplies them so much faster that memory is what they wait for (pixels.go). Amp explains the
// outcome (ampreport.go).
//
// A step of training has more to it: it ends at a mark (ampmark.go), products may be rounded to
// float16 (ampround.go), what the backward half reads again waits in 16 bits (ampsave.go), the
// casts of those cancel each other (ampcancel.go), and some of it is read as it waits (ampread.go).
// Each is a pass that can be left out.

func startAmp(s *scope) rule {
	if !s.precision.mixed() || s.precision == FP16 || !s.features.BF16 || s.portable {
		return func(*graph.Node) *Patch { return nil }
	}
	behind := unscaled(s.g)
	return func(n *graph.Node) *Patch {
		if n.Attrs.Has("precision") || behind[n] {
			return nil
		}
		if chosen, _ := amp(n, s.precision, &s.features.Costs); !chosen && !s.forPixels(n) ||
			s.precision == Auto && behind == nil && s.last(n) {
			return nil
		}
		attrs := append(append(op.Attrs{}, n.Attrs...), op.StringAttr("precision", "bf16"))
		return instead(n, anew(n, op.FusedDomain, 1, attrs, n.In))
	}
}

// amp decides about one node by its list and by its own cost.
func amp(n *graph.Node, p Precision, on *compute.Costs) (chosen bool, why string) {
	if !p.mixed() {
		return false, "precision fp32"
	}
	if list, why := ampList(n); list != AmpAllow {
		return false, why
	}
	c := ampCostOf(n, on)
	return c.pays(), c.why()
}
