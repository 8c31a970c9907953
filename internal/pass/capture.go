package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Captures of bodies.
//
//	f(..., c){body(..., v) using v}     =  f(...){body(...) using the constant c}
//	f(..., x){body(..., v) not using v} =  f(...){body(...)}
//	f(..., x, x){body(..., v, w)}       =  f(..., x){body(..., v) with v for w}
//
// All bodies of a node take the same captures, so one goes only when no body needs it.

func startCapture(*scope) rule {
	return func(n *graph.Node) *Patch {
		bodies := n.Bodies()
		if n.Captures == 0 || len(bodies) == 0 || otherBodies(n) {
			return nil
		}
		var drop []int
		var kept []*graph.Value
		for i, v := range n.In[len(n.In)-n.Captures:] {
			if v.IsConst() || slices.Contains(kept, v) || !slices.ContainsFunc(bodies, needs(i)) {
				drop = append(drop, i)
				continue
			}
			kept = append(kept, v)
		}
		if drop == nil {
			return nil
		}
		return without(n, drop)
	}
}

// otherBodies reports whether n holds bodies that are not graphs, which nobody can rewrite.
func otherBodies(n *graph.Node) bool {
	return slices.ContainsFunc(n.Attrs, func(a op.Attr) bool {
		_, ok := a.Body.(*graph.Graph)
		return a.Body != nil && !ok
	})
}

// needs tells of a body whether it reads capture i.
func needs(i int) func(*graph.Graph) bool {
	return func(b *graph.Graph) bool {
		v := b.Inputs[b.NumFormals()+i]
		return slices.Contains(b.Outputs, v) ||
			slices.ContainsFunc(b.Nodes, func(n *graph.Node) bool {
				return slices.Contains(n.In, v)
			})
	}
}

// without proposes n with fresh bodies that do not take the captures drop.
func without(n *graph.Node, drop []int) *Patch {
	m := &graph.Node{Name: n.Name, Domain: n.Domain, Type: n.Type, Version: n.Version,
		Attrs: slices.Clone(n.Attrs), Row: n.Row,
		Captures: n.Captures - len(drop), Out: make([]*graph.Value, len(n.Out))}
	first := len(n.In) - n.Captures
	outer := n.In[first:]
	for i := range m.Attrs {
		if b, ok := m.Attrs[i].Body.(*graph.Graph); ok {
			m.Attrs[i].Body = dropCaptures(b.Clone(), outer, drop)
		}
	}
	m.In = slices.Clone(n.In[:first])
	for i, v := range outer {
		if !slices.Contains(drop, i) {
			m.In = append(m.In, v)
		}
	}
	p := &Patch{Insert: []*graph.Node{m}}
	for i, v := range n.Out {
		if v != nil {
			m.Out[i] = &graph.Value{Name: v.Name, Producer: m, Index: i}
			p.Replace = append(p.Replace, Replacement{v, m.Out[i]})
		}
	}
	return p
}

// exchange puts another value in place of each that to names.
func exchange(vs []*graph.Value, to map[*graph.Value]*graph.Value) {
	for i, v := range vs {
		if w := to[v]; w != nil {
			vs[i] = w
		}
	}
}

// dropCaptures takes captures away from a body, putting constants and earlier captures of the same
// value in their place.
func dropCaptures(b *graph.Graph, outer []*graph.Value, drop []int) *graph.Graph {
	formals := b.NumFormals()
	captures := b.Inputs[formals:]
	to := map[*graph.Value]*graph.Value{}
	for _, i := range drop {
		if v := outer[i]; v.IsConst() {
			to[captures[i]] = graph.NewConst(captures[i].Name, v.Const())
		} else if j := keeper(outer, drop, v); j >= 0 {
			to[captures[i]] = captures[j]
		}
	}
	for _, n := range b.Nodes {
		exchange(n.In, to)
	}
	exchange(b.Outputs, to)
	kept := slices.Clone(b.Inputs[:formals])
	for i, v := range captures {
		if !slices.Contains(drop, i) {
			kept = append(kept, v)
		}
	}
	b.Inputs, b.Captures = kept, b.Captures-len(drop)
	return b
}

// keeper returns the index of a capture of v that is not in drop, or -1 when all of them are.
func keeper(outer []*graph.Value, drop []int, v *graph.Value) int {
	for i, w := range outer {
		if w == v && !slices.Contains(drop, i) {
			return i
		}
	}
	return -1
}
