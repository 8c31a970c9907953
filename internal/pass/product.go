package pass

import (
	"math"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// product is a value written as a constant times factors, which brings the many ways in which
// exporters associate and order the same multiplications to one form.
type product struct {
	c       float64
	factors []*graph.Value
}

// maxFactors bounds a product: no formula that weir recognises has more.
const maxFactors = 6

// product writes v as a product. It looks through multiplications, divisions by a constant and
// whole powers whose results serve nothing but the product.
func (s *scope) product(v *graph.Value) product {
	p := product{c: 1}
	s.expand(&p, v, true)
	return p
}

func (s *scope) expand(p *product, v *graph.Value, root bool) {
	if c, ok := scalar(v); ok {
		p.c *= c
		return
	}
	n := producer(v)
	if n == nil || n.Domain != "" || !root && !s.only(v) || len(p.factors) >= maxFactors {
		p.factors = append(p.factors, v)
		return
	}
	switch n.Type {
	case "Mul":
		s.expand(p, n.In[0], n.In[0] == n.In[1])
		s.expand(p, n.In[1], n.In[0] == n.In[1])
		return
	case "Div":
		if c, ok := scalar(n.In[1]); ok && c != 0 {
			p.c /= c
			s.expand(p, n.In[0], false)
			return
		}
	case "Pow":
		if k, ok := scalar(n.In[1]); ok && (k == 2 || k == 3) {
			for range int(k) {
				p.factors = append(p.factors, n.In[0])
			}
			return
		}
	}
	p.factors = append(p.factors, v)
}

// of reports whether p is c times x to the power k.
func (p product) of(c float64, x *graph.Value, k int) bool {
	if !near(p.c, c) || len(p.factors) != k {
		return false
	}
	for _, f := range p.factors {
		if f != x {
			return false
		}
	}
	return true
}

// pair returns x and f when p is c · x · f with f(x) accepted by the given test.
func (p product) pair(c float64, test func(x, f *graph.Value) bool) *graph.Value {
	if len(p.factors) != 2 || !near(p.c, c) {
		return nil
	}
	for i, x := range p.factors {
		if test(x, p.factors[1-i]) {
			return x
		}
	}
	return nil
}

// plus returns the other operand when v is Add(_, c) or Add(c, _) and nothing else reads v.
func (s *scope) plus(v *graph.Value, c float64) *graph.Value {
	n := from(v, "Add")
	if n == nil || !s.only(v) {
		return nil
	}
	rest, _, ok := sides(n, func(w *graph.Value) bool { return nearScalar(w, c) })
	if !ok {
		return nil
	}
	return rest
}

// clipBounds returns the bounds of a Clip: attributes before opset 11, constant inputs since. Those
// left out are the limits of the type, which it knows for float32.
func clipBounds(n *graph.Node) (lo, hi float64, ok bool) {
	lo, hi = -math.MaxFloat32, math.MaxFloat32
	for i, b := range []*float64{&lo, &hi} {
		name := []string{"min", "max"}[i]
		switch {
		case n.Version < 11 && n.Attrs.Has(name):
			*b = float64(n.Attrs.Float(name, 0))
		case n.Version >= 11 && i+1 < len(n.In) && n.In[i+1] != nil:
			if *b, ok = scalar(n.In[i+1]); !ok {
				return 0, 0, false
			}
		case n.In[0].Type.DType != tensor.Float32:
			return 0, 0, false
		}
	}
	return lo, hi, true
}
