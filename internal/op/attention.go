package op

import (
	"cmp"
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// attention holds scaled dot-product attention (Vaswani et al. 2017, §3.2) with grouped heads and a
// key-value cache, and rotary position embedding (Su et al. 2021).
var attention = []Op{
	{Name: "Attention", Since: []int{23, 24, 25}, MinIn: 3, MaxIn: 7, MinOut: 1, MaxOut: 4,
		Infer: inferAttention,
		Eval:  InFloat32(evalAttention), Flops: attentionFlops, parts: partsOfAttention},
	{Name: "RotaryEmbedding", Since: []int{23}, MinIn: 3, MaxIn: 4, Infer: inferRotary,
		Eval:  InFloat32(evalRotary),
		Flops: FlopsPerElement(3), parts: partsOfRotary},
}

// Inputs of Attention (ONNX 23, 24, 25), in order.
const (
	AttentionQ = iota
	AttentionK
	AttentionV
	AttentionMask
	AttentionPastK
	AttentionPastV
	AttentionLens
)

// heads is the layout of an operand: batch × heads × length × size (rank 4), or batch × length ×
// heads·size (rank 3) with the number of heads in an attribute.
type heads[D any] struct{ batch, heads, length, size D }

// headsOf reads a layout from a shape; count is the number of heads for rank 3, and div divides a
// dimension by it.
func headsOf[D any](c *Call, shape []D, known D, count int64,
	div func(D, int) (D, bool)) (h heads[D], err error) {
	switch len(shape) {
	case 4:
		return heads[D]{shape[0], shape[1], shape[2], shape[3]}, nil
	case 3:
		if count < 1 || count > math.MaxInt32 {
			return h, c.Errorf(ErrAttr,
				"number of heads is %d, must be positive for operands of rank 3", count)
		}
		size, ok := div(shape[2], int(count))
		if !ok {
			return h, c.Errorf(ErrInput, "%v is no multiple of %d heads", shape[2], count)
		}
		return heads[D]{shape[0], known, shape[1], size}, nil
	}
	return h, c.Errorf(ErrInput, "operand %v must have rank 3 or 4", shape)
}

func divInt(d, n int) (int, bool) { return d / n, d%n == 0 }

// headDims is headsOf for the type of an input; ok is false when its rank is not known.
func (c *Infer) headDims(i int, attr string) (h heads[Dim], ok bool, err error) {
	if !c.In[i].Ranked {
		return h, false, nil
	}
	n := c.Attrs.Int(attr, 0)
	h, err = headsOf(c.Call, c.In[i].Shape, Known(int(n)), n, Dim.DivInt)
	return h, err == nil, err
}

// inferAttention shapes Y like Q with V's head size, the caches, and the scores.
func inferAttention(c *Infer) error {
	if err := c.attentionTypes(c.DTypes()); err != nil {
		return err
	}
	types := []tensor.DType{c.In[AttentionQ].DType, c.In[AttentionK].DType, c.In[AttentionV].DType,
		c.In[AttentionQ].DType}
	for i := range c.Out {
		c.Out[i] = Unranked(types[i])
	}
	q, ok, err := c.headDims(AttentionQ, "q_num_heads")
	k, ok2, err2 := c.headDims(AttentionK, "kv_num_heads")
	v, ok3, err3 := c.headDims(AttentionV, "kv_num_heads")
	if !ok || !ok2 || !ok3 {
		return cmp.Or(err, err2, err3)
	}
	total := k.length.Add(c.pastLength())
	shapes := [][]Dim{{q.batch, q.heads, q.length, v.size}, {k.batch, k.heads, total, k.size},
		{k.batch, k.heads, total, v.size},
		{q.batch, q.heads, q.length, total}}
	if len(c.In[AttentionQ].Shape) == 3 {
		shapes[0] = []Dim{q.batch, q.length, q.heads.Mul(v.size)}
	}
	for i := range c.Out {
		c.Out[i] = Ranked(types[i], shapes[i]...)
	}
	return nil
}

// attentionTypes checks that Q and K have one type of float and V has one.
func (c *Call) attentionTypes(in []tensor.DType) error {
	_, err := c.SameDType(floatTypes, in[AttentionQ], in[AttentionK])
	if err == nil {
		_, err = c.SameDType(floatTypes, in[AttentionV])
	}
	return err
}

// pastLength is the number of positions in the cache.
func (c *Infer) pastLength() Dim {
	if !c.Has(AttentionPastK) {
		return Known(0)
	}
	if p := c.In[AttentionPastK]; p.Ranked && len(p.Shape) == 4 {
		return p.Shape[2]
	}
	return Unknown()
}

// attending is one checked evaluation. Keys and values are batch × heads × total × size, the cache
// included.
type attending struct {
	*Eval
	q, k, v      heads[int]
	past, total  int
	scale, cap   float64
	causal       bool
	left, right  int   // how far a query looks back and ahead; negative: without bound
	mode         int64 // what output 3 is
	queries      []float64
	keys, values []float64
	// batch × heads × length × mask length, broadcast; nil without a mask
	bias      *tensor.Tensor
	lens      []int64        // keys that are not padding, one a batch entry; nil for all
	y, scores *tensor.Tensor // scores nil when not asked for
}

func evalAttention(c *Eval) error {
	a := &attending{Eval: c, causal: c.Attrs.Bool("is_causal", false), cap: c.attr("softcap", 0),
		mode: c.Attrs.Int("qk_matmul_output_mode", 0), left: windowSize(c.Call, "left_window_size"),
		right: windowSize(c.Call, "right_window_size")}
	for _, step := range []func() error{a.read, a.readLens, a.readMask, a.outputs} {
		if err := step(); err != nil {
			return err
		}
	}
	row := make([]float64, a.total)
	for b := range a.q.batch {
		for h := range a.q.heads {
			for i := range a.q.length {
				a.attend(row, b, h, i)
			}
		}
	}
	return nil
}

// windowSize is a bound of Attention-25 on the distance between query and key.
func windowSize(c *Call, name string) int {
	return int(min(c.Attrs.Int(name, -1), math.MaxInt32))
}

// layout reads the layouts of Q, K and V and checks them against each other.
func (a *attending) layout() (err error) {
	c := a.Call
	if err := c.attentionTypes(a.DTypes()); err != nil {
		return err
	}
	nq, nk := c.Attrs.Int("q_num_heads", 0), c.Attrs.Int("kv_num_heads", 0)
	if a.q, err = headsOf(c, a.In[AttentionQ].Shape, int(nq), nq, divInt); err != nil {
		return err
	}
	if a.k, err = headsOf(c, a.In[AttentionK].Shape, int(nk), nk, divInt); err != nil {
		return err
	}
	if a.v, err = headsOf(c, a.In[AttentionV].Shape, int(nk), nk, divInt); err != nil {
		return err
	}
	q, k, v := a.q, a.k, a.v
	if q.batch != k.batch || k.batch != v.batch || k.heads != v.heads || k.length != v.length ||
		q.size != k.size || min(k.heads, q.size, v.size) == 0 || q.heads%k.heads != 0 {
		return a.Errorf(ErrInput, "Q %v, K %v and V %v do not fit", a.In[AttentionQ].Shape,
			a.In[AttentionK].Shape, a.In[AttentionV].Shape)
	}
	return nil
}

// read reads Q, K, V and the cache.
func (a *attending) read() (err error) {
	if err := a.layout(); err != nil {
		return err
	}
	if a.Has(AttentionPastK) != a.Has(AttentionPastV) {
		return a.Errorf(ErrInput, "past_key and past_value must be given together")
	}
	if a.queries, err = a.Floats(AttentionQ); err != nil {
		return err
	}
	a.scale = a.attr("scale", 0)
	if a.scale == 0 {
		a.scale = 1 / math.Sqrt(float64(a.q.size))
	}
	if a.keys, err = a.cached(AttentionK, AttentionPastK, a.k); err != nil {
		return err
	}
	a.values, err = a.cached(AttentionV, AttentionPastV, a.v)
	return err
}

// cached returns the cache followed by the new keys or values, as batch × heads × total × size.
func (a *attending) cached(i, past int, h heads[int]) ([]float64, error) {
	fresh, err := a.Floats(i)
	if err != nil {
		return nil, err
	}
	old, n, err := a.cache(past, h)
	if err != nil {
		return nil, err
	}
	if a.total != 0 && n != a.past {
		return nil, a.Errorf(ErrInput, "past_key has %d positions, past_value %d", a.past, n)
	}
	a.past, a.total = n, n+h.length
	return appended(old, n, fresh, h, a.In[i].Rank())
}

// appended returns n cached positions of each head followed by the fresh ones, an operand of the
// given rank.
func appended(old []float64, n int, fresh []float64, h heads[int], rank int) ([]float64, error) {
	out, err := zeros(h.batch, h.heads, n+h.length, h.size)
	if err != nil {
		return nil, err
	}
	for b := range h.batch {
		for k := range h.heads {
			at := (b*h.heads + k) * (n + h.length) * h.size
			copy(out[at:], old[(b*h.heads+k)*n*h.size:][:n*h.size])
			for t := range h.length {
				copy(out[at+(n+t)*h.size:], fresh[headAt(h, rank, b, k, t):][:h.size])
			}
		}
	}
	return out, nil
}

// cache returns the elements of input i, batch × heads × n × size, and n, 0 when it is absent.
func (a *attending) cache(i int, h heads[int]) (old []float64, n int, err error) {
	if !a.Has(i) {
		return nil, 0, nil
	}
	s := a.In[i].Shape
	if len(s) != 4 || s[0] != h.batch || s[1] != h.heads || s[3] != h.size {
		return nil, 0, a.Errorf(ErrInput, "cache %v does not fit %d × %d × length × %d", s, h.batch,
			h.heads, h.size)
	}
	old, err = a.Floats(i)
	return old, s[2], err
}

// headAt is where the vector of one head at one position starts in an operand of the given rank.
func headAt(h heads[int], rank int, b, head, t int) int {
	if rank == 3 {
		return ((b*h.length+t)*h.heads + head) * h.size
	}
	return ((b*h.heads+head)*h.length + t) * h.size
}

// readLens reads the number of keys of each batch entry that are no padding.
func (a *attending) readLens() (err error) {
	if !a.Has(AttentionLens) {
		return nil
	}
	if a.lens, err = a.Ints(AttentionLens); err == nil && len(a.lens) != a.q.batch {
		err = a.Errorf(ErrInput, "%d lengths for a batch of %d", len(a.lens), a.q.batch)
	}
	return err
}

// readMask reads the mask, which broadcasts to batch × heads × length × total after its last axis
// was padded.
func (a *attending) readMask() (err error) {
	if !a.Has(AttentionMask) {
		return nil
	}
	m := a.In[AttentionMask]
	want := []int{a.q.batch, a.q.heads, a.q.length, a.total}
	if m.Rank() < 1 || m.Rank() > 4 || m.Shape[m.Rank()-1] > a.total {
		return a.Errorf(ErrInput, "mask %v does not fit scores %v", m.Shape, want)
	}
	want[3] = m.Shape[m.Rank()-1]
	if to, err := BroadcastShapes(want, m.Shape); err != nil || count(to) != count(want) {
		return a.Errorf(ErrInput, "mask %v does not broadcast to %v", m.Shape, want)
	}
	v, err := a.maskValues(m)
	if err != nil {
		return err
	}
	a.bias = tensor.From(v, m.Shape...)
	return nil
}

// maskValues is what the mask adds to the scores: 0 and -∞ for truth values.
func (a *attending) maskValues(m *tensor.Tensor) ([]float64, error) {
	if m.DType != tensor.Bool {
		return a.Floats(AttentionMask)
	}
	v := make([]float64, m.Len())
	for i, keep := range tensor.As[bool](m) {
		if !keep {
			v[i] = math.Inf(-1)
		}
	}
	return v, nil
}

// fillCaches makes the outputs of all keys and values.
func (a *attending) fillCaches() error {
	for i, values := range [][]float64{a.keys, a.values} {
		if !a.Want(i + 1) {
			continue
		}
		h := []heads[int]{a.k, a.v}[i]
		out, err := a.Output(i+1, a.In[AttentionK+i].DType,
			[]int{h.batch, h.heads, a.total, h.size})
		if err != nil {
			return err
		}
		SetFloats(out, values)
	}
	return nil
}

// outputs makes the outputs and fills the caches.
func (a *attending) outputs() (err error) {
	q, d := a.q, a.In[AttentionQ].DType
	shape := []int{q.batch, q.heads, q.length, a.v.size}
	if a.In[AttentionQ].Rank() == 3 {
		shape = []int{q.batch, q.length, q.heads * a.v.size}
	}
	if a.y, err = a.Output(0, d, shape); err != nil {
		return err
	}
	if err := a.fillCaches(); err != nil {
		return err
	}
	if a.Want(3) {
		a.scores, err = a.Output(3, d, []int{q.batch, q.heads, q.length, a.total})
	}
	return err
}

// attend computes the result of one query: softmax(cap(q·kᵀ·scale) + bias)·v, zero when everything
// is masked. row is scratch for the scores.
func (a *attending) attend(row []float64, b, h, i int) {
	group := h / (a.q.heads / a.k.heads)
	kv := b*a.k.heads + group
	q := a.queries[headAt(a.q, a.In[AttentionQ].Rank(), b, h, i):][:a.q.size]
	keys := a.keys[kv*a.total*a.k.size:]
	for t := range row {
		row[t] = a.scale * refmath.Dot(q, keys[t*a.k.size:])
	}
	a.weigh(row, b, h, i)
	acc := make([]float64, a.v.size)
	refmath.AddProduct(acc, row, 1, a.values[kv*a.total*a.v.size:], a.total, a.v.size)
	to := headAt(heads[int]{a.q.batch, a.q.heads, a.q.length, a.v.size}, a.y.Rank(), b, h, i)
	for k, v := range acc {
		setFloat(a.y, to+k, v)
	}
}

// weigh turns the scores of one query into weights.
func (a *attending) weigh(row []float64, b, h, i int) {
	a.keep(0, row, b, h, i)
	if a.cap > 0 {
		for t, s := range row {
			row[t] = a.cap * math.Tanh(s/a.cap)
		}
	}
	a.keep(1, row, b, h, i)
	masked := true
	for t := range row {
		bias := a.biasAt(b, h, i, t)
		masked = masked && math.IsInf(bias, -1)
		row[t] += bias
	}
	a.keep(2, row, b, h, i)
	if masked {
		clear(row)
	} else {
		refmath.Softmax(row, row)
	}
	a.keep(3, row, b, h, i)
}

// keep stores the scores of one query as output 3 when it is asked for in this mode.
func (a *attending) keep(mode int64, row []float64, b, h, i int) {
	if a.scores == nil || a.mode != mode {
		return
	}
	at := ((b*a.q.heads+h)*a.q.length + i) * a.total
	for t, s := range row {
		setFloat(a.scores, at+t, s)
	}
}

// biasAt is the mask at one score: 0 or what attn_mask says, and -∞ beyond the mask, in the
// padding, outside the window and, when causal, for keys after the query. The queries end where the
// keys that are no padding do.
func (a *attending) biasAt(b, h, i, t int) float64 {
	last := a.past + i
	if a.lens != nil {
		if int64(t) >= a.lens[b] {
			return math.Inf(-1)
		}
		last = int(a.lens[b]) - a.q.length + i
	}
	if a.causal && t > last || a.left >= 0 && t < last-a.left || a.right >= 0 && t > last+a.right {
		return math.Inf(-1)
	}
	if a.bias == nil {
		return 0
	}
	if t >= a.bias.Shape[a.bias.Rank()-1] {
		return math.Inf(-1)
	}
	return tensor.As[float64](a.bias)[refmath.BroadcastOffset(a.bias.Shape, b, h, i, t)]
}

// attentionFlops counts the two matrix products.
func attentionFlops(c *Call, in, _ []Type) int64 {
	i := &Infer{Call: c, In: in}
	q, ok, err := i.headDims(AttentionQ, "q_num_heads")
	v, ok2, err2 := i.headDims(AttentionV, "kv_num_heads")
	if !ok || !ok2 || err != nil || err2 != nil {
		return 0
	}
	n, _ := q.batch.Mul(q.heads).Mul(q.length).Mul(v.length).Mul(q.size.Add(v.size)).MulInt(2).Int()
	return int64(n)
}

func inferRotary(c *Infer) error {
	if x := c.In[0]; x.Ranked {
		if _, _, err := c.headDims(0, "num_heads"); err != nil {
			return err
		}
	}
	return SameAsInput(floatTypes)(c)
}

// evalRotary rotates pairs of elements of each head by an angle: element k of the first half with k
// of the second, or neighbours when interleaved. The caches hold cosine and sine for each position,
// chosen by position_ids when given.
func evalRotary(c *Eval) error {
	n := c.Attrs.Int("num_heads", 0)
	h, err := headsOf(c.Call, c.In[0].Shape, int(n), n, divInt)
	if err != nil {
		return err
	}
	x, out, err := c.normInput(3)
	if err != nil || len(x) == 0 {
		return err
	}
	rotated, err := c.rotaryDim(h.size)
	if err != nil {
		return err
	}
	angles, err := c.rotaryAngles(h, rotated/2)
	if err != nil {
		return err
	}
	SetFloats(out, x)
	rotatePairs(out, x, h, rotated, c.Attrs.Bool("interleaved", false), angles)
	return nil
}

// rotaryDim is how many elements of each head are rotated: attribute rotary_embedding_dim, or all.
func (c *Call) rotaryDim(size int) (int, error) {
	rotated := int(c.Attrs.Int("rotary_embedding_dim", 0))
	if rotated == 0 {
		rotated = size
	}
	if rotated < 0 || rotated > size || rotated%2 != 0 {
		return 0, c.Errorf(ErrAttr, "rotary_embedding_dim %d is no even part of the head size %d",
			rotated, size)
	}
	return rotated, nil
}

// Rotate rotates the pairs of the first rotated elements of each head of x, batch × length ×
// heads·size in float64, in place: element 2k with 2k+1 when they are interleaved, else k with k +
// rotated/2. A pair (a, b) becomes (a·cos - b·sin, a·sin + b·cos); place counts the positions of
// all batch entries.
func Rotate(x *tensor.Tensor, n, rotated int, interleaved bool,
	angles func(place, k int) (cos, sin float64)) {
	h := heads[int]{x.Shape[0], n, x.Shape[1], x.Shape[2] / n}
	rotatePairs(x, slices.Clone(tensor.As[float64](x)), h, rotated, interleaved, angles)
}

// rotatePairs rotates the pairs of the first rotated elements of each head.
func rotatePairs(out *tensor.Tensor, x []float64, h heads[int], rotated int, interleaved bool,
	angles func(place, k int) (cos, sin float64)) {
	for p := range h.batch * h.length * h.heads {
		b, t, head := p/h.heads/h.length, p/h.heads%h.length, p%h.heads
		at := headAt(h, out.Rank(), b, head, t)
		for k := range rotated / 2 {
			i, j := at+k, at+rotated/2+k
			if interleaved {
				i, j = at+2*k, at+2*k+1
			}
			cos, sin := angles(b*h.length+t, k)
			setFloat(out, i, cos*x[i]-sin*x[j])
			setFloat(out, j, sin*x[i]+cos*x[j])
		}
	}
}

// rotaryAngles returns a function that gives cosine and sine of pair k at place b·length + t.
func (c *Eval) rotaryAngles(h heads[int], pairs int) (func(place, k int) (cos, sin float64),
	error) {
	cos, sin, err := c.FloatsPair(1, 2)
	if err != nil {
		return nil, err
	}
	ids, rows, err := c.positions(h.batch * h.length)
	if err != nil {
		return nil, err
	}
	if cs := c.In[1].Shape; len(cs) == 0 || cs[len(cs)-1] != pairs || len(cos) != rows*pairs ||
		len(sin) != len(cos) {
		return nil, c.Errorf(ErrInput, "caches %v and %v do not fit %d positions of %d pairs", cs,
			c.In[2].Shape, rows, pairs)
	}
	return func(place, k int) (float64, float64) {
		if ids != nil {
			place = int(ids[place])
		}
		return cos[place*pairs+k], sin[place*pairs+k]
	}, nil
}

// positions returns position_ids, one a place and nil without the input, and how many positions the
// caches have.
func (c *Eval) positions(places int) (ids []int64, rows int, err error) {
	if !c.Has(3) {
		return nil, places, nil
	}
	if ids, err = c.Ints(3); err != nil {
		return nil, 0, err
	}
	if s := c.In[1].Shape; len(s) > 0 {
		rows = s[0]
	}
	if len(ids) != places {
		return nil, 0, c.Errorf(ErrInput, "%d position_ids for %d positions", len(ids), places)
	}
	for i, id := range ids {
		if id < 0 || id >= int64(rows) {
			return nil, 0, c.Errorf(ErrInput,
				"position_ids[%d] is %d, the caches have %d positions", i, id, rows)
		}
	}
	return ids, rows, nil
}
