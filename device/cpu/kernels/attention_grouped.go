package kernels

import (
	"fmt"
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/attention"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// groupedKernel is GroupQueryAttention of com.microsoft in float32, for calls whose caches of keys
// and of values are separate tensors, and which return both caches. It writes rotated keys and
// values into the returned caches once, and reads them from there.
type groupedKernel struct {
	call                               *op.Call
	op                                 *attention.Attention
	batch, length, heads, shared, size int
	past, buffer                       int // positions of the caches that come in and out
	// queries, keys and values lie beside each other in input 0
	packed bool
	// the heads that share keys are taken for queries of one head
	together bool
	sinks    bool
	groupedRotary
}

// groupedRotary is the rotary embedding of a head's first elements (Su et al., "RoFormer", 2021).
type groupedRotary struct {
	// pairs of elements that are rotated, 0 for none, and the positions that there are angles for
	pairs, rows int
	interleaved bool
	places      bool // positions are given
}

func groupQueryAttention(r *request) (compute.Kernel, error) {
	k := &groupedKernel{call: r.Call}
	if !groupedServes(r) || !k.setSizes(r) || !k.setRotary(r) {
		return nil, nil
	}
	attrs := r.Call.Attrs
	window, scale, softcap := windowOf(attrs.Int("local_window_size", -1)), attrs.Float("scale",
		0), attrs.Float("softcap", 0)
	causal := attrs.Bool("causal", true)
	if window == 0 || window > 0 && !causal || !finite(scale) || !finite(softcap) {
		return nil, nil
	}
	sink, _, given := r.in(microsoft.GroupedSink)
	if given && count(sink) != k.heads {
		return nil, nil
	}
	k.sinks = given || attrs.Int("smooth_softmax", 0) == 1
	k.together = k.length == 1 && !k.sinks
	p := k.params()
	p.Causal, p.Left, p.Right, p.Hidden, p.Blind = causal, -1, -1, float32(math.Inf(-1)), true
	p.Scale, p.Cap, p.Sink = scale, max(0, softcap), k.sinks
	if p.Scale == 0 {
		p.Scale = float32(1 / math.Sqrt(float64(k.size)))
	}
	if window > 0 {
		p.Left = window - 1
	}
	var err error
	if k.op, err = attention.New(p); err != nil {
		return nil, nil
	}
	return k, nil
}

// groupedServes reports whether the call has types and options that there is a kernel for; the
// reference serves others, or says what is wrong.
func groupedServes(r *request) bool {
	for i := range r.In {
		_, d, ok := r.in(i)
		want := tensor.Float32
		switch i {
		case microsoft.GroupedLens, microsoft.GroupedTotal:
			want = tensor.Int32
		case microsoft.GroupedPlaces:
			want = tensor.Int64
		case microsoft.GroupedBias, microsoft.GroupedKScale, microsoft.GroupedVScale,
			microsoft.GroupedQNorm, microsoft.GroupedKNorm:
			want = tensor.Undefined
		}
		if ok && d != want {
			return false
		}
	}
	for i, out := range r.Out {
		if (out.DType != tensor.Undefined) != (i < 3) {
			return false
		}
	}
	attrs := r.Call.Attrs
	quantised := attrs.String("k_quant_type", "NONE") != "NONE" ||
		attrs.String("v_quant_type", "NONE") != "NONE"
	return len(r.Out) >= 3 && !quantised && attrs.Int("sliding_window_cache", 0) == 0 &&
		attrs.Int("qk_output", 0) == 0
}

// setSizes reads the shapes; false when they do not fit together.
func (k *groupedKernel) setSizes(r *request) bool {
	k.heads, k.shared = int(r.Call.Attrs.Int("num_heads", 0)), int(
		r.Call.Attrs.Int("kv_num_heads", 0))
	q, _, _ := r.in(microsoft.GroupedQ)
	out, _ := r.Out[1].Ints()
	if k.shared < 1 || k.heads < 1 || k.heads%k.shared != 0 || len(q) != 3 || len(out) != 4 {
		return false
	}
	key, _, apart := r.in(microsoft.GroupedK)
	value, _, both := r.in(microsoft.GroupedV)
	all := k.heads
	if k.packed = !apart; k.packed {
		all += 2 * k.shared
	}
	k.batch, k.length, k.size, k.buffer = q[0], q[1], q[2]/all, out[2]
	want := []int{k.batch, k.length, k.shared * k.size}
	if apart != both || q[2]%all != 0 || min(k.batch, k.length, k.size) < 1 ||
		apart && (!slices.Equal(key, want) || !slices.Equal(value, want)) {
		return false
	}
	pastK, _, cached := r.in(microsoft.GroupedPastK)
	pastV, _, both := r.in(microsoft.GroupedPastV)
	if cached {
		if len(pastK) != 4 {
			return false
		}
		k.past = pastK[2]
	}
	want = []int{k.batch, k.shared, k.past, k.size}
	lens, _, _ := r.in(microsoft.GroupedLens)
	total, _, _ := r.in(microsoft.GroupedTotal)
	return cached == both && (!cached || slices.Equal(pastK, want) && slices.Equal(pastV, want)) &&
		count(lens) == k.batch && count(total) == 1
}

// setRotary reads what the rotary embedding needs; false when that does not fit.
func (k *groupedKernel) setRotary(r *request) bool {
	cos, _, ok := r.in(microsoft.GroupedCos)
	sin, _, both := r.in(microsoft.GroupedSin)
	if ok != both {
		return false
	}
	if !r.Call.Attrs.Bool("do_rotary", false) {
		return true
	}
	if !ok || len(cos) != 2 || !slices.Equal(cos, sin) || cos[1] < 1 || 2*cos[1] > k.size {
		return false
	}
	places, _, given := r.in(microsoft.GroupedPlaces)
	k.groupedRotary = groupedRotary{
		rows:        cos[0],
		pairs:       cos[1],
		interleaved: r.Call.Attrs.Bool("rotary_interleaved", false),
		places:      given,
	}
	return !given || count(places) == k.batch*k.length
}

// params lays out the operands. Where each head has one query, the heads that share keys are
// computed as queries of one head that stand at the same position.
func (k *groupedKernel) params() attention.Params {
	row := k.heads * k.size
	y := attention.Layout{Batch: k.length * row, Head: k.size, Row: row}
	if k.packed && k.pairs == 0 {
		row += 2 * k.shared * k.size
	}
	q := attention.Layout{Batch: k.length * row, Head: k.size, Row: row}
	cache := attention.Layout{
		Batch: k.shared * k.buffer * k.size,
		Head:  k.buffer * k.size,
		Row:   k.size,
	}
	p := attention.Params{
		Batch:     k.batch,
		Heads:     k.heads,
		KVHeads:   k.shared,
		Queries:   k.length,
		Keys:      k.buffer,
		Size:      k.size,
		ValueSize: k.size,
		Q:         q,
		K:         cache,
		V:         cache,
		Y:         y,
	}
	if k.together {
		group := k.heads / k.shared
		p.Heads, p.Queries = k.shared, group
		p.Q.Head, p.Q.Row, p.Y.Head, p.Y.Row = group*k.size, k.size, group*k.size, k.size
	}
	return p
}

// Name implements Kernel.
func (k *groupedKernel) Name() string { return "attention" }

// PackedBytes implements Kernel.
func (k *groupedKernel) PackedBytes() int { return 0 }

// Pack implements Kernel.
func (k *groupedKernel) Pack([]byte) {}

// rotaryBytes is the size of the rotated queries.
func (k *groupedKernel) rotaryBytes() int {
	if k.pairs == 0 {
		return 0
	}
	return scratchBytes(k.batch * k.length * k.heads * k.size)
}

// ScratchBytes implements Kernel: the rotated queries and each worker's part.
func (k *groupedKernel) ScratchBytes(workers int) int {
	return k.rotaryBytes() + workers*scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *groupedKernel) Bind(b compute.Binding) compute.Task {
	worker := b
	worker.Scratch = b.Scratch[k.rotaryBytes():]
	t := &groupedTask{
		of:      k,
		scratch: perWorker(worker),
		lens:    make([]int64, k.batch),
		start:   make([]int, k.batch),
		in:      b.In,
	}
	float := func(i int) []float32 {
		if i >= len(b.In) || b.In[i] == nil {
			return nil
		}
		return tensor.As[float32](b.In[i])
	}
	t.q = float(microsoft.GroupedQ)
	t.cos, t.sin = float(microsoft.GroupedCos), float(microsoft.GroupedSin)
	t.args = attention.Args{
		Q:    t.q,
		Y:    tensor.As[float32](b.Out[0]),
		K:    tensor.As[float32](b.Out[1]),
		V:    tensor.As[float32](b.Out[2]),
		Lens: t.lens,
		At:   make([]int64, k.batch),
	}
	if k.pairs > 0 {
		t.args.Q = tensor.Cast[float32](b.Scratch[:k.rotaryBytes()])
		t.place = make([]int, k.batch*k.length)
	}
	if t.args.Sinks = float(microsoft.GroupedSink); k.sinks && t.args.Sinks == nil {
		t.args.Sinks = make([]float32, k.heads)
	}
	t.setFills(float)
	t.rotary = groupedQueries{t: t}
	return t
}

// setFills says what caches of keys and of values are filled from; float gives the elements of an
// input, nil where there is none.
func (t *groupedTask) setFills(float func(i int) []float32) {
	k := t.of
	row, first := k.shared*k.size, 0
	if k.packed {
		row, first = (k.heads+2*k.shared)*k.size, k.heads*k.size
	}
	for i, to := range [][]float32{t.args.K, t.args.V} {
		f := groupedFill{
			t:       t,
			from:    float(microsoft.GroupedK + i),
			old:     float(microsoft.GroupedPastK + i),
			to:      to,
			row:     row,
			rotates: i == 0 && k.pairs > 0,
		}
		if k.packed {
			f.from = t.q[first+i*k.shared*k.size:]
		}
		t.fills[i] = f
	}
}

type groupedTask struct {
	of       *groupedKernel
	in       []*tensor.Tensor
	q        []float32
	cos, sin []float32
	lens     []int64 // keys of each batch entry
	start    []int   // of those, the ones before its queries
	place    []int   // positions, for angles
	args     attention.Args
	fills    [2]groupedFill
	rotary   groupedQueries
	scratch  [][]float32
}

// Run implements Task.
func (t *groupedTask) Run(x *compute.Exec) error {
	if err := t.readLengths(); err != nil {
		return err
	}
	if err := t.readPlaces(); err != nil {
		return err
	}
	for i := range t.fills {
		if err := x.For(t.of.batch*t.of.shared, &t.fills[i]); err != nil {
			return err
		}
	}
	if t.of.pairs > 0 {
		if err := x.For((t.of.batch*t.of.length+rotaryRows-1)/rotaryRows, &t.rotary); err != nil {
			return err
		}
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *groupedTask) Chunk(i, worker int) { t.of.op.Run(i, &t.args, t.scratch[worker]) }

// readLengths finds how many keys each batch entry has, and where its queries stand. seqlens_k is
// one less than those.
func (t *groupedTask) readLengths() error {
	total := int(tensor.As[int32](t.in[microsoft.GroupedTotal])[0])
	if total < t.of.length {
		return t.of.call.Errorf(op.ErrInput, "total_sequence_length is %d, for %d queries", total,
			t.of.length)
	}
	if max(total, t.of.past) != t.of.buffer {
		return fmt.Errorf("%w: %s: total_sequence_length is %d, caches of %d", compute.ErrPlan,
			t.of.call.Name(), total, t.of.buffer)
	}
	first := total == t.of.length
	for b, v := range tensor.As[int32](t.in[microsoft.GroupedLens]) {
		n := int(v)
		if n < 0 || n >= total || !first && (n+1 < t.of.length || n+1-t.of.length > t.of.past) {
			return t.of.call.Errorf(op.ErrInput,
				"seqlens_k[%d] is %d, total_sequence_length %d, with %d queries and a cache of %d",
				b, n, total, t.of.length, t.of.past)
		}
		t.lens[b], t.start[b] = int64(n)+1, 0
		if !first {
			t.start[b] = n + 1 - t.of.length
		}
		t.args.At[b] = int64(t.start[b])
		if t.of.together {
			t.args.At[b] = int64(n)
		}
	}
	return nil
}

// readPlaces finds the positions of all queries, of those that are padding the last at most.
func (t *groupedTask) readPlaces() error {
	var given []int64
	if t.of.places {
		given = tensor.As[int64](t.in[microsoft.GroupedPlaces])
	}
	for i := range t.place {
		b := i / t.of.length
		place := int64(t.start[b] + i%t.of.length)
		if given != nil {
			place = given[i]
		} else if place >= t.lens[b] {
			place = min(place, int64(t.of.rows)-1)
		}
		if place < 0 || place >= int64(t.of.rows) {
			return t.of.call.Errorf(op.ErrInput, "position %d, the caches of angles have %d", place,
				t.of.rows)
		}
		t.place[i] = int(place)
	}
	return nil
}

// rotateHead writes a head of query, or key, row to dst, rotated by the angles of its position.
func (t *groupedTask) rotateHead(dst, x []float32, row int) {
	n := t.of.pairs
	cos, sin := t.cos[t.place[row]*n:][:n], t.sin[t.place[row]*n:][:n]
	dst = dst[:len(x)]
	copy(dst[2*n:], x[2*n:])
	if t.of.interleaved {
		for i, c := range cos {
			a, b, s := x[2*i], x[2*i+1], sin[i]
			dst[2*i], dst[2*i+1] = c*a-s*b, s*a+c*b
		}
		return
	}
	low, high, toLow, toHigh := x[:n], x[n:2*n], dst[:n], dst[n:2*n]
	for i, c := range cos {
		a, b, s := low[i], high[i], sin[i]
		toLow[i], toHigh[i] = c*a-s*b, s*a+c*b
	}
}

// rotaryRows is how many queries, of all heads, a chunk rotates.
const rotaryRows = 8

// groupedQueries is the region that rotates queries.
type groupedQueries struct{ t *groupedTask }

// Chunk implements Region.
func (g *groupedQueries) Chunk(i, _ int) {
	t := g.t
	width, stride := t.of.heads*t.of.size, t.of.heads*t.of.size
	if t.of.packed {
		stride += 2 * t.of.shared * t.of.size
	}
	for row := i * rotaryRows; row < min((i+1)*rotaryRows, t.of.batch*t.of.length); row++ {
		for h := range t.of.heads {
			t.rotateHead(t.args.Q[row*width+h*t.of.size:],
				t.q[row*stride+h*t.of.size:][:t.of.size], row)
		}
	}
}

// groupedFill is the region that makes a cache: what was there of each batch entry, then the new
// keys or values, then zeros. A chunk is a head.
type groupedFill struct {
	t         *groupedTask
	from, old []float32
	to        []float32
	row       int // floats from one position's heads to the next
	rotates   bool
}

// Chunk implements Region.
func (f *groupedFill) Chunk(i, _ int) {
	t := f.t
	b, head := i/t.of.shared, i%t.of.shared
	to := f.to[i*t.of.buffer*t.of.size:][:t.of.buffer*t.of.size]
	before := t.start[b] * t.of.size
	if before > 0 {
		copy(to[:before], f.old[i*t.of.past*t.of.size:])
	}
	to = to[before:]
	for p := range t.of.length {
		row := b*t.of.length + p
		x := f.from[row*f.row+head*t.of.size:][:t.of.size]
		if f.rotates {
			t.rotateHead(to[p*t.of.size:], x, row)
		} else {
			copy(to[p*t.of.size:], x)
		}
	}
	clear(to[t.of.length*t.of.size:])
}
