package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/attention"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// onnxAttention prepares ONNX's Attention.
func onnxAttention(r *request) (compute.Kernel, error) {
	if len(r.Out) > 3 && r.Out[3].DType != tensor.Undefined {
		return nil, nil
	}
	for i := range r.In {
		_, d, ok := r.in(i)
		if ok && d != tensor.Float32 && !(i == op.AttentionMask && d == tensor.Bool) &&
			!(i == op.AttentionLens && d == tensor.Int64) {
			return nil, nil
		}
	}
	k := &attentionKernel{keep: -1, bias: -1, lens: -1}
	p, attrs := &k.params, r.Call.Attrs
	nq, nk := int(attrs.Int("q_num_heads", 0)), int(attrs.Int("kv_num_heads", 0))
	q, _, _ := r.in(op.AttentionQ)
	key, _, _ := r.in(op.AttentionK)
	v, _, _ := r.in(op.AttentionV)
	if !headed(q, nq) || !headed(key, nk) || !headed(v, nk) {
		return nil, nil
	}
	if !k.setStacks(headsOf(q, nq), headsOf(key, nk), headsOf(v, nk), headsOf(r.outShape(), nq)) ||
		!k.setCaches(r) {
		return nil, nil
	}
	scale, softcap := attrs.Float("scale", 0), attrs.Float("softcap", 0)
	if !finite(scale) || !finite(softcap) {
		return nil, nil
	}
	p.Scale, p.Cap = scale, max(0, softcap)
	if p.Scale == 0 {
		p.Scale = float32(1 / math.Sqrt(float64(p.Size)))
	}
	p.Causal, p.Hidden, p.Zero = attrs.Bool("is_causal", false), float32(math.Inf(-1)), true
	p.Added = true
	p.Left, p.Right = windowOf(attrs.Int("left_window_size", -1)), windowOf(
		attrs.Int("right_window_size", -1))
	if !k.setMasks(r) {
		return nil, nil
	}
	return k.finish()
}

// windowOf is a bound on a distance; negative ones are none.
func windowOf(v int64) int { return int(max(-1, min(v, math.MaxInt32/4))) }

// headed reports whether headsOf can read a shape.
func headed(shape []int, count int) bool {
	return len(shape) == 4 || len(shape) == 3 && count > 0 && shape[2]%count == 0
}

// headsOf reads batch × heads × length × size, or batch × length × heads·size with the number of
// heads given.
func headsOf(shape []int, count int) stack {
	if len(shape) == 4 {
		return newStack(shape, false)
	}
	return newStack([]int{shape[0], shape[1], count, shape[2] / count}, true)
}

// setCaches makes outputs 1 and 2 hold all keys and values, and be read from there if there were
// any before; false when they would have to be joined elsewhere.
func (k *attentionKernel) setCaches(r *request) bool {
	p := &k.params
	past, _, cached := r.in(op.AttentionPastK)
	pastV, _, both := r.in(op.AttentionPastV)
	before := 0
	if cached != both {
		return false
	}
	if cached {
		if len(past) != 4 || len(pastV) != 4 {
			return false
		}
		before = past[2]
		if !slices.Equal(past, []int{p.Batch, p.KVHeads, before, p.Size}) ||
			!slices.Equal(pastV, []int{p.Batch, p.KVHeads, before, p.ValueSize}) {
			return false
		}
	}
	fresh := p.Keys
	for i := range 2 {
		if i+1 >= len(r.Out) || r.Out[i+1].DType == tensor.Undefined {
			if cached {
				return false
			}
			continue
		}
		c := attentionCache{
			in:     op.AttentionK + i,
			past:   -1,
			out:    i + 1,
			batch:  p.Batch,
			heads:  p.KVHeads,
			before: before,
			fresh:  fresh,
			from:   []attention.Layout{p.K, p.V}[i],
			size:   []int{p.Size, p.ValueSize}[i],
		}
		if cached {
			c.past = op.AttentionPastK + i
		}
		k.caches = append(k.caches, c)
	}
	if k.cached = cached; cached {
		p.Keys, p.Offset = before+fresh, before
		for i, l := range []*attention.Layout{&p.K, &p.V} {
			*l = attention.Layout{
				Batch: p.KVHeads * p.Keys * k.caches[i].size,
				Head:  p.Keys * k.caches[i].size,
				Row:   k.caches[i].size,
			}
		}
	}
	return true
}

// setMasks reads the mask, which hides the keys beyond its end, and the lengths; false when they do
// not fit.
func (k *attentionKernel) setMasks(r *request) bool {
	p := &k.params
	if shape, d, ok := r.in(op.AttentionMask); ok {
		if len(shape) == 0 || shape[len(shape)-1] > p.Keys ||
			!k.fitsScores(shape, shape[len(shape)-1]) {
			return false
		}
		p.Keys = dimFromEnd(shape, 1)
		if m := scoreMask(shape, 1); d == tensor.Bool {
			p.Keep, k.keep = m, op.AttentionMask
		} else {
			p.Bias, k.bias = m, op.AttentionMask
		}
	}
	if shape, _, ok := r.in(op.AttentionLens); ok {
		k.lens = op.AttentionLens
		return count(shape) == p.Batch
	}
	return true
}
