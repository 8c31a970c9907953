package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Where numbers are rounded to the steps of integers between each two of several operators on
// single elements, these become one: each would read and write all of memory by itself.
//
//	Grid(Div(Grid(x · Grid(Clip(Grid(x + 3)))), 6))  =  weir:Chain(x)
//
// Numbers that are added and so on are constants of one element. Every link rounds as its operator
// does, so that the bits are the same.

func startChain(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.portable {
			return nil
		}
		if p := s.timesKept(n); p != nil {
			return p
		}
		after := chainOf(n)
		if after == nil || !s.only(after.x) {
			return nil
		}
		before := chainOf(producer(after.x))
		if before == nil || !before.rounds() && !after.rounds() {
			return nil
		}
		if slices.Contains(after.links, op.LinkTimes) && len(after.links) > 1 {
			before.add(op.LinkKeep)
		}
		before.links = append(before.links, after.links...)
		before.values = append(before.values, after.values...)
		return before.instead(n)
	}
}

// timesKept makes Mul(x, Chain(x)) a link more.
func (s *scope) timesKept(n *graph.Node) *Patch {
	if !is(n, "Mul") || !sameShape(n.In[0], n.In[1]) {
		return nil
	}
	for i, y := range n.In {
		c, x := chainOf(producer(y)), n.In[1-i]
		if c == nil || !s.only(y) || c.x != x || !c.rounds() ||
			slices.Contains(c.links, op.LinkKeep) {
			continue
		}
		c.add(op.LinkTimes)
		return c.instead(n)
	}
	return nil
}

// chain is links from x on.
type chain struct {
	x      *graph.Value
	links  []op.Link
	values []float32
}

// chainOf is the chain that one node computes, nil where it is none.
func chainOf(n *graph.Node) *chain {
	if n == nil || len(n.Out) != 1 || len(n.In) == 0 || n.In[0] == nil ||
		n.Out[0].Type.DType != tensor.Float32 {
		return nil
	}
	c := &chain{x: n.In[0]}
	switch {
	case n.Domain == op.FusedDomain && n.Type == "Chain":
		links, values := op.LinksOf(n.Attrs)
		c.links, c.values = slices.Clone(links), slices.Clone(values)
	case n.Domain == op.FusedDomain && n.Type == "Grid":
		if _, params, ok := gridActivation(n); ok {
			c.add(op.LinkGrid, params...)
		}
	case is(n, "Clip"):
		if _, params, ok := clipActivation(n); ok {
			c.add(op.LinkClip, params...)
		}
	case is(n, "Add"):
		c.number(n, op.LinkAdd, true)
	case is(n, "Mul"):
		c.number(n, op.LinkMul, true)
	case is(n, "Div"):
		c.number(n, op.LinkDiv, false)
	}
	if len(c.links) == 0 || c.x.IsConst() || !sameShape(c.x, n.Out[0]) {
		return nil
	}
	return c
}

// number adds the link of an operator with a constant of one element, either operand where that is
// the same.
func (c *chain) number(n *graph.Node, s op.Link, either bool) {
	for i := 1; i >= 0; i-- {
		k := n.In[i]
		if k.IsConst() && k.Const().DType == tensor.Float32 && k.Const().Len() == 1 {
			c.x = n.In[1-i]
			c.add(s, tensor.As[float32](k.Const())[0])
			return
		}
		if !either {
			return
		}
	}
}

// add adds a link.
func (c *chain) add(s op.Link, values ...float32) {
	c.links = append(c.links, s)
	c.values = append(c.values, append(values, make([]float32, op.LinkNumbers-len(values))...)...)
}

// rounds reports whether a link rounds to integers.
func (c *chain) rounds() bool { return slices.Contains(c.links, op.LinkGrid) }

// instead computes the chain in place of n.
func (c *chain) instead(n *graph.Node) *Patch {
	return instead(
		n, operator(n, op.FusedDomain, "Chain", 1, op.LinksAttrs(c.links, c.values), c.x),
	)
}
