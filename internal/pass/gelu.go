package pass

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Gaussian error linear units (Hendrycks and Gimpel 2016), ONNX 20.
//
//	½ · x · (1 + Erf(x / √2))                          =  Gelu(x)
//	½ · x · (1 + Tanh(√(2/π) · (x + 0.044715 · x³)))   =  Gelu(x){approximate tanh}
//	½ · x · (1 + Tanh(√(2/π) · x · (1 + 0.044715 · x²)))  =  the same
//
// Products may be written in any order and association, with ½ anywhere. The inner values must
// serve nothing else.

const geluVersion = 20

const cubic = 0.044715

func startGelu(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if !is(n, "Mul") && !is(n, "Div") || !s.offers(geluVersion) {
			return nil
		}
		var attrs op.Attrs
		p := s.product(n.Out[0])
		x := p.pair(0.5, s.isErf)
		if x == nil {
			x = p.pair(0.5, s.isTanh)
			attrs = op.Attrs{op.StringAttr("approximate", "tanh")}
		}
		if x == nil || !sameShape(x, n.Out[0]) {
			return nil
		}
		return instead(n, operator(n, "", "Gelu", max(s.opset, geluVersion), attrs, x))
	}
}

// isErf accepts 1 + Erf(x / √2).
func (s *scope) isErf(x, f *graph.Value) bool {
	v := s.plus(f, 1)
	n := from(v, "Erf")
	return n != nil && s.only(v) && s.product(n.In[0]).of(math.Sqrt2/2, x, 1)
}

// isTanh accepts 1 + Tanh(√(2/π) · (x + 0.044715 · x³)) in both forms.
func (s *scope) isTanh(x, f *graph.Value) bool {
	v := s.plus(f, 1)
	n := from(v, "Tanh")
	if n == nil || !s.only(v) {
		return false
	}
	p := s.product(n.In[0])
	scale := math.Sqrt(2 / math.Pi)
	if len(p.factors) == 1 && near(p.c, scale) {
		return s.isCubicSum(x, p.factors[0])
	}
	return p.pair(scale, func(y, g *graph.Value) bool {
		w := s.plus(g, 1)
		return y == x && w != nil && s.product(w).of(cubic, x, 2)
	}) != nil
}

// isCubicSum accepts x + 0.044715 · x³.
func (s *scope) isCubicSum(x, v *graph.Value) bool {
	n := from(v, "Add")
	if n == nil || !s.only(v) {
		return false
	}
	rest, _, ok := sides(n, func(w *graph.Value) bool {
		return s.only(w) && s.product(w).of(cubic, x, 3)
	})
	return ok && rest == x
}
