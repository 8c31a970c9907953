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
//	Grid(Grid(Conv(x, w)) + r)                       =  weir:Chain(weir:Conv(x, w), r)
//
// What is added and so on is a constant of one element, or broadcasts to the other operand. Every
// link rounds as its operator does, so that the bits are the same.

func startChain(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.portable {
			return nil
		}
		if p := s.timesKept(n); p != nil {
			return p
		}
		if p := s.roundedFirst(n); p != nil {
			return p
		}
		after := s.chainOf(n)
		if after == nil || !s.only(after.x) {
			return nil
		}
		before := s.chainOf(producer(after.x))
		if before == nil || !before.rounds() && !after.rounds() || !before.then(after) {
			return nil
		}
		return before.instead(n)
	}
}

// timesKept makes Mul(x, Chain(x)) a link more.
func (s *scope) timesKept(n *graph.Node) *Patch {
	if !is(n, "Mul") || !sameShape(n.In[0], n.In[1]) {
		return nil
	}
	for i, y := range n.In {
		c, x := s.chainOf(producer(y)), n.In[1-i]
		if c == nil || !s.only(y) || c.x != x || !c.rounds() || len(c.others) > 0 ||
			slices.Contains(c.links, op.LinkKeep) {
			continue
		}
		c.add(op.LinkTimes)
		return c.instead(n)
	}
	return nil
}

// roundedFirst takes the rounding of a product into the chain n that alone reads it: links of which
// the first rounds are a function of so many integers, which a device may tabulate.
func (s *scope) roundedFirst(n *graph.Node) *Patch {
	if n.Domain != op.FusedDomain || n.Type != "Chain" || !s.only(n.In[0]) {
		return nil
	}
	m := producer(n.In[0])
	if m == nil || m.Domain != op.FusedDomain || m.Attrs.String("activation", "") != "Grid" {
		return nil
	}
	plain, first := withoutActivation(m.Attrs)
	fused := operator(m, m.Domain, m.Type, m.Version, plain, m.In...)
	c := &chain{x: fused.Out[0]}
	c.add(op.LinkGrid, first...)
	if !c.then(s.chainOf(n)) {
		return nil
	}
	p := c.instead(n)
	p.Insert = []*graph.Node{fused, p.Insert[0]}
	return p
}

// chain is links from x on, some of which take the other operands.
type chain struct {
	x      *graph.Value
	others []*graph.Value
	links  []op.Link
	values []float32
}

// chainOf is the chain that one node computes, nil where it is none.
func (s *scope) chainOf(n *graph.Node) *chain {
	if n == nil || len(n.Out) != 1 || len(n.In) == 0 || n.In[0] == nil ||
		n.Out[0].Type.DType != tensor.Float32 {
		return nil
	}
	c := &chain{x: n.In[0]}
	switch {
	case n.Domain == op.FusedDomain && n.Type == "Chain":
		links, values := op.LinksOf(n.Attrs)
		c.links, c.values = slices.Clone(links), slices.Clone(values)
		c.others = slices.Clone(n.In[1:])
	case n.Domain == op.FusedDomain && n.Type == "Grid":
		if _, params, ok := gridActivation(n); ok {
			c.add(op.LinkGrid, params...)
		}
	case is(n, "Clip"):
		if _, params, ok := clipActivation(n); ok {
			c.add(op.LinkClip, params...)
		}
	case is(n, "Sigmoid"):
		c.add(op.LinkSigmoid)
	case is(n, "Add"):
		if !c.number(n, op.LinkAdd, true) {
			s.operand(c, n, op.LinkPlus)
		}
	case is(n, "Mul"):
		if !c.number(n, op.LinkMul, true) {
			s.operand(c, n, op.LinkBy)
		}
	case is(n, "Div"):
		c.number(n, op.LinkDiv, false)
	}
	if len(c.links) == 0 || c.x.IsConst() || !sameShape(c.x, n.Out[0]) {
		return nil
	}
	return c
}

// number adds the link of an operator with a constant of one element, either operand where that is
// the same; false where there is none.
func (c *chain) number(n *graph.Node, s op.Link, either bool) bool {
	for i := 1; i >= 0; i-- {
		k := n.In[i]
		if k.IsConst() && k.Const().DType == tensor.Float32 && k.Const().Len() == 1 {
			c.x = n.In[1-i]
			c.add(s, tensor.As[float32](k.Const())[0])
			return true
		}
		if !either {
			break
		}
	}
	return false
}

// operand adds the link of an operator on two operands, of which x is the one that a chain may come
// before.
func (s *scope) operand(c *chain, n *graph.Node, l op.Link) {
	at := -1
	for i, x := range n.In {
		if !sameShape(x, n.Out[0]) || x.IsConst() {
			continue
		}
		if m := producer(x); at < 0 || s.only(x) && m != nil && m.Domain == op.FusedDomain {
			at = i
		}
	}
	if at < 0 || n.In[0] == n.In[1] {
		return
	}
	c.x, c.others = n.In[at], []*graph.Value{n.In[1-at]}
	c.add(l, 1)
}

// add adds a link.
func (c *chain) add(s op.Link, values ...float32) {
	c.links = append(c.links, s)
	c.values = append(c.values, append(values, make([]float32, op.LinkNumbers-len(values))...)...)
}

// then adds the links of another chain; false where there would be too many operands. Of those
// that have as many elements as x one is enough: each has to be kept until the chain is computed,
// and x, too, where it is another operand as well.
func (c *chain) then(after *chain) bool {
	others, whole := append(slices.Clone(c.others), after.others...), 0
	for _, v := range others {
		if sameShape(v, c.x) {
			whole++
		}
	}
	if 1+len(others) > op.MaxChained || whole > 1 {
		return false
	}
	if slices.Contains(after.links, op.LinkTimes) && len(after.links) > 1 {
		c.add(op.LinkKeep)
	}
	for i, l := range after.links {
		v := slices.Clone(after.values[op.LinkNumbers*i:][:op.LinkNumbers])
		if l.Operand() {
			v[0] += float32(len(c.others))
		}
		c.add(l, v...)
	}
	c.others = append(c.others, after.others...)
	return true
}

// rounds reports whether a link rounds to integers.
func (c *chain) rounds() bool { return slices.Contains(c.links, op.LinkGrid) }

// instead computes the chain in place of n.
func (c *chain) instead(n *graph.Node) *Patch {
	in := append([]*graph.Value{c.x}, c.others...)
	return instead(
		n, operator(n, op.FusedDomain, "Chain", 1, op.LinksAttrs(c.links, c.values), in...),
	)
}
