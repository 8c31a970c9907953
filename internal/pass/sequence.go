package pass

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Sequences whose values are known one by one, and optionals that are known to hold one.
//
//	SequenceAt(s, i)                    =  xi
//	SequenceLength(s)                   =  n
//	ConcatFromSequence(s)               =  Concat(x0, ..., xn-1)
//	ConcatFromSequence(s), new_axis     =  Concat(Unsqueeze(x0), ..., Unsqueeze(xn-1))
//	SplitToSequence(x)                  =  SequenceConstruct(Split(x))
//	                                         (when only nodes as above read it)
//	OptionalGetElement(Optional(x))     =  x
//	OptionalGetElement(x), no optional  =  x
//	OptionalHasElement(Optional(x))     =  true
//	OptionalHasElement(Optional())      =  false
//
// where s is a SequenceConstruct, or is made of one or of a SequenceEmpty by SequenceInsert and
// SequenceErase, all at constant positions. Exporters write lists of tensors this way; tensors have
// planned memory and fast kernels, and sequences have not.

// maxItems bounds the sequences that are taken apart.
const maxItems = 256

func startSequence(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if n.Domain != "" || len(n.Out) != 1 || n.Out[0] == nil {
			return nil
		}
		switch n.Type {
		case "SequenceAt":
			return s.knownItem(n)
		case "SequenceLength":
			if items, ok := sequenceItems(n.In[0]); ok {
				return s.constant(n, tensor.Scalar(int64(len(items))))
			}
		case "ConcatFromSequence":
			return joinItems(n)
		case "SplitToSequence":
			return s.splitItems(n)
		case "OptionalGetElement":
			return s.knownElement(n)
		case "OptionalHasElement":
			if m := from(firstInput(n), "Optional"); m != nil {
				return s.constant(n, tensor.Scalar(firstInput(m) != nil))
			}
		}
		return nil
	}
}

func firstInput(n *graph.Node) *graph.Value {
	if len(n.In) == 0 {
		return nil
	}
	return n.In[0]
}

// constant proposes that the output of n is a constant.
func (s *scope) constant(n *graph.Node, t *tensor.Tensor) *Patch {
	return forward(n, graph.NewConst(n.Out[0].Name, t))
}

// sequenceItems returns the values of a sequence when all of them are known.
func sequenceItems(v *graph.Value) (items []*graph.Value, ok bool) {
	var changes []*graph.Node // the last first
	n := producer(v)
	for ; n != nil && (is(n, "SequenceInsert") || is(n, "SequenceErase")) &&
		len(changes) < maxItems; n = producer(n.In[0]) {
		changes = append(changes, n)
	}
	switch {
	case is(n, "SequenceConstruct"):
		items = slices.Clone(n.In)
	case !is(n, "SequenceEmpty"):
		return nil, false
	}
	slices.Reverse(changes)
	for _, n := range changes {
		if items, ok = changed(n, items); !ok {
			return nil, false
		}
	}
	return items, len(items) <= maxItems && !slices.Contains(items, nil)
}

// changed is what a SequenceInsert or SequenceErase makes of a sequence of known values.
func changed(n *graph.Node, items []*graph.Value) ([]*graph.Value, bool) {
	if n.Type == "SequenceErase" {
		at, ok := position(n, 1, len(items), len(items)-1)
		if !ok || at >= len(items) {
			return nil, false
		}
		return slices.Delete(items, at, at+1), true
	}
	at, ok := position(n, 2, len(items), len(items))
	if !ok {
		return nil, false
	}
	return slices.Insert(items, at, n.In[1]), true
}

// position reads a constant position in a sequence of n values, from 0 to n; def when it is left
// out.
func position(m *graph.Node, input, n, def int) (at int, ok bool) {
	if input >= len(m.In) || m.In[input] == nil {
		return def, def >= 0
	}
	v, ok := m.In[input].Type.IntElems()
	if !ok || len(v) != 1 || v[0] < -n || v[0] > n {
		return 0, false
	}
	if at = v[0]; at < 0 {
		at += n
	}
	return at, true
}

func (s *scope) knownItem(n *graph.Node) *Patch {
	items, ok := sequenceItems(n.In[0])
	if !ok {
		return nil
	}
	at, ok := position(n, 1, len(items), 0)
	if !ok || at >= len(items) || !s.replaceable(n.Out[0], items[at]) {
		return nil
	}
	return forward(n, items[at])
}

func (s *scope) knownElement(n *graph.Node) *Patch {
	x := firstInput(n)
	if m := from(x, "Optional"); m != nil {
		x = firstInput(m)
	} else if x == nil || !x.Type.DType.Valid() && x.Type.DType != tensor.Sequence {
		return nil
	}
	if x == nil || !s.replaceable(n.Out[0], x) {
		return nil
	}
	return forward(n, x)
}

// joinItems proposes a Concat.
func joinItems(n *graph.Node) *Patch {
	items, ok := sequenceItems(n.In[0])
	if !ok || len(items) == 0 {
		return nil
	}
	axis := n.Attrs.Int("axis", 0)
	p := &Patch{}
	if n.Attrs.Bool("new_axis", false) {
		for i, v := range items {
			items[i] = alongAxis(p, n, "Unsqueeze", v, axis)
		}
	}
	join := operator(n, "", "Concat", n.Version, op.Attrs{op.IntAttr("axis", axis)}, items...)
	p.Insert = append(p.Insert, join)
	p.Replace = []Replacement{{n.Out[0], join.Out[0]}}
	return p
}

// alongAxis inserts a Squeeze or Unsqueeze of one axis of v, which is an input of its own since
// opset 13.
func alongAxis(p *Patch, n *graph.Node, typ string, v *graph.Value, axis int64) *graph.Value {
	var m *graph.Node
	if n.Version < 13 {
		m = operator(n, "", typ, n.Version, op.Attrs{op.IntsAttr("axes", axis)}, v)
	} else {
		m = operator(n, "", typ, n.Version, nil, v,
			graph.NewConst(n.Out[0].Name+"_axes", tensor.From([]int64{axis}, 1)))
	}
	p.Insert = append(p.Insert, m)
	return m.Out[0]
}

// splitItems proposes a Split into tensors when every reader takes the sequence apart again.
func (s *scope) splitItems(n *graph.Node) *Patch {
	v := n.Out[0]
	if s.output[v] {
		return nil
	}
	if !s.readByPlace(v) {
		return nil
	}
	axis, parts := splitParts(n)
	if len(parts) == 0 || len(parts) > maxItems {
		return nil
	}
	split := splitNode(n, axis, parts)
	p := &Patch{Insert: []*graph.Node{split}}
	items := slices.Clone(split.Out)
	if !n.Attrs.Bool("keepdims", true) && (len(n.In) < 2 || n.In[1] == nil) {
		for i, item := range items {
			items[i] = alongAxis(p, n, "Squeeze", item, axis)
		}
	}
	list := operator(n, "", "SequenceConstruct", n.Version, nil, items...)
	p.Insert = append(p.Insert, list)
	p.Replace = []Replacement{{v, list.Out[0]}}
	return p
}

// readByPlace reports whether all that read a sequence take its length, all of it or a known item.
func (s *scope) readByPlace(v *graph.Value) bool {
	for _, r := range s.readers(v) {
		_, known := position(r, 1, maxItems, 0)
		if !is(r, "SequenceAt") && !is(r, "SequenceLength") && !is(r, "ConcatFromSequence") ||
			is(r, "SequenceAt") && !known {
			return false
		}
	}
	return true
}

// splitNode makes the Split, whose lengths are an input since opset 13.
func splitNode(n *graph.Node, axis int64, parts []int64) *graph.Node {
	names := make([]string, len(parts))
	for i := range names {
		names[i] = fmt.Sprintf("%s_%d", n.Out[0].Name, i)
	}
	attrs := op.Attrs{op.IntAttr("axis", axis)}
	in := []*graph.Value{n.In[0]}
	if n.Version < 13 {
		attrs = append(attrs, op.IntsAttr("split", parts...))
	} else {
		in = append(in, graph.NewConst(n.Out[0].Name+"_lengths", tensor.From(parts, len(parts))))
	}
	return graph.NewNode(n.Name, "Split", n.Version, attrs, in, names...)
}

// splitParts returns the lengths that a SplitToSequence gives its values, nil when they are not
// known or too many.
func splitParts(n *graph.Node) (axis int64, parts []int64) {
	x := n.In[0].Type
	axis = n.Attrs.Int("axis", 0)
	k := axis
	if k < 0 {
		k += int64(len(x.Shape))
	}
	if !x.Ranked || k < 0 || k >= int64(len(x.Shape)) {
		return 0, nil
	}
	size, ok := x.Shape[k].Int()
	length := 1
	if len(n.In) > 1 && n.In[1] != nil {
		given := n.In[1].Type
		lens, known := given.IntElems()
		if !known || !given.Ranked {
			return 0, nil
		}
		if len(given.Shape) > 0 {
			return axis, convert[int64](lens)
		}
		length = lens[0]
	}
	if !ok || length < 1 || size/length > maxItems {
		return 0, nil
	}
	for rest := size; rest > 0; rest -= length {
		parts = append(parts, int64(min(length, rest)))
	}
	return axis, parts
}
