package pass

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"
	"math"
	"slices"
	"strconv"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Common subexpressions.
//
//	y = f(a, b), z = f(a, b)   =  y = f(a, b), z = y    f pure, same attributes, no bodies
//	y = f(a, b), z = f(b, a)   =  the same              f commutative
//	equal constants            =  one constant
//
// Constants of up to maxHashed bytes are equal when their contents are; larger ones are equal only
// when they are the same bytes in memory, since comparing hundreds of megabytes costs much and
// rarely finds anything.

const maxHashed = 64 << 10

func startCSE(s *scope) rule {
	c := &numbering{scope: s, seed: maphash.MakeSeed(), ids: map[*graph.Value]uint32{},
		nodes:     map[string]*graph.Node{},
		constants: map[uint64][]*graph.Value{}}
	return func(n *graph.Node) *Patch {
		if p := c.mergeConstants(n); p != nil {
			return p
		}
		return c.mergeNode(n)
	}
}

// numbering is hash-based value numbering over one sweep.
type numbering struct {
	*scope
	seed      maphash.Seed
	ids       map[*graph.Value]uint32
	nodes     map[string]*graph.Node
	constants map[uint64][]*graph.Value
	key       []byte
}

// mergeConstants redirects constant inputs of n to equal ones that an earlier node reads.
func (c *numbering) mergeConstants(n *graph.Node) *Patch {
	var p Patch
	for _, v := range n.In {
		if v == nil || !v.IsConst() {
			continue
		}
		if _, seen := c.ids[v]; seen {
			continue
		}
		if w := c.sameConstant(v); w != nil {
			if !slices.Contains(p.Replace, Replacement{v, w}) {
				p.Replace = append(p.Replace, Replacement{v, w})
			}
			continue
		}
		c.id(v)
	}
	if p.Replace == nil {
		return nil
	}
	return &p
}

// sameConstant returns an earlier constant that equals v, nil when there is none and v is now an
// earlier one itself.
func (c *numbering) sameConstant(v *graph.Value) *graph.Value {
	t := v.Const()
	h := c.hash(t)
	for _, w := range c.constants[h] {
		if w != v && sameTensor(t, w.Const()) && !c.output[v] {
			return w
		}
	}
	c.constants[h] = append(c.constants[h], v)
	return nil
}

func (c *numbering) hash(t *tensor.Tensor) uint64 {
	var h maphash.Hash
	h.SetSeed(c.seed)
	h.WriteByte(byte(t.DType))
	for _, d := range t.Shape {
		maphash.WriteComparable(&h, d)
	}
	for _, s := range t.Strings {
		h.WriteString(s)
	}
	if len(t.Data) <= maxHashed {
		h.Write(t.Data)
	} else {
		maphash.WriteComparable(&h, &t.Data[0])
	}
	return h.Sum64()
}

func sameTensor(a, b *tensor.Tensor) bool {
	if len(a.Data) > maxHashed {
		return a.DType == b.DType && slices.Equal(a.Shape, b.Shape) && len(a.Data) == len(b.Data) &&
			&a.Data[0] == &b.Data[0]
	}
	return tensor.Equal(a, b)
}

func (c *numbering) id(v *graph.Value) uint32 {
	id, ok := c.ids[v]
	if !ok {
		id = uint32(len(c.ids)) + 1
		c.ids[v] = id
	}
	return id
}

// mergeNode redirects the readers of n to an earlier node that computes the same.
func (c *numbering) mergeNode(n *graph.Node) *Patch {
	o, err := n.Op()
	if err != nil || !o.Pure(n.Call()) || len(n.Bodies()) > 0 || otherBodies(n) || c.dead(n) {
		return nil
	}
	key := c.describe(o, n)
	m := c.nodes[key]
	if m == nil || m == n || c.removed[m] {
		c.nodes[key] = n
		return nil
	}
	var p Patch
	for i, v := range n.Out {
		if !c.used(v) {
			continue
		}
		if !c.replaceable(v, m.Out[i]) {
			return nil
		}
		p.Replace = append(p.Replace, Replacement{v, m.Out[i]})
	}
	return &p
}

// describe writes what n computes as a string: equal strings, equal results.
func (c *numbering) describe(o *op.Op, n *graph.Node) string {
	k := fmt.Appendf(c.key[:0], "%q %q %d", n.Domain, n.Type, o.SinceVersion(n.Version))
	for _, id := range c.operands(o, n) {
		k = binary.AppendUvarint(append(k, ' '), uint64(id))
	}
	for _, v := range n.Out {
		k = append(k, '>')
		if v != nil {
			k = append(k, 'v')
		}
	}
	for _, i := range sorted(n.Attrs) {
		k = appendAttr(k, &n.Attrs[i])
	}
	c.key = k
	return string(k)
}

// operands numbers what n reads, in one order where the operands may be exchanged; 0 is an absent
// one.
func (c *numbering) operands(o *op.Op, n *graph.Node) []uint32 {
	in := make([]uint32, len(n.In))
	for i, v := range n.In {
		if v != nil {
			in[i] = c.id(v)
		}
	}
	if o.Has(op.Commutative) && len(in) == 2 {
		slices.Sort(in)
	}
	return in
}

// sorted returns the indices of attributes by name.
func sorted(as op.Attrs) []int {
	order := make([]int, len(as))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int {
		switch {
		case as[i].Name < as[j].Name:
			return -1
		case as[i].Name > as[j].Name:
			return 1
		}
		return 0
	})
	return order
}

// appendAttr writes an attribute; tensors count as equal when they are the same object.
func appendAttr(k []byte, a *op.Attr) []byte {
	// not by fmt: a tree ensemble has lists of a million elements
	k = strconv.AppendQuote(append(k, '\n'), a.Name)
	k = strconv.AppendUint(append(k, ' '), uint64(a.Kind), 10)
	for _, v := range a.Ints {
		k = strconv.AppendInt(append(k, ' '), v, 10)
	}
	for _, s := range a.Strings {
		k = strconv.AppendQuote(append(k, ' '), s)
	}
	for _, f := range a.Floats {
		k = strconv.AppendUint(append(k, " f"...), uint64(math.Float32bits(f)), 16)
	}
	if a.Tensor != nil {
		k = fmt.Appendf(k, " %p", a.Tensor)
	}
	if a.Kind == op.AttrType {
		k = fmt.Appendf(k, " %v", a.Type)
	}
	return k
}
