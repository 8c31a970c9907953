package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// last reports whether no product is computed from what n computes.
func (s *scope) last(n *graph.Node) bool {
	seen := map[*graph.Node]bool{n: true}
	for todo := []*graph.Node{n}; len(todo) > 0; {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, v := range m.Out {
			if v == nil {
				continue
			}
			for _, u := range s.readers(v) {
				if isProduct(u) {
					return false
				}
				if !seen[u] {
					seen[u] = true
					todo = append(todo, u)
				}
			}
		}
	}
	return true
}

// ampFlow follows results from product to product through one graph.
type ampFlow struct {
	readers map[*graph.Value][]*graph.Node
	// narrow holds the values of which no use sees more digits than bfloat16 has. Such a value is
	// computed by a product in bfloat16, or by a node of list AmpInfer from other narrow values.
	// Each of its readers multiplies it in bfloat16, or is itself a node of AmpInfer with a narrow
	// result.
	narrow map[*graph.Value]bool
	// down holds the values that come down from a product in 16 bits: its results, and what nodes
	// compute of them element by element, by way of sums over others too. None is behind the
	// unscale mark.
	down map[*graph.Value]bool
}

// newAmpFlow follows the products of g that multiply in bfloat16.
func newAmpFlow(g *graph.Graph) *ampFlow {
	f := &ampFlow{readers: map[*graph.Value][]*graph.Node{}, narrow: map[*graph.Value]bool{},
		down: map[*graph.Value]bool{}}
	f.propagate(g)
	for _, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil {
				f.readers[v] = append(f.readers[v], n)
			}
		}
		if f.carries(n) && n.Out[0].Type.DType == tensor.Float32 {
			for _, v := range n.Out {
				if v != nil {
					f.narrow[v] = true
				}
			}
		}
	}
	for _, v := range g.Outputs {
		delete(f.narrow, v)
	}
	f.settle()
	return f
}

// propagate goes down from the products.
func (f *ampFlow) propagate(g *graph.Graph) {
	behind := unscaled(g)
	for _, n := range g.Nodes {
		if behind[n] || !inBF16(n) && !inFP16(n) && (addsUp(n) && !normalises(n) ||
			len(n.Bodies()) > 0 ||
			!slices.ContainsFunc(n.In, func(v *graph.Value) bool { return f.down[v] })) {
			continue
		}
		outs := n.Out
		if isAttention(n) {
			outs = products(n)
		}
		if normalises(n) || n.Domain == op.FusedDomain && n.Type == "BatchNormalization" {
			outs = outs[:1] // others are sums
		}
		for _, v := range outs {
			if v != nil && v.Type.DType.IsFloat() {
				f.down[v] = true
			}
		}
	}
}

// carries reports whether the results of n are candidates for narrow, given those among the nodes
// before it.
func (f *ampFlow) carries(n *graph.Node) bool {
	if inBF16(n) {
		return true
	}
	list, _ := ampList(n)
	return list == AmpInfer && !slices.ContainsFunc(carried(n), func(v *graph.Value) bool {
		return v == nil || !f.narrow[v]
	})
}

// settle removes values from narrow until no reader of a remaining value uses more digits of it
// than bfloat16 has.
func (f *ampFlow) settle() {
	for changed := true; changed; {
		changed = false
		for v := range f.narrow {
			if len(f.readers[v]) == 0 ||
				slices.ContainsFunc(f.readers[v], func(n *graph.Node) bool {
					return !f.narrows(n, v)
				}) {
				delete(f.narrow, v)
				changed = true
			}
		}
	}
}

// narrows reports whether reader n uses no more than bfloat16 of v.
func (f *ampFlow) narrows(n *graph.Node, v *graph.Value) bool {
	if inBF16(n) {
		return !slices.Contains(n.In[2:], v)
	}
	if list, _ := ampList(n); list != AmpInfer {
		return false
	}
	return !slices.ContainsFunc(n.Out, func(out *graph.Value) bool {
		return out != nil && !f.narrow[out]
	})
}

// inBF16 reports whether a node is a product that multiplies in bfloat16.
func inBF16(n *graph.Node) bool {
	return isProduct(n) && n.Attrs.String("precision", "") == string(BF16)
}
