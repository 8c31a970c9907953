package microsoft

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// groupedAttention holds GroupQueryAttention: causal attention of queries whose heads share those
// of keys and values (Ainslie et al. 2023), with a cache that each batch entry has filled to a
// length of its own.
var groupedAttention = []op.Op{
	{Domain: Domain, Name: "GroupQueryAttention", Since: []int{1}, MinIn: 7, MaxIn: 16,
		MinOut: 1, MaxOut: 4,
		Infer: inferGrouped, Eval: op.InFloat32(evalGrouped), Flops: groupedFlops,
		Optional: []int{GroupedK, GroupedV, GroupedPastK, GroupedPastV}},
}

// Inputs of GroupQueryAttention (com.microsoft, 1), in order.
const (
	GroupedQ = iota
	GroupedK
	GroupedV
	GroupedPastK
	GroupedPastV
	GroupedLens
	GroupedTotal
	GroupedCos
	GroupedSin
	GroupedPlaces
	GroupedBias
	GroupedSink
	GroupedKScale
	GroupedVScale
	GroupedQNorm
	GroupedKNorm
)

// gqaHeads reads the numbers of heads.
func gqaHeads(c *op.Call) (heads, shared int, err error) {
	n, kv := c.Attrs.Int("num_heads", 0), c.Attrs.Int("kv_num_heads", 0)
	if n < 1 || kv < 1 || n > math.MaxInt32 || n%kv != 0 {
		return 0, 0, c.Errorf(op.ErrAttr,
			"num_heads is %d, kv_num_heads %d; both must be positive, and the first a multiple", n,
			kv)
	}
	return int(n), int(kv), nil
}

// refuseGrouped fails for what only other devices have.
func refuseGrouped(c *op.Call, has func(int) bool) error {
	for _, name := range []string{"sliding_window_cache", "qk_output"} {
		if c.Attrs.Int(name, 0) != 0 {
			return c.Errorf(op.ErrUnsupported, "%s is set", name)
		}
	}
	for _, name := range []string{"k_quant_type", "v_quant_type"} {
		if v := c.Attrs.String(name, "NONE"); v != "NONE" {
			return c.Errorf(op.ErrUnsupported, "%s is %s; caches are float", name, v)
		}
	}
	if has(GroupedK) != has(GroupedV) || has(GroupedPastK) != has(GroupedPastV) ||
		has(GroupedQNorm) != has(GroupedKNorm) || has(GroupedCos) != has(GroupedSin) {
		return c.Errorf(op.ErrInput, "key and value, past_key and past_value, cos_cache and "+
			"sin_cache, q_norm_weight and k_norm_weight come in pairs")
	}
	if c.Attrs.Bool("do_rotary", false) && !has(GroupedCos) {
		return c.Errorf(op.ErrInput, "do_rotary is set and there is no cos_cache")
	}
	return nil
}

// inferGrouped shapes the output, batch × length × heads·size, and the caches, batch × shared heads
// × positions × size.
func inferGrouped(c *op.Infer) error {
	if err := refuseGrouped(c.Call, c.Has); err != nil {
		return err
	}
	heads, shared, err := gqaHeads(c.Call)
	if err != nil {
		return err
	}
	q, ranked, err := c.PropagateDType(floatTypes)
	for i := range c.Out {
		c.Out[i] = op.Unranked(q.DType)
	}
	if err != nil || !ranked {
		return err
	}
	if len(q.Shape) != 3 {
		return c.Errorf(op.ErrInput, "query is %v, must have rank 3", q)
	}
	all := packedHeads(heads, shared, c.Has)
	size, ok := q.Shape[2].DivInt(all)
	if !ok {
		return c.Errorf(op.ErrInput, "query is %v: %v is no multiple of %d heads", q, q.Shape[2],
			all)
	}
	c.Out[0] = op.Ranked(q.DType, q.Shape[0], q.Shape[1], size.MulInt(heads))
	for i := 1; i < len(c.Out); i++ {
		c.Out[i] = op.Ranked(q.DType, q.Shape[0], op.Known(shared), groupedTotal(c), size)
	}
	return nil
}

// groupedFlops counts the two matrix products, with all positions of the caches that come out,
// where those are asked for.
func groupedFlops(_ *op.Call, _, out []op.Type) int64 {
	if len(out) < 2 || !out[1].Ranked || len(out[1].Shape) != 4 {
		return 0
	}
	n, _ := out[1].Shape[2].MulInt(4).Int()
	return int64(n) * out[0].Elements()
}

// groupedTotal is the length of the caches that come out.
func groupedTotal(c *op.Infer) op.Dim {
	total, past := c.Dims(GroupedTotal), c.In[GroupedPastK]
	if len(total) != 1 {
		return op.Unknown()
	}
	if !c.Has(GroupedPastK) {
		return total[0]
	}
	if !past.Ranked || len(past.Shape) != 4 {
		return op.Unknown()
	}
	a, ok := total[0].Int()
	b, ok2 := past.Shape[2].Int()
	switch {
	case ok && ok2:
		return op.Known(max(a, b))
	case total[0].Equal(past.Shape[2]):
		return total[0]
	}
	return op.Unknown()
}

// grouped is one checked evaluation. Queries are batch × length × heads × size, caches batch ×
// shared × buffer × size.
type grouped struct {
	*op.Eval
	batch, length, heads, shared, size int
	buffer                             int // positions that the caches that come out have
	first                              bool
	totals                             []int // keys of each batch entry
	q, k, v                            []float64
	keys, values                       []float64 // the caches
	bias                               []float64
	sink                               []float64
	scale, cap                         float64
	window                             int // of keys, at most; -1 for all
	causal                             bool
}

func evalGrouped(c *op.Eval) error {
	g := &grouped{Eval: c, scale: float64(c.Attrs.Float("scale", 0)),
		cap:    float64(c.Attrs.Float("softcap", 0)),
		causal: c.Attrs.Bool("causal", true),
		window: int(c.Attrs.Int("local_window_size", -1))}
	if err := refuseGrouped(c.Call, c.Has); err != nil {
		return err
	}
	for _, step := range []func() error{g.read, g.readLengths, g.normalize, g.rotate, g.fill,
		g.readBias} {
		if err := step(); err != nil {
			return err
		}
	}
	if err := g.write(); err != nil {
		return err
	}
	return g.writeCaches()
}

// write computes output 0.
func (g *grouped) write() error {
	out, err := g.Output(0, g.In[GroupedQ].DType, []int{g.batch, g.length, g.heads * g.size})
	if err != nil {
		return err
	}
	y := make([]float64, 0, out.Len())
	for b := range g.batch {
		for t := range g.length {
			for h := range g.heads {
				y = append(y, g.attend(b, t, h)...)
			}
		}
	}
	op.SetFloats(out, y)
	return nil
}

// writeCaches writes the caches that are asked for.
func (g *grouped) writeCaches() error {
	for i, cache := range [][]float64{g.keys, g.values} {
		if !g.Want(i + 1) {
			continue
		}
		o, err := g.Output(i+1, g.In[GroupedQ].DType, []int{g.batch, g.shared, g.buffer, g.size})
		if err != nil {
			return err
		}
		op.SetFloats(o, cache)
	}
	return nil
}

// read reads queries, keys and values, which come apart or in one operand beside each other.
func (g *grouped) read() (err error) {
	if g.heads, g.shared, err = gqaHeads(g.Call); err != nil {
		return err
	}
	if g.Want(3) {
		return g.Errorf(op.ErrUnsupported, "output 3")
	}
	s := g.In[GroupedQ].Shape
	all := packedHeads(g.heads, g.shared, g.Has)
	if _, err := g.SameDType(floatTypes, g.In[GroupedQ].DType); err != nil {
		return err
	}
	if len(s) != 3 || s[2]%all != 0 || s[2] == 0 {
		return g.Errorf(op.ErrInput, "query is %v, must be batch × length × %d heads", s, all)
	}
	g.batch, g.length, g.size = s[0], s[1], s[2]/all
	if g.scale == 0 {
		g.scale = 1 / math.Sqrt(float64(g.size))
	}
	if g.q, err = g.Floats(GroupedQ); err != nil {
		return err
	}
	kv := g.shared * g.size
	if g.Has(GroupedK) {
		g.k, g.v, err = g.FloatsPairOf(GroupedK, GroupedV, g.batch, g.length, kv)
		return err
	}
	g.unpack(kv)
	return nil
}

// packedHeads is how many heads the query operand has: keys and values lie in it, too, where they
// have no operands of their own.
func packedHeads(heads, shared int, has func(int) bool) int {
	if has(GroupedK) {
		return heads
	}
	return heads + 2*shared
}

// unpack separates the queries, keys and values that lie beside each other in each row; kv is the
// number of elements of a row's keys.
func (g *grouped) unpack(kv int) {
	packed, n := g.q, g.heads*g.size
	g.q = nil
	for row := 0; row < len(packed); row += n + 2*kv {
		g.q = append(g.q, packed[row:row+n]...)
		g.k = append(g.k, packed[row+n:row+n+kv]...)
		g.v = append(g.v, packed[row+n+kv:row+n+2*kv]...)
	}
}

// pastLength is the number of positions of the caches that are given, 0 when there are none.
func (g *grouped) pastLength() (int, error) {
	if !g.Has(GroupedPastK) {
		return 0, nil
	}
	s := g.In[GroupedPastK].Shape
	if len(s) != 4 || s[0] != g.batch || s[1] != g.shared || s[3] != g.size ||
		!slices.Equal(s, g.In[GroupedPastV].Shape) {
		return 0, g.Errorf(op.ErrInput, "caches %v and %v do not fit %d × %d × length × %d", s,
			g.In[GroupedPastV].Shape, g.batch, g.shared, g.size)
	}
	return s[2], nil
}

// readLengths reads how many keys each batch entry has: seqlens_k is one less.
func (g *grouped) readLengths() error {
	lens, err := g.Ints(GroupedLens)
	if err != nil {
		return err
	}
	total, err := g.Int(GroupedTotal)
	if err != nil {
		return err
	}
	if len(lens) != g.batch || total < int64(g.length) || total > math.MaxInt32 {
		return g.Errorf(op.ErrInput,
			"%d lengths for a batch of %d, total_sequence_length %d for %d queries", len(lens),
			g.batch, total, g.length)
	}
	past, err := g.pastLength()
	if err != nil {
		return err
	}
	g.first, g.buffer = total == int64(g.length), max(int(total), past)
	for b, n := range lens {
		if n < 0 || n >= total ||
			!g.first && (n+1 < int64(g.length) || n+1-int64(g.length) > int64(past)) {
			return g.Errorf(op.ErrInput, "seqlens_k[%d] is %d, total_sequence_length %d, with %d "+
				"queries and a cache of %d", b, n, total, g.length, past)
		}
		g.totals = append(g.totals, int(n)+1)
	}
	return nil
}

// past is how many positions of the cache batch entry b has filled.
func (g *grouped) past(b int) int {
	if g.first {
		return 0
	}
	return g.totals[b] - g.length
}

// normalize divides each head of queries and keys by its root mean square and scales it, where
// weights for that are given.
func (g *grouped) normalize() error {
	if !g.Has(GroupedQNorm) {
		return nil
	}
	epsilon := float64(g.Attrs.Float("qk_norm_epsilon", 1e-6))
	for i, v := range map[int][]float64{GroupedQNorm: g.q, GroupedKNorm: g.k} {
		w, err := g.FloatsOf(i, g.size)
		if err != nil {
			return err
		}
		for at := 0; at < len(v); at += g.size {
			head := v[at : at+g.size]
			inv := 1 / math.Sqrt(refmath.Dot(head, head)/float64(g.size)+epsilon)
			for k := range head {
				head[k] *= inv * w[k]
			}
		}
	}
	return nil
}

// rotate turns queries and keys by the angles of their positions when attribute do_rotary is set.
func (g *grouped) rotate() error {
	if !g.Attrs.Bool("do_rotary", false) {
		return nil
	}
	cos, sin, err := g.FloatsPair(GroupedCos, GroupedSin)
	if err != nil {
		return err
	}
	s := g.In[GroupedCos].Shape
	if len(s) != 2 || !slices.Equal(s, g.In[GroupedSin].Shape) || 2*s[1] > g.size {
		return g.Errorf(op.ErrInput, "caches %v and %v do not fit heads of %d", s,
			g.In[GroupedSin].Shape, g.size)
	}
	places, err := g.places(s[0])
	if err != nil {
		return err
	}
	angles := func(place, k int) (float64, float64) {
		return cos[places[place]*s[1]+k], sin[places[place]*s[1]+k]
	}
	interleaved := g.Attrs.Bool("rotary_interleaved", false)
	q := tensor.From(g.q, g.batch, g.length, g.heads*g.size)
	k := tensor.From(g.k, g.batch, g.length, g.shared*g.size)
	op.Rotate(q, g.heads, 2*s[1], interleaved, angles)
	op.Rotate(k, g.shared, 2*s[1], interleaved, angles)
	return nil
}

// places are the positions of all queries: position_ids, or those that follow the cache. Padding
// may lie beyond the angles that there are, and takes the last.
func (g *grouped) places(rows int) ([]int, error) {
	out := make([]int, g.batch*g.length)
	var given []int64
	if g.Has(GroupedPlaces) {
		var err error
		if given, err = g.Ints(GroupedPlaces); err != nil {
			return nil, err
		}
		if len(given) != len(out) {
			return nil, g.Errorf(op.ErrInput, "%d position_ids for %d positions", len(given),
				len(out))
		}
	}
	for i := range out {
		b, t := i/g.length, i%g.length
		out[i] = g.past(b) + t
		if given != nil {
			out[i] = int(given[i])
		} else if out[i] >= g.totals[b] {
			out[i] = min(out[i], rows-1)
		}
		if out[i] < 0 || out[i] >= rows {
			return nil, g.Errorf(op.ErrInput, "position %d, the caches of angles have %d", out[i],
				rows)
		}
	}
	return out, nil
}

// fill makes the caches: what was there of each batch entry, then the new keys and values, then
// zeros.
func (g *grouped) fill() error {
	for i, to := range []*[]float64{&g.keys, &g.values} {
		old, err := g.Floats(GroupedPastK + i)
		if err != nil {
			return err
		}
		cache, err := tensor.New(tensor.Float64, g.batch, g.shared, g.buffer, g.size)
		if err != nil {
			return err
		}
		*to = tensor.As[float64](cache)
		fresh, rows := [][]float64{g.k, g.v}[i], 0
		if old != nil {
			rows = g.In[GroupedPastK].Shape[2]
		}
		g.fillCache(*to, old, fresh, rows)
	}
	return nil
}

// fillCache writes what lies in the given cache, of so many rows, and the fresh rows behind it.
func (g *grouped) fillCache(to, old, fresh []float64, rows int) {
	for p := range g.batch * g.shared {
		b, h := p/g.shared, p%g.shared
		cache := to[p*g.buffer*g.size:][:g.buffer*g.size]
		copy(cache, old[p*rows*g.size:][:min(rows, g.past(b))*g.size])
		for t := range g.length {
			copy(cache[(g.past(b)+t)*g.size:],
				fresh[((b*g.length+t)*g.shared+h)*g.size:][:g.size])
		}
	}
}

// readBias reads what is added to the scores, and the sinks, which take weight from all keys of a
// head.
func (g *grouped) readBias() (err error) {
	if g.Has(GroupedBias) {
		s, total := g.In[GroupedBias].Shape, slices.Max(g.totals)
		if len(s) != 4 || s[0] != 1 && s[0] != g.batch || s[1] != 1 && s[1] != g.heads ||
			s[2] != g.length || s[3] < total {
			return g.Errorf(op.ErrInput, "attention_bias is %v, does not fit %d × %d × %d × %d", s,
				g.batch, g.heads, g.length, total)
		}
		if g.bias, err = g.Floats(GroupedBias); err != nil {
			return err
		}
	}
	switch {
	case g.Has(GroupedSink):
		g.sink, err = g.FloatsOf(GroupedSink, g.heads)
	case g.Attrs.Int("smooth_softmax", 0) == 1:
		g.sink = make([]float64, g.heads)
	}
	return err
}

// span is which keys query t of batch entry b sees.
func (g *grouped) span(b, t int) (from, to int) {
	to = g.totals[b]
	if g.causal {
		to = min(to, g.past(b)+t+1)
	}
	if g.window >= 0 {
		from = max(0, to-g.window)
	}
	return from, to
}

// attend computes the result of one head at one query.
func (g *grouped) attend(b, t, h int) []float64 {
	q := g.q[((b*g.length+t)*g.heads+h)*g.size:][:g.size]
	cache := (b*g.shared + h/(g.heads/g.shared)) * g.buffer
	from, to := g.span(b, t)
	row := make([]float64, to-from)
	for i := range row {
		s := g.scale * refmath.Dot(q, g.keys[(cache+from+i)*g.size:])
		if g.cap > 0 {
			s = g.cap * math.Tanh(s/g.cap)
		}
		if g.bias != nil {
			s += g.bias[refmath.BroadcastOffset(g.In[GroupedBias].Shape, b, h, t, from+i)]
		}
		row[i] = s
	}
	if g.sink != nil {
		row = append(row, g.sink[h])
	}
	refmath.Softmax(row, row)
	acc := make([]float64, g.size)
	refmath.AddProduct(acc, row[:to-from], 1, g.values[(cache+from)*g.size:], to-from, g.size)
	return acc
}
