package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Chains of operators that move no bytes, or move them twice.
//
//	view2(view1(x)) of the shape of x  =  x
//	view2(view1(x)) of fixed shape s   =  Reshape(x, s)
//	                                        (s without 0, which Reshape reads as "copy")
//	Transpose(Transpose(x, p), q)      =  Transpose(x, r)
//	                                        (r[i] = p[q[i]])
//
// where a view is Reshape, Flatten, Squeeze or Unsqueeze. The inner operator may have other
// readers; it stays for them.

var views = []string{"Reshape", "Flatten", "Squeeze", "Unsqueeze"}

func startView(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if n.Domain != "" || len(n.In) == 0 {
			return nil
		}
		if n.Type == "Transpose" {
			return transposeTwice(n)
		}
		m := producer(n.In[0])
		if m == nil || m.Domain != "" || !slices.Contains(views, n.Type) ||
			!slices.Contains(views, m.Type) {
			return nil
		}
		return s.viewTwice(n, m.In[0])
	}
}

// viewTwice proposes to compute the output of view n from x directly, by one Reshape, or to use x
// itself where the shapes are the same.
func (s *scope) viewTwice(n *graph.Node, x *graph.Value) *Patch {
	to := n.Out[0].Type
	if x.Type.Ranked && x.Type.Equal(to) {
		if !s.replaceable(n.Out[0], x) {
			return nil
		}
		return forward(n, x)
	}
	shape, ok := to.Ints()
	if !ok || slices.Contains(shape, 0) || n.Version < 5 {
		return nil
	}
	dims := graph.NewConst(n.Out[0].Name+"_shape", tensor.From(convert[int64](shape), len(shape)))
	return instead(n, operator(n, "", "Reshape", n.Version, nil, x, dims))
}

func transposeTwice(n *graph.Node) *Patch {
	m := producer(n.In[0])
	if m == nil || m.Type != "Transpose" || m.Domain != "" {
		return nil
	}
	outer, inner := permutation(n), permutation(m)
	if len(outer) != len(inner) || len(outer) == 0 {
		return nil
	}
	perm := make([]int64, len(outer))
	for i, q := range outer {
		if q < 0 || q >= len(inner) {
			return nil
		}
		perm[i] = int64(inner[q])
	}
	return instead(n, operator(n, "", "Transpose", n.Version,
		op.Attrs{op.IntsAttr("perm", perm...)}, m.In[0]))
}
