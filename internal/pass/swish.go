package pass

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Gates: x times a squashed x.
//
//	x · Sigmoid(x)                =  weir:Silu(x)
//	                                   (Elfwing et al. 2018; ONNX has it since opset 24 only, as
//	                                    Swish)
//	x · Clip(x + 3, 0, 6) / 6     =  HardSwish(x)
//	                                   (Howard et al. 2019, section 5.2; ONNX 14)
//	x · HardSigmoid(x, 1/6, 1/2)  =  HardSwish(x)
//
// The product may be written in any order and association, with any division by 6 as a
// multiplication. The inner values must serve nothing else, and no operand may broadcast x.

const hardSwishVersion = 14

func startSwish(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if !is(n, "Mul") && !is(n, "Div") {
			return nil
		}
		p := s.product(n.Out[0])
		if x := p.pair(1, s.isSigmoid); x != nil && sameShape(x, n.Out[0]) && !s.portable {
			return instead(n, operator(n, op.FusedDomain, "Silu", 1, nil, x))
		}
		x := p.pair(1, s.isHardSigmoid)
		if x == nil {
			x = p.pair(1.0/6, s.isClip)
		}
		if x == nil || !sameShape(x, n.Out[0]) || !s.offers(hardSwishVersion) {
			return nil
		}
		return instead(n, operator(n, "", "HardSwish", max(s.opset, hardSwishVersion), nil, x))
	}
}

// offers reports whether an ONNX operator of that version may come out: portable graphs keep to the
// model's opset.
func (s *scope) offers(version int) bool { return !s.portable || s.opset >= version }

// sameShape reports whether two values certainly have one type and shape.
func sameShape(a, b *graph.Value) bool { return a.Type.Ranked && a.Type.Equal(b.Type) }

func (s *scope) isSigmoid(x, f *graph.Value) bool {
	n := from(f, "Sigmoid")
	return n != nil && s.only(f) && n.In[0] == x
}

func (s *scope) isHardSigmoid(x, f *graph.Value) bool {
	n := from(f, "HardSigmoid")
	return n != nil && s.only(f) && n.In[0] == x &&
		near(float64(n.Attrs.Float("alpha", 0.2)), 1.0/6) &&
		near(float64(n.Attrs.Float("beta", 0.5)), 0.5)
}

func (s *scope) isClip(x, f *graph.Value) bool {
	n := from(f, "Clip")
	if n == nil || !s.only(f) {
		return false
	}
	lo, hi, ok := clipBounds(n)
	return ok && lo == 0 && hi == 6 && s.plus(n.In[0], 3) == x
}
