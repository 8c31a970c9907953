package pass

import (
	"fmt"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Patch is one rewrite that a rule proposes at a node, its anchor. The driver puts the inserted
// nodes where the anchor stands, so they may read whatever is computed before it; names of values
// and types are the driver's business.
type Patch struct {
	// Insert holds new nodes in topological order.
	Insert []*graph.Node
	// Replace redirects every reader of Old, and the graph's outputs, to New: an output of an
	// inserted node, a constant, or a value computed before the anchor. A node whose outputs nobody
	// reads afterwards goes, and so on up its inputs.
	Replace []Replacement
	// Operands gives single nodes other operands; other readers of the old ones keep them.
	Operands []Operand
	// Remove names nodes whose outputs nobody reads.
	Remove []*graph.Node
}

// Operand is one value that takes another's place for one reader.
type Operand struct {
	Node     *graph.Node
	Old, New *graph.Value
}

// Replacement is one value that takes another's place.
type Replacement struct{ Old, New *graph.Value }

// rule looks at one node and proposes a patch anchored there, nil when it finds nothing to do.
type rule func(n *graph.Node) *Patch

// instead proposes that m takes the place of n, each of its outputs that of one of n.
func instead(n, m *graph.Node) *Patch {
	p := &Patch{Insert: []*graph.Node{m}}
	for i, v := range m.Out {
		if v != nil && n.Out[i] != nil {
			p.Replace = append(p.Replace, Replacement{n.Out[i], v})
		}
	}
	return p
}

// forward proposes that the first output of n is v, which exists.
func forward(n *graph.Node, v *graph.Value) *Patch {
	return &Patch{Replace: []Replacement{{n.Out[0], v}}}
}

// operator makes a node of one output that is named like n.
func operator(n *graph.Node, domain, typ string, version int, attrs op.Attrs,
	in ...*graph.Value) *graph.Node {
	m := graph.NewNode(n.Name, typ, version, attrs, in, n.Out[0].Name)
	m.Domain = domain
	return m
}

// anew makes a node of the type and with the outputs of n.
func anew(n *graph.Node, domain string, version int, attrs op.Attrs,
	in []*graph.Value) *graph.Node {
	names := make([]string, len(n.Out))
	for i, v := range n.Out {
		if v != nil {
			names[i] = v.Name
		}
	}
	m := graph.NewNode(n.Name, n.Type, version, attrs, in, names...)
	m.Domain = domain
	return m
}

// apply carries a patch out and returns the nodes that it inserted. It refuses, and changes
// nothing, when a shape rule refuses an inserted node or a replaced value would change its element
// type or shape.
func (s *scope) apply(p *Patch) ([]*graph.Node, error) {
	if err := s.typeInserted(p); err != nil {
		return nil, err
	}
	inserted := p.Insert
	for _, r := range p.Replace {
		if m := s.replace(r); m != nil {
			inserted = append(inserted, m)
		}
	}
	for _, n := range inserted {
		s.register(n)
	}
	for _, o := range p.Operands {
		s.swap(o)
	}
	for _, r := range p.Replace {
		s.drop(r.Old.Producer)
	}
	for _, n := range p.Remove {
		s.drop(n)
	}
	return inserted, nil
}

// typeInserted names and types the outputs of the inserted nodes.
func (s *scope) typeInserted(p *Patch) error {
	for _, r := range p.Replace {
		if r.New.Producer != nil && !s.computed(r.New) {
			declared := r.Old.Type
			declared.Const, declared.Elems = nil, nil
			r.New.Type = declared
		}
	}
	for _, n := range p.Insert {
		for _, v := range n.Out {
			if v != nil {
				v.Name = s.fresh(v.Name)
			}
		}
		if err := n.InferTypes(); err != nil {
			return err
		}
	}
	for _, r := range p.Replace {
		if err := sameTypes(r.Old, r.New); err != nil {
			return err
		}
	}
	for _, o := range p.Operands {
		if err := sameTypes(o.Old, o.New); err != nil {
			return err
		}
	}
	return nil
}

// sameTypes checks that one value can stand for another.
func sameTypes(old, by *graph.Value) error {
	if err := sameValue(old.Type, by.Type); err != nil {
		return fmt.Errorf("value %q: %w", old.Name, err)
	}
	return nil
}

// sameValue refuses two types that no single value can have both of.
func sameValue(a, b op.Type) error {
	clash := a.DType.Valid() && b.DType.Valid() && a.DType != b.DType
	if a.Ranked && b.Ranked {
		clash = clash || len(a.Shape) != len(b.Shape)
		for i := 0; !clash && i < len(a.Shape); i++ {
			m, known := a.Shape[i].Int()
			n, ok := b.Shape[i].Int()
			clash = known && ok && m != n
		}
	}
	if clash {
		return fmt.Errorf("%w: %v would become %v", graph.ErrInvalid, a, b)
	}
	return nil
}

// replace redirects the readers of r.Old. A graph output keeps its name, which the new value takes;
// a value whose own name is bound (an input, another output) is passed through an Identity node,
// which is returned.
func (s *scope) replace(r Replacement) (identity *graph.Node) {
	to := r.New
	bound := s.output[r.Old] && !s.inner
	switch {
	case bound && to.IsConst():
		to = graph.NewConst(s.fresh(r.Old.Name), to.Const())
		swapNames(r.Old, to)
	case bound && !s.renamable(to):
		identity = s.identity(r.Old, to)
		to = identity.Out[0]
		swapNames(r.Old, to)
	case to.Producer != nil && (bound || !s.computed(to)):
		swapNames(r.Old, to)
	case to.IsConst() && !s.computed(to):
		s.adopt(to)
		swapNames(r.Old, to)
	}
	s.redirect(r.Old, to)
	return identity
}

// swap gives a node another operand.
func (s *scope) swap(o Operand) {
	for i, v := range o.Node.In {
		if v == o.Old {
			o.Node.In[i] = o.New
			s.count[o.New]++
			s.count[o.Old]--
		}
	}
	s.users[o.New] = append(s.users[o.New], o.Node)
	s.dirty[o.Node] = s.dirty[o.Node] || !o.Old.Type.Identical(o.New.Type)
}

// identity makes the node that gives to in place of old.
func (s *scope) identity(old, to *graph.Value) *graph.Node {
	n := graph.NewNode(old.Producer.Name, "Identity", old.Producer.Version, nil, []*graph.Value{to},
		s.fresh(old.Name))
	if old.Producer.Domain != "" {
		n.Version = s.opset
	}
	n.Out[0].Type = to.Type
	return n
}

// redirect makes the readers of a value, and the graph's outputs, take another.
func (s *scope) redirect(from, to *graph.Value) {
	changed := !from.Type.Identical(to.Type)
	for _, n := range s.readers(from) {
		for i, v := range n.In {
			if v == from {
				n.In[i] = to
				s.count[to]++
				s.count[from]--
			}
		}
		s.users[to] = append(s.users[to], n)
		s.dirty[n] = s.dirty[n] || changed
	}
	if s.output[from] {
		for i, v := range s.g.Outputs {
			if v == from {
				s.g.Outputs[i] = to
			}
		}
		delete(s.output, from)
		s.output[to] = true
	}
}

func swapNames(a, b *graph.Value) { a.Name, b.Name = b.Name, a.Name }
