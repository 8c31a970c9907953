package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// batchNormKernels are batch normalisation in training and its gradient.
var batchNormKernels = map[opKey]builder{
	{op.FusedDomain, "BatchNormalization"}: trainedBatchNorm,
	{op.FusedDomain, op.BatchNormGradient}: batchNormGradient,
}

// channelled are the planes of one channel after the other: each chunk takes a whole channel, whose
// planes are inner elements each, n of them, and c·inner apart. What a channel has is read several
// times; channels of small planes are gathered first, so that loops are long and what they read
// lies in one piece.
type channelled struct {
	n, c, inner int
}

// The most elements of a channel that are gathered, and of a plane for that to pay; and the most of
// a channel that one chunk takes, some milliseconds of work.
const (
	gatheredChannel = 1 << 16
	gatheredPlane   = 1 << 10
	wholeChannel    = 1 << 22
)

// newChannelled reads the shape of input i; false where no kernel serves.
func newChannelled(r *request, i int) (channelled, bool) {
	shape, _, _ := r.in(i)
	if len(shape) < 2 || count(shape) == 0 {
		return channelled{}, false
	}
	k := channelled{n: shape[0], c: shape[1], inner: count(shape[2:])}
	return k, k.n*k.inner <= wholeChannel
}

// gathers reports whether channels are gathered.
//
//go:noinline
func (k *channelled) gathers() bool {
	return k.inner < gatheredPlane && k.n > 1 && k.n*k.inner <= gatheredChannel
}

// floats is how much scratch a worker needs to gather one tensor.
func (k *channelled) floats() int {
	if k.gathers() {
		return k.n * k.inner
	}
	return 0
}

// spans returns how many pieces a channel has, and each one's length.
func (k *channelled) spans() (n, size int) {
	if k.gathers() {
		return 1, k.n * k.inner
	}
	return k.n, k.inner
}

// plane is plane i of channel c of x.
func (k *channelled) plane(x []float32, i, c int) []float32 {
	return x[(i*k.c+c)*k.inner:][:k.inner]
}

// gather copies channel c of x to a piece of its own, where channels are gathered.
func (k *channelled) gather(to, x []float32, c int) {
	switch {
	case !k.gathers():
	case k.inner == 1:
		for i := range k.n {
			to[i] = x[i*k.c+c]
		}
	default:
		for i := range k.n {
			copy(to[i*k.inner:], k.plane(x, i, c))
		}
	}
}

// spread copies a piece back to channel c of y, where channels are gathered.
func (k *channelled) spread(y, from []float32, c int) {
	switch {
	case !k.gathers():
	case k.inner == 1:
		for i := range k.n {
			y[i*k.c+c] = from[i]
		}
	default:
		for i := range k.n {
			copy(k.plane(y, i, c), from[i*k.inner:])
		}
	}
}

// span is piece i of channel c: of x, or of what was gathered of it.
func (k *channelled) span(x, gathered []float32, i, c int) []float32 {
	if k.gathers() {
		return gathered[:k.n*k.inner]
	}
	return k.plane(x, i, c)
}

// trainedBatchNormKernel is weir:BatchNormalization. The moments are those of [vec.Total] and
// [vec.TotalSquaredDiff] of each piece, added up in float64.
type trainedBatchNormKernel struct {
	plain
	first
	channelled
	eps, momentum, lo, hi float32
}

func trainedBatchNorm(r *request) (compute.Kernel, error) {
	k := &trainedBatchNormKernel{eps: r.Call.Attrs.Float("epsilon", 1e-5),
		momentum: r.Call.Attrs.Float("momentum", 0.9)}
	var ok bool
	if k.channelled, ok = newChannelled(r, 0); !ok || !r.allFloat32(-1) {
		return nil, nil
	}
	var err error
	k.lo, k.hi, err = op.ClipBounds(r.Call)
	return k, err
}

// Name implements Kernel.
func (k *trainedBatchNormKernel) Name() string { return "batchnorm.trained" }

// ScratchBytes implements Kernel.
func (k *trainedBatchNormKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.floats())
}

// Bind implements Kernel.
func (k *trainedBatchNormKernel) Bind(b compute.Binding) compute.Task {
	t := &trainedBatchNormTask{of: k, scratch: perWorker(b)}
	for i, p := range []*[]float32{&t.x, &t.scale, &t.bias, &t.running, &t.runningVariance} {
		*p = tensor.As[float32](b.In[i])
	}
	t.y = tensor.As[float32](b.Out[0])
	for i, p := range []*[]float32{&t.nextMean, &t.nextVariance, &t.mean, &t.inverse} {
		*p = optional(b.Out, i+1)
	}
	return t
}

// optional is output i, nil where nobody asks for it.
//
//go:noinline
func optional(out []*tensor.Tensor, i int) []float32 {
	if i >= len(out) || out[i] == nil {
		return nil
	}
	return tensor.As[float32](out[i])
}

type trainedBatchNormTask struct {
	of                                          *trainedBatchNormKernel
	x, y, scale, bias, running, runningVariance []float32
	nextMean, nextVariance, mean, inverse       []float32
	scratch                                     [][]float32
}

// Run implements Task.
func (t *trainedBatchNormTask) Run(x *compute.Exec) error { return x.For(t.of.c, t) }

// Chunk implements Region: a channel.
func (t *trainedBatchNormTask) Chunk(c, worker int) {
	gathered := t.scratch[worker]
	t.of.gather(gathered, t.x, c)
	n, size := t.of.spans()
	var sum, squares float64
	for i := range n {
		sum += vec.Total(t.of.span(t.x, gathered, i, c))
	}
	all := float64(n) * float64(size)
	mean := float32(sum / all)
	for i := range n {
		squares += vec.TotalSquaredDiff(t.of.span(t.x, gathered, i, c), mean)
	}
	variance := squares / all
	inverse := vec.InverseDeviation(variance, t.of.eps)
	t.give(c, mean, float32(variance), inverse)
	a := t.scale[c] * inverse
	shift := t.bias[c] - a*mean
	for i := range n {
		x := t.of.span(t.x, gathered, i, c)
		vec.AffineClamp(t.of.span(t.y, gathered, i, c), x, a, shift, t.of.lo, t.of.hi)
	}
	t.of.spread(t.y, gathered, c)
}

// give writes the statistics of a channel that are asked for.
func (t *trainedBatchNormTask) give(c int, mean, variance, inverse float32) {
	if t.nextMean != nil {
		t.nextMean[c] = t.running[c]*t.of.momentum + mean*(1-t.of.momentum)
	}
	if t.nextVariance != nil {
		t.nextVariance[c] = t.runningVariance[c]*t.of.momentum + variance*(1-t.of.momentum)
	}
	if t.mean != nil {
		t.mean[c] = mean
	}
	if t.inverse != nil {
		t.inverse[c] = inverse
	}
}

// batchNormGradientKernel is weir:BatchNormalizationGradient. It reads the operands twice: for the
// sums, and for dx = a·g + b·x + c, where g is the gradient behind the activation.
type batchNormGradientKernel struct {
	plain
	first
	channelled
	saved  bool // whether x is in bfloat16, of which a piece at a time is widened
	lo, hi float32
}

func batchNormGradient(r *request) (compute.Kernel, error) {
	k := &batchNormGradientKernel{saved: r.In[1].DType == tensor.BFloat16}
	var ok bool
	if k.channelled, ok = newChannelled(r, 1); !ok || !r.besideSaved() {
		return nil, nil
	}
	var err error
	k.lo, k.hi, err = op.ClipBounds(r.Call)
	return k, err
}

// Name implements Kernel.
func (k *batchNormGradientKernel) Name() string { return "batchnorm.gradient" }

// ScratchBytes implements Kernel.
func (k *batchNormGradientKernel) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.floats()+k.floatsOfX())
}

// floatsOfX is how much of that is for x.
func (k *batchNormGradientKernel) floatsOfX() int {
	if k.saved && !k.gathers() {
		return k.inner
	}
	return k.floats()
}

// Bind implements Kernel.
func (k *batchNormGradientKernel) Bind(b compute.Binding) compute.Task {
	t := &batchNormGradientTask{of: k, scratch: perWorker(b)}
	t.g = tensor.As[float32](b.In[0])
	x := savedOf(b.In[1])
	t.x, t.saved = x.wide, x.narrow
	for i, p := range []*[]float32{&t.scale, &t.bias, &t.mean, &t.inverse} {
		*p = tensor.As[float32](b.In[i+2])
	}
	t.dx = tensor.As[float32](b.Out[0])
	t.dscale, t.dbias = optional(b.Out, 1), optional(b.Out, 2)
	return t
}

type batchNormGradientTask struct {
	of                               *batchNormGradientKernel
	g, x, scale, bias, mean, inverse []float32
	saved                            []uint16 // x in bfloat16, instead of x
	dx, dscale, dbias                []float32
	scratch                          [][]float32
}

// gatherX is gather for x.
func (t *batchNormGradientTask) gatherX(to []float32, c int) {
	if t.saved == nil {
		t.of.gather(to, t.x, c)
		return
	}
	for i := 0; t.of.gathers() && i < t.of.n; i++ {
		t.widen(to[i*t.of.inner:], i, c)
	}
}

// widen writes plane i of channel c of x.
func (t *batchNormGradientTask) widen(to []float32, i, c int) {
	k := t.of
	vec.BFloat16ToFloat32(to[:k.inner], t.saved[(i*k.c+c)*k.inner:])
}

// spanX is span for x; what was there before is gone where x is widened piece by piece.
func (t *batchNormGradientTask) spanX(gathered []float32, i, c int) []float32 {
	if t.saved == nil || t.of.gathers() {
		return t.of.span(t.x, gathered, i, c)
	}
	t.widen(gathered, i, c)
	return gathered[:t.of.inner]
}

// Run implements Task.
func (t *batchNormGradientTask) Run(x *compute.Exec) error { return x.For(t.of.c, t) }

// Chunk implements Region: a channel.
func (t *batchNormGradientTask) Chunk(c, worker int) {
	gs, xs := t.scratch[worker], t.scratch[worker]
	if t.of.gathers() {
		xs = gs[t.of.n*t.of.inner:]
	}
	t.of.gather(gs, t.g, c)
	t.gatherX(xs, c)
	n, size := t.of.spans()
	mean, a := t.mean[c], t.scale[c]*t.inverse[c]
	shift := t.bias[c] - a*mean
	all := !(t.of.lo > float32(math.Inf(-1)) || t.of.hi < float32(math.Inf(1)))
	var sum, dot float64
	for i := range n {
		g, x := t.of.span(t.g, gs, i, c), t.spanX(xs, i, c)
		if !all {
			to := t.of.span(t.dx, gs, i, c)
			vec.Gate(to, g, x, a, shift, t.of.lo, t.of.hi)
			g = to
		}
		sum += vec.Total(g)
		dot += vec.TotalDotDiff(g, x, mean)
	}
	dot *= float64(t.inverse[c])
	if t.dscale != nil {
		t.dscale[c] = float32(dot)
	}
	if t.dbias != nil {
		t.dbias[c] = float32(sum)
	}
	each := float64(n) * float64(size)
	b := -float64(a) * float64(t.inverse[c]) * dot / each
	offset := -float64(a)*sum/each - b*float64(mean)
	for i := range n {
		to := t.of.span(t.dx, gs, i, c)
		g := to
		if all {
			g = t.of.span(t.g, gs, i, c)
		}
		vec.Blend(to, g, t.spanX(xs, i, c), a, float32(b), float32(offset))
	}
	t.of.spread(t.dx, gs, c)
}
