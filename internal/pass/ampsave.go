package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Values that the backward half of a step of training reads again are kept in 16 bits meanwhile, as
// delayed precision reduction does (Jain et al., "Gist: Efficient data encoding for deep neural
// network training", ISCA 2018):
//
//	y = f(x)  ...  z = g(x)   =   y = f(x), h = Cast(x, 16 bits)  ...  z = g(Cast(h, float32))
//
// The forward half computes what it did. A reader that multiplies x in 16 bits rounds it anyway and
// gives the bits that it gave; others read a rounded x, which is taken only where x comes down from
// a product in 16 bits, by operators that add up few elements (ampflow.go). A cast moves six bytes
// an element, so only what is alive where most bytes are is kept so: the place of most bytes is
// looked for, what waits there is halved, and so on until nothing more can be.

// savedAttr numbers the casts that widen saved values. Equal ones are not to be merged, as then the
// wide value would wait in place of the narrow one.
const savedAttr = "_saved"

// leastSaved is the number of elements from which halving a value is worth a step.
const leastSaved = 1 << 12

// half is the type of 16 bits of a precision.
func (p Precision) half() tensor.DType {
	if p == FP16 {
		return tensor.Float16
	}
	return tensor.BFloat16
}

func startAmpSave(s *scope) rule {
	if !s.precision.mixed() || s.portable || s.inner || s.precision != FP16 && !s.features.BF16 {
		return func(*graph.Node) *Patch { return nil }
	}
	plan := newSaving(s.g, s.precision).plan()
	return func(n *graph.Node) *Patch {
		todo := plan[n]
		delete(plan, n)
		p := &Patch{}
		for _, v := range todo {
			v.patch(s, n, p)
		}
		if len(p.Insert) == 0 {
			return nil
		}
		return p
	}
}

// saved is a value that waits for the readers after a gap.
type saved struct {
	value    *graph.Value
	half     tensor.DType
	bytes    int64        // that 16 bits save
	from, to int          // positions of the last node before the gap and of the first after it
	readers  []read       // after the gap
	downAt   *graph.Node  // before which the value is narrowed; nil where it was narrow before
	kept     *graph.Value // the narrow value, once there is one
	wide     string       // what keeps it in float32, "" where nothing does
	number   int64        // of the next cast that widens it
}

// patch inserts what concerns node n: the narrowing of a value before it, or the widening of one
// that it reads.
func (v *saved) patch(s *scope, n *graph.Node, p *Patch) {
	if n == v.downAt && v.kept == nil {
		down := s.castTo(v.value, v.half)
		p.Insert = append(p.Insert, down)
		v.kept = down.Out[0]
	}
	for _, r := range v.readers {
		if r.node != n {
			continue
		}
		up := s.castTo(v.viewed(r.value, p), tensor.Float32, op.IntAttr(savedAttr, v.number))
		v.number++
		p.Insert = append(p.Insert, up)
		p.Operands = append(p.Operands, Operand{Node: n, Old: r.value, New: up.Out[0]})
	}
}

// viewed is the narrow value under the shape of a view of the wide one: of that nothing is read
// after the gap, or it would be alive meanwhile.
func (v *saved) viewed(as *graph.Value, p *Patch) *graph.Value {
	if as == v.value {
		return v.kept
	}
	from := as.Producer
	in := slices.Clone(from.In)
	in[0] = v.viewed(in[0], p)
	m := operator(from, from.Domain, from.Type, from.Version, from.Attrs, in...)
	p.Insert = append(p.Insert, m)
	return m.Out[0]
}

// saving finds the values of a graph that are kept in 16 bits.
type saving struct {
	g      *graph.Graph
	half   tensor.DType
	flow   *ampFlow
	behind map[*graph.Node]bool
	at     map[*graph.Node]int
	root   map[*graph.Value]*graph.Value // what shares the bytes of a value, by view operators
	reads  map[*graph.Value][]read       // of a root
	live   []int64                       // bytes alive at each position
	next   int64
}

// read is one reader of a value.
type read struct {
	at    int
	node  *graph.Node
	value *graph.Value
}

func newSaving(g *graph.Graph, p Precision) *saving {
	f := &saving{g: g, half: p.half(), behind: unscaled(g), at: map[*graph.Node]int{},
		root: map[*graph.Value]*graph.Value{}, reads: map[*graph.Value][]read{}}
	if f.behind == nil {
		return f
	}
	f.flow = newAmpFlow(g)
	for i, n := range g.Nodes {
		f.at[n] = i
		f.next = max(f.next, n.Attrs.Int(savedAttr, 0)+1)
		if isView(n) {
			f.root[n.Out[0]] = f.rootOf(n.In[0])
		}
	}
	for i, n := range g.Nodes {
		for _, v := range n.In {
			if v != nil && len(n.Out) > 0 && f.root[n.Out[0]] == nil {
				r := f.rootOf(v)
				f.reads[r] = append(f.reads[r], read{i, n, v})
			}
		}
	}
	return f
}

// isView reports whether the result of a node is the bytes of its first input, which another node
// like it may give a shape as well.
func isView(n *graph.Node) bool {
	o, err := n.Op()
	return err == nil && o.Has(op.View) && o.Pure(n.Call()) && len(n.In) > 0 && n.In[0] != nil &&
		n.Out[0] != nil
}

func (f *saving) rootOf(v *graph.Value) *graph.Value {
	if r := f.root[v]; r != nil {
		return r
	}
	return v
}

// plan lists the values to keep by the nodes at which something is to be done.
func (f *saving) plan() map[*graph.Node][]*saved {
	todo := map[*graph.Node][]*saved{}
	if f.behind == nil {
		return todo
	}
	waiting := slices.DeleteFunc(f.waiting(), func(v *saved) bool { return v.wide != "" })
	for len(waiting) > 0 {
		peak := f.peak()
		left := waiting[:0]
		halved := false
		for _, v := range waiting {
			if v.from >= peak || peak >= v.to {
				left = append(left, v)
				continue
			}
			halved = true
			f.halve(v, todo)
		}
		if waiting = left; !halved {
			break
		}
	}
	return todo
}

// peak is the node at which most is alive: the first of several.
func (f *saving) peak() int {
	peak := 0
	for i, n := range f.live {
		if n > f.live[peak] {
			peak = i
		}
	}
	return peak
}

// halve counts v as halved while it waits, and notes it at the nodes that then change.
func (f *saving) halve(v *saved, todo map[*graph.Node][]*saved) {
	for i := v.from + 1; i < v.to; i++ {
		f.live[i] -= v.bytes
	}
	note := func(n *graph.Node) {
		if n != nil && !slices.Contains(todo[n], v) {
			todo[n] = append(todo[n], v)
		}
	}
	note(v.downAt)
	for _, r := range v.readers {
		note(r.node)
	}
}

// waiting lists the values that may be kept in 16 bits, and counts what is alive where.
func (f *saving) waiting() (list []*saved) {
	f.live = make([]int64, len(f.g.Nodes))
	outputs := map[*graph.Value]bool{}
	for _, v := range f.g.Outputs {
		outputs[f.rootOf(v)] = true
	}
	for i, n := range f.g.Nodes {
		for _, v := range n.Out {
			if v == nil || f.rootOf(v) != v || f.behind[n] {
				continue // variables are replaced where they lie
			}
			last := f.lastRead(v, i)
			if outputs[v] {
				last = len(f.live) - 1
			}
			size := bytesOf(v.Type)
			for k := i; k <= last; k++ {
				f.live[k] += size
			}
			if s := f.gap(v, i); s != nil && !outputs[v] {
				list = append(list, s)
			}
		}
	}
	return list
}

// lastRead is the last node that reads v, which node i gives; i when none does.
func (f *saving) lastRead(v *graph.Value, i int) int {
	for _, r := range f.reads[v] {
		i = max(i, r.at)
	}
	return i
}

// gap is the longest time for which value v, which node i computes, waits for its readers; nil
// where it is never far to the next.
func (f *saving) gap(v *graph.Value, i int) *saved {
	k, ok := v.Type.Count().Int()
	if v.Type.DType != tensor.Float32 || !ok || k < leastSaved {
		return nil
	}
	s := &saved{value: v, half: f.half, bytes: int64(2 * k), number: f.next}
	last := i
	for _, r := range f.reads[v] {
		if r.at-last > s.to-s.from && r.at > last+1 {
			s.from, s.to = last, r.at
		}
		last = r.at
	}
	if s.to == 0 {
		return nil
	}
	s.wide = f.narrow(s, i)
	return s
}

// narrow completes a gap, and returns what keeps the value in float32.
func (f *saving) narrow(s *saved, i int) (wide string) {
	lossless := true
	for _, r := range f.reads[s.value] {
		if r.at < s.to {
			continue
		}
		if f.behind[r.node] {
			return unscaledWhy
		}
		lossless = lossless && f.rounds(r.node, r.value, 0)
		if !slices.Contains(s.readers, r) {
			s.readers = append(s.readers, r)
		}
	}
	if !lossless && !f.flow.down[s.value] {
		return "does not come down from a product in 16 bits, and what reads it does not round it"
	}
	f.next += int64(len(s.readers))
	if from := f.g.Nodes[i]; isCast(from) && from.In[0].Type.DType == s.half {
		if from.Attrs.Has(savedAttr) {
			return "widened for these readers alone"
		}
		s.kept = from.In[0]
		return ""
	}
	s.downAt = f.g.Nodes[s.from+1]
	return ""
}

// rounds reports whether a reader of v computes the same from v in 16 bits: a product that rounds
// it, a cast to 16 bits, or what only moves elements on the way to such.
func (f *saving) rounds(n *graph.Node, v *graph.Value, depth int) bool {
	switch {
	case inBF16(n):
		return f.half == tensor.BFloat16 && !slices.Contains(n.In[2:], v)
	case isCast(n):
		return n.Out[0].Type.DType == f.half
	}
	list, _ := ampList(n)
	if list != AmpInfer || depth > 8 || !slices.Contains(carried(n), v) || len(n.Out) != 1 ||
		slices.Contains(f.g.Outputs, n.Out[0]) {
		return false
	}
	return !slices.ContainsFunc(f.flow.readers[n.Out[0]], func(m *graph.Node) bool {
		return !f.rounds(m, n.Out[0], depth+1)
	})
}

// bytesOf is the size of a value of a static type, 0 for others.
func bytesOf(t op.Type) int64 {
	shape, ok := t.Ints()
	if !ok || !t.Static() || t.DType == tensor.String || t.DType.IsContainer() {
		return 0
	}
	n, err := tensor.ByteCount(t.DType, shape)
	if err != nil {
		return 0
	}
	return int64(n)
}
