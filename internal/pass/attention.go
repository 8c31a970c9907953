package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// Scaled dot-product attention (Vaswani et al. 2017, section 3.2), as exporters take it apart.
//
//	MatMul(Softmax(s), v)              =  weir:Attention(q, k, v, keep, bias){scale c, hidden h}
//	    s = Add(Where(keep, p, h), bias)
//	    p = c · MatMul(q, Transpose(k))
//	weir:Attention(Transpose(q), ...)  =  weir:Attention(q, ...){rows_first}
//
// where Add, Where and the scale may be missing, Add may come several times, and c may stand
// anywhere: on p, on q, on the transposed k. The second rule serves k, v and the result likewise.
//
// A constant mask that is added and holds only zeros and one other number h, so low that adding it
// swallows any score, also becomes a keep with this h. There h is added to the score and does not
// replace it, so that a score that is NaN or infinite under the mask stays visible in the result.
// All values are float32, the transposes exchange heads and positions of operands of rank 4, h and
// c are constants, and the softmax runs over the last axis. Nothing else may read the inner values,
// except k and its transpose. No operand may broadcast the scores. The fused operator never stores
// the scores, and it reads and writes heads in the layout that the projections use.

// rowsFirstPerm exchanges heads and positions; lastOfRowsPerm exchanges the last two axes after
// that.
var (
	rowsFirstPerm  = []int64{0, 2, 1, 3}
	lastOfRowsPerm = []int64{0, 2, 3, 1}
)

func startAttention(s *scope) rule {
	return func(n *graph.Node) *Patch {
		switch {
		case s.portable:
		case is(n, "MatMul"):
			return s.attention(n)
		case is(n, "Transpose"):
			return s.rowsFirstResult(n)
		}
		return nil
	}
}

// attended is an attention under recognition.
type attended struct {
	q, k, v, keep *graph.Value
	masks         []*graph.Value // added to the scores, the last one first
	scale         float64
	hidden        float32
	added         bool // hidden is added to scores
	rowsFirst     [4]int64
}

func (s *scope) attention(n *graph.Node) *Patch {
	weights := from(n.In[0], "Softmax")
	if weights == nil || !s.only(n.In[0]) || !overLast(weights) || !s.only(weights.In[0]) {
		return nil
	}
	a := attended{scale: 1}
	if !s.scores(&a, weights.In[0]) {
		return nil
	}
	a.v, a.rowsFirst[2] = exchanged(n.In[1])
	a.q, a.rowsFirst[0] = exchanged(a.q)
	if !a.stacked(n) {
		return nil
	}
	bias, adds := a.bias(n)
	in := []*graph.Value{a.q, a.k, a.v, a.keep, bias}
	for in[len(in)-1] == nil {
		in = in[:len(in)-1]
	}
	p := instead(n, operator(n, op.FusedDomain, "Attention", 1, a.attrs(), in...))
	p.Insert = append(adds, p.Insert...)
	return p
}

// attrs are the attributes of the fused operator.
func (a *attended) attrs() op.Attrs {
	attrs := op.Attrs{op.FloatAttr("scale", float32(a.scale))}
	if a.keep != nil {
		attrs = append(attrs, op.FloatAttr("hidden", a.hidden))
	}
	if a.added {
		attrs = append(attrs, op.IntAttr("added", 1))
	}
	if a.rowsFirst != [4]int64{} {
		attrs = append(attrs, op.IntsAttr("rows_first", a.rowsFirst[:]...))
	}
	return attrs
}

// overLast reports whether a softmax runs over the last axis alone.
func overLast(n *graph.Node) bool {
	t := n.In[0].Type
	if !t.Ranked || t.DType != tensor.Float32 {
		return false
	}
	def := int64(-1)
	if n.Version < 13 {
		def = 1
	}
	axis := n.Attrs.Int("axis", def)
	return axis == -1 || axis == int64(len(t.Shape)-1)
}

// mostMasks bounds what is added to the scores.
const mostMasks = 3

// scores takes apart what goes into the softmax, from the outside: masks that are added, and the
// rest.
func (s *scope) scores(a *attended, v *graph.Value) bool {
	n := from(v, "Add")
	if n == nil {
		return s.kept(a, v)
	}
	if len(a.masks) == mostMasks {
		return false
	}
	for i, inner := range n.In {
		b := *a
		b.masks = append(slices.Clone(a.masks), n.In[1-i])
		if s.only(inner) && sameShape(inner, v) && n.In[1-i].Type.DType == tensor.Float32 &&
			s.scores(&b, inner) {
			*a = b
			return true
		}
	}
	return false
}

// hides is how low a constant of a mask must be for a score to be lost in it.
const hides = -1e37

// hiding turns a constant mask of zeros and one number that hides into the operand keep, which
// tells kernels what they may skip. It returns false when mask is not of that form, or when there
// is a keep already.
func (a *attended) hiding(mask *graph.Value) bool {
	if a.keep != nil || !mask.IsConst() {
		return false
	}
	x := tensor.As[float32](mask.Const())
	low, keep := float32(0), make([]bool, len(x))
	for i, f := range x {
		keep[i] = f == 0
		if f != 0 && (f > hides || low != 0 && f != low || f != f) {
			return false
		}
		low = min(low, f)
	}
	a.keep = graph.NewConst(mask.Name+"_keep", tensor.From(keep, mask.Const().Shape...))
	a.hidden, a.added = low, true
	return low != 0
}

// bias returns the sum of the masks, and the nodes that compute it, to be inserted before n. The
// first mask that only hides is left out of the sum, since it becomes keep.
func (a *attended) bias(n *graph.Node) (sum *graph.Value, adds []*graph.Node) {
	for i, m := range a.masks {
		if b := *a; b.hiding(m) {
			*a = b
			a.masks = slices.Delete(slices.Clone(a.masks), i, i+1)
			break
		}
	}
	for _, m := range slices.Backward(a.masks) {
		if sum == nil {
			sum = m
			continue
		}
		add := operator(n, "", "Add", attentionAdd, nil, sum, m)
		adds, sum = append(adds, add), add.Out[0]
	}
	return sum, adds
}

// attentionAdd is the version of Add that broadcasts in all directions.
const attentionAdd = 14

// kept takes apart Where(keep, p, h).
func (s *scope) kept(a *attended, v *graph.Value) bool {
	n := from(v, "Where")
	if n == nil {
		return s.scaled(a, v)
	}
	h, ok := scalar(n.In[2])
	if !ok || n.In[2].Type.DType != tensor.Float32 || !s.only(n.In[1]) || !sameShape(n.In[1], v) {
		return false
	}
	a.keep, a.hidden = n.In[0], float32(h)
	return s.scaled(a, n.In[1])
}

// scaled takes apart c · MatMul(q, Transpose(k)).
func (s *scope) scaled(a *attended, v *graph.Value) bool {
	n := from(s.unscaled(a, v), "MatMul")
	if n == nil || n.Out[0] != v && !s.only(n.Out[0]) {
		return false
	}
	a.q = s.unscaled(a, n.In[0])
	t := from(s.unscaled(a, n.In[1]), "Transpose")
	if t == nil {
		return false
	}
	perm := t.Attrs.Ints("perm")
	if a.k = t.In[0]; slices.Equal(perm, lastOfRowsPerm) {
		a.rowsFirst[1] = 1
		return true
	}
	a.k, a.rowsFirst[1] = exchanged(a.k)
	rank := len(t.Out[0].Type.Shape)
	want := []int64{0, 1, 2, 3}[:min(rank, 4)]
	if want = slices.Clone(want); rank < 2 || rank > 4 {
		return false
	}
	want[rank-1], want[rank-2] = want[rank-2], want[rank-1]
	return slices.Equal(perm, want) || perm == nil && rank == 2
}

// unscaled returns what v is a constant multiple of, and multiplies the scale by the constant.
func (s *scope) unscaled(a *attended, v *graph.Value) *graph.Value {
	for s.only(v) {
		n := producer(v)
		if !is(n, "Mul") && !is(n, "Div") {
			break
		}
		x := n.In[0]
		c, ok := scalar(n.In[1])
		if is(n, "Mul") && !ok {
			x = n.In[1]
			c, ok = scalar(n.In[0])
		}
		if is(n, "Div") {
			c = 1 / c
		}
		if !ok || !sameShape(x, v) {
			break
		}
		a.scale *= c
		v = x
	}
	return v
}

// exchanged looks through a transpose of heads and positions: it returns the input of the transpose
// and 1, or v itself and 0 when v is not computed by one.
func exchanged(v *graph.Value) (x *graph.Value, one int64) {
	if n := from(v, "Transpose"); n != nil && slices.Equal(n.Attrs.Ints("perm"), rowsFirstPerm) {
		return n.In[0], 1
	}
	return v, 0
}

// stacked reports whether the operands are stacks of matrices that fit together without
// broadcasting, and n, their product, is what weir:Attention gives of them.
func (a *attended) stacked(n *graph.Node) bool {
	rank := len(n.Out[0].Type.Shape)
	if !n.Out[0].Type.Ranked || rank < 2 || rank > 4 {
		return false
	}
	var shapes [3][]op.Dim
	for i, v := range []*graph.Value{a.q, a.k, a.v} {
		t := v.Type
		if t.DType != tensor.Float32 || !t.Ranked || len(t.Shape) != rank {
			return false
		}
		shapes[i] = slices.Clone(t.Shape)
		if a.rowsFirst[i] == 1 {
			shapes[i][1], shapes[i][2] = shapes[i][2], shapes[i][1]
		}
	}
	q, k, v, y := shapes[0], shapes[1], shapes[2], n.Out[0].Type.Shape
	for i := range rank - 2 {
		if !q[i].Equal(k[i]) || !k[i].Equal(v[i]) || !y[i].Equal(q[i]) {
			return false
		}
	}
	return q[rank-1].Equal(k[rank-1]) && k[rank-2].Equal(v[rank-2]) && y[rank-2].Equal(q[rank-2]) &&
		y[rank-1].Equal(v[rank-1])
}

// rowsFirstResult writes the result of an attention as a transpose behind it would.
func (s *scope) rowsFirstResult(n *graph.Node) *Patch {
	v := n.In[0]
	m := producer(v)
	if m == nil || m.Domain != op.FusedDomain || m.Type != "Attention" || len(m.Out) > 1 ||
		!s.only(v) ||
		!slices.Equal(n.Attrs.Ints("perm"), rowsFirstPerm) {
		return nil
	}
	first := slices.Clone(m.Attrs.Ints("rows_first"))
	if first == nil {
		first = make([]int64, 4)
	}
	if len(first) != 4 || first[3] != 0 {
		return nil
	}
	first[3] = 1
	attrs := slices.DeleteFunc(slices.Clone(m.Attrs), func(a op.Attr) bool {
		return a.Name == "rows_first"
	})
	return instead(n, operator(n, op.FusedDomain, "Attention", 1,
		append(attrs, op.IntsAttr("rows_first", first...)), m.In...))
}
