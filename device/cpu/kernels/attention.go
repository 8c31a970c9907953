package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/attention"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/internal/op/microsoft"
	"github.com/weirgpu/weir/tensor"
)

// attentionKernels are Attention (ONNX 23, 24, 25), but for its fourth output, weir's fused form,
// and GroupQueryAttention (com.microsoft, 1), in float32.
var attentionKernels = map[opKey]builder{
	{"", "Attention"}:                         onnxAttention,
	{op.FusedDomain, "Attention"}:             fusedAttention,
	{op.FusedDomain, op.AttentionGradient}:    attentionGradient,
	{microsoft.Domain, "GroupQueryAttention"}: groupQueryAttention,
}

// attentionKernel is what internal/kernel/attention computes. Keys and values are read in place,
// or, when there is a cache, as outputs 1 and 2 hold them once the new ones are appended.
type attentionKernel struct {
	params           attention.Params
	op               *attention.Attention
	keep, bias, lens int // inputs, -1 for none
	caches           []attentionCache
	cached           bool // keys and values are read from outputs 1 and 2
}

// attentionCache fills output out, batch × heads × total × size, from a cache of past positions and
// an input.
type attentionCache struct {
	in, past, out               int // past -1 for none
	from                        attention.Layout
	batch, heads, before, fresh int
	size                        int
}

// fusedAttention prepares weir:Attention.
func fusedAttention(r *request) (compute.Kernel, error) {
	k := fusedParams(r, r.outShape())
	if k == nil {
		return nil, nil
	}
	k.params.Stats = wants(r, 1)
	return k.finish()
}

// fusedParams reads weir:Attention, or the gradient of it, whose result has that shape; nil for
// what the reference serves.
func fusedParams(r *request, result []int) *attentionKernel {
	k := &attentionKernel{keep: -1, bias: -1, lens: -1}
	p, attrs := &k.params, r.Call.Attrs
	first := [4]bool{}
	// of which the shape rule has seen to it that there are four
	for i, v := range attrs.Ints("rows_first") {
		first[i] = v == 1
	}
	for i := range op.AttentionMask {
		shape, d, _ := r.in(i)
		if d != tensor.Float32 || len(shape) < 2 || len(shape) != len(result) ||
			len(shape) < 4 && first != [4]bool{} {
			return nil
		}
	}
	q, kv, v := k.stackOf(r, op.AttentionQ, first[0]), k.stackOf(r, op.AttentionK, first[1]),
		k.stackOf(r, op.AttentionV, first[2])
	y := newStack(result, first[3])
	if shared := kv.batch == 1 && v.batch == 1; shared {
		kv.batch, v.batch, kv.Batch, v.Batch = q.batch, q.batch, 0, 0
	}
	if y.size == 0 || !k.setStacks(q, kv, v, y) {
		return nil
	}
	p.Scale, p.Left, p.Right = attrs.Float("scale", 1), -1, -1
	p.Hidden, p.Format = attrs.Float("hidden", float32(math.Inf(-1))), formatOf(r.Call)
	p.Added = attrs.Int("added", 0) == 1
	if !finite(p.Scale) {
		return nil
	}
	if shape, d, ok := r.in(op.FusedAttentionKeep); ok {
		if d != tensor.Bool || !k.fitsScores(shape, p.Keys) {
			return nil
		}
		p.Keep, k.keep = scoreMask(shape, p.Keys), op.FusedAttentionKeep
	}
	if shape, d, ok := r.in(op.FusedAttentionBias); ok {
		if d != tensor.Float32 || !k.fitsScores(shape, p.Keys) {
			return nil
		}
		p.Bias, k.bias = scoreMask(shape, p.Keys), op.FusedAttentionBias
	}
	k.triangles(r)
	return k
}

// stack is an operand: batch × heads × length × size elements, wherever they lie.
type stack struct {
	batch, heads, length, size int
	attention.Layout
}

// newStack reads an operand of rank 2 to 4: batch × heads × length × size, or with the middle ones
// exchanged.
func newStack(shape []int, rowsFirst bool) stack {
	x := stack{
		batch:  dimFromEnd(shape, 4),
		heads:  dimFromEnd(shape, 3),
		length: dimFromEnd(shape, 2),
		size:   dimFromEnd(shape, 1),
	}
	x.Layout = attention.Layout{
		Batch: x.heads * x.length * x.size,
		Head:  x.length * x.size,
		Row:   x.size,
	}
	if rowsFirst {
		x.heads, x.length = x.length, x.heads
		x.Head, x.Row = x.size, x.heads*x.size
	}
	return x
}

// stackOf is newStack of an input.
func (k *attentionKernel) stackOf(r *request, i int, rowsFirst bool) stack {
	shape, _, _ := r.in(i)
	return newStack(shape, rowsFirst)
}

// setStacks takes queries, keys, values and the result; false when they do not fit together.
func (k *attentionKernel) setStacks(q, kv, v, y stack) bool {
	p := &k.params
	if min(q.size, v.size, kv.heads) == 0 || q.heads%kv.heads != 0 || q.batch != kv.batch ||
		kv.batch != v.batch || kv.heads != v.heads || kv.length != v.length || q.size != kv.size {
		return false
	}
	p.Batch, p.Heads, p.KVHeads, p.Queries, p.Keys = q.batch, q.heads, kv.heads, q.length, kv.length
	p.Size, p.ValueSize = q.size, v.size
	p.Q, p.K, p.V, p.Y = q.Layout, kv.Layout, v.Layout, y.Layout
	return true
}

// finite reports whether a number of the call is one.
func finite(v float32) bool { return v-v == 0 }

// fitsScores reports whether a mask broadcasts to scores, the last axis of keys elements.
func (k *attentionKernel) fitsScores(shape []int, keys int) bool {
	want := []int{k.params.Batch, k.params.Heads, k.params.Queries, keys}
	for i := range shape {
		if i == len(want) {
			return false
		}
		if d := dimFromEnd(shape, i+1); d != 1 && d != want[3-i] {
			return false
		}
	}
	return true
}

// scoreMask is the layout of a mask that broadcasts to the scores.
func scoreMask(shape []int, keys int) attention.Mask {
	m := attention.Mask{Given: true, Single: dimFromEnd(shape, 1) == 1 && keys != 1}
	stride := dimFromEnd(shape, 1)
	for i, to := range []*int{&m.Row, &m.Head, &m.Batch} {
		if n := dimFromEnd(shape, i+2); n > 1 {
			*to, stride = stride, stride*n
		}
	}
	return m
}

// triangles replaces a constant mask that hides only the keys after each query by causal masking,
// so that the hidden keys are not computed.
func (k *attentionKernel) triangles(r *request) {
	p := &k.params
	if k.keep >= 0 &&
		k.triangle(r.constant(k.keep),
			func(t *tensor.Tensor, i int) (seen, ok bool) { return t.Data[i] != 0, true }) {
		p.Keep, k.keep = attention.Mask{}, -1
	} else if k.keep < 0 && k.bias >= 0 &&
		k.triangle(r.constant(k.bias), func(t *tensor.Tensor, i int) (seen, ok bool) {
			v := tensor.As[float32](t)[i]
			return v == 0, v == 0 || math.IsInf(float64(v), -1)
		}) {
		p.Bias, k.bias = attention.Mask{}, -1
		p.Hidden, p.Added = float32(math.Inf(-1)), true
	}
}

// triangle reports whether a constant mask, the same for all heads, lets query i see exactly the
// keys up to i + offset, for some offset. If so, it sets Causal and the offset in the kernel's
// Params.
func (k *attentionKernel) triangle(t *tensor.Tensor,
	seen func(t *tensor.Tensor, i int) (seen, ok bool)) bool {
	p := &k.params
	if t == nil || t.Len() != p.Queries*p.Keys || dimFromEnd(t.Shape, 1) != p.Keys ||
		dimFromEnd(t.Shape, 2) != p.Queries || p.Keys == 0 {
		return false
	}
	offset := -1
	for ; offset+1 < p.Keys; offset++ {
		if yes, _ := seen(t, offset+1); !yes {
			break
		}
	}
	for i := range p.Queries * p.Keys {
		if yes, ok := seen(t, i); !ok || yes != (i%p.Keys <= i/p.Keys+offset) {
			return false
		}
	}
	p.Causal, p.Offset = true, offset
	return true
}

// finish plans the call; there is no kernel for what internal/kernel/attention refuses.
func (k *attentionKernel) finish() (compute.Kernel, error) {
	var err error
	if k.op, err = attention.New(k.params); err != nil {
		return nil, nil
	}
	return k, nil
}

// Name implements Kernel.
func (k *attentionKernel) Name() string { return "attention" }

// PackedBytes implements Kernel.
func (k *attentionKernel) PackedBytes() int { return 0 }

// Pack implements Kernel.
func (k *attentionKernel) Pack([]byte) {}

// ScratchBytes implements Kernel.
func (k *attentionKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.op.ScratchLen())
}

// Bind implements Kernel.
func (k *attentionKernel) Bind(b compute.Binding) compute.Task {
	t := &attentionTask{of: k, scratch: perWorker(b)}
	t.args = k.operands(b.In)
	t.args.Y = tensor.As[float32](b.Out[0])
	if k.cached {
		t.args.K, t.args.V = tensor.As[float32](b.Out[1]), tensor.As[float32](b.Out[2])
	}
	if k.params.Stats {
		t.args.Stats = tensor.As[float32](b.Out[1])
	}
	if k.lens >= 0 {
		t.args.Lens = tensor.As[int64](b.In[k.lens])
	}
	for _, c := range k.caches {
		f := cacheFill{
			attentionCache: c,
			x:              tensor.As[float32](b.In[c.in]),
			y:              tensor.As[float32](b.Out[c.out]),
		}
		if c.past >= 0 {
			f.old = tensor.As[float32](b.In[c.past])
		}
		t.fills = append(t.fills, f)
	}
	return t
}

// operands are queries, keys, values and what masks, as inputs hold them.
func (k *attentionKernel) operands(in []*tensor.Tensor) (a attention.Args) {
	a.Q, a.K = tensor.As[float32](in[op.AttentionQ]), tensor.As[float32](in[op.AttentionK])
	a.V = tensor.As[float32](in[op.AttentionV])
	if k.keep >= 0 {
		a.Keep = in[k.keep].Data
	}
	if k.bias >= 0 {
		a.Bias = tensor.As[float32](in[k.bias])
	}
	return a
}

type attentionTask struct {
	of      *attentionKernel
	args    attention.Args
	fills   []cacheFill
	scratch [][]float32
}

// Run implements Task.
func (t *attentionTask) Run(x *compute.Exec) error {
	for i := range t.fills {
		if err := x.For(t.fills[i].batch*t.fills[i].heads, &t.fills[i]); err != nil {
			return err
		}
	}
	return x.For(t.of.op.Chunks(), t)
}

// Chunk implements Region.
func (t *attentionTask) Chunk(i, worker int) { t.of.op.Run(i, &t.args, t.scratch[worker]) }

// cacheFill is an attentionCache bound to memory; a chunk is a head.
type cacheFill struct {
	attentionCache
	x, old, y []float32
}

// Chunk implements Region.
func (f *cacheFill) Chunk(i, _ int) {
	y := f.y[i*(f.before+f.fresh)*f.size:][:(f.before+f.fresh)*f.size]
	copy(y[:f.before*f.size], f.old[min(i*f.before*f.size, len(f.old)):])
	from := i/f.heads*f.from.Batch + i%f.heads*f.from.Head
	for t := range f.fresh {
		copy(y[(f.before+t)*f.size:][:f.size], f.x[from+t*f.from.Row:])
	}
}
