package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// normGradientKernels are the gradients of what is computed row by row.
var normGradientKernels = map[opKey]builder{
	{op.FusedDomain, op.LayerNormGradient}: layerNormGradient,
	{op.FusedDomain, op.SoftmaxGradient}:   softmaxGradient,
}

// layerNormGradientKernel is weir:LayerNormalizationGradient. Rows are cut into parts, which depend
// on shapes alone; each part has its own sums for scale and bias, which are added up in float64.
type layerNormGradientKernel struct {
	plain
	first
	outer, n   int
	per, parts int  // rows of a part, and how many there are
	sums       bool // whether scale or bias have a gradient
}

// The most parts of rows that are few, and the fewest rows that make one.
const (
	gradientParts = 64
	gradientRows  = 16
)

func layerNormGradient(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(1)
	axis := int(r.Call.Attrs.Int("axis", -1))
	if axis < 0 {
		axis += len(shape)
	}
	if !r.besideSaved() || axis < 0 || axis >= len(shape) {
		return nil, nil
	}
	k := &layerNormGradientKernel{outer: count(shape[:axis]), n: count(shape[axis:]),
		sums: wants(r, 1) || wants(r, 2)}
	if scale, _, _ := r.in(2); !slices.Equal(scale, shape[axis:]) || k.n > longRow {
		return nil, nil
	}
	for i := 3; i < 5; i++ {
		if m, _, _ := r.in(i); count(m) != k.outer {
			return nil, nil
		}
	}
	k.per = max(gradientRows, (k.outer+gradientParts-1)/gradientParts)
	k.per = max(1, min(k.per, longRow/k.n))
	k.parts = (k.outer + k.per - 1) / k.per
	return k, nil
}

// Name implements Kernel.
func (*layerNormGradientKernel) Name() string { return "layernorm.gradient" }

// ScratchBytes implements Kernel: of each worker a row, and the sums of each part.
func (k *layerNormGradientKernel) ScratchBytes(workers int) int {
	bytes := workers * scratchBytes(k.n)
	if k.sums {
		bytes += scratchBytes(2 * k.n * k.parts)
	}
	return bytes
}

// Bind implements Kernel.
func (k *layerNormGradientKernel) Bind(b compute.Binding) compute.Task {
	t := &layerNormGradientTask{of: k, dx: tensor.As[float32](b.Out[0]),
		dscale: optional(b.Out, 1), dbias: optional(b.Out, 2)}
	t.dy, t.x = tensor.As[float32](b.In[0]), savedOf(b.In[1])
	for i, p := range []*[]float32{&t.scale, &t.mean, &t.inverse} {
		*p = tensor.As[float32](b.In[i+2])
	}
	if k.sums {
		n := scratchBytes(2 * k.n * k.parts)
		t.sums, b.Scratch = tensor.Cast[float32](b.Scratch[:n]), b.Scratch[n:]
	}
	t.rows = perWorker(b)
	return t
}

type layerNormGradientTask struct {
	of                       *layerNormGradientKernel
	dy, scale, mean, inverse []float32
	x                        saved
	dx, dscale, dbias        []float32 // the last two nil where nobody asks for them
	sums                     []float32 // of each part those for scale, and those for bias
	rows                     [][]float32
}

// Run implements Task.
func (t *layerNormGradientTask) Run(x *compute.Exec) error {
	if err := x.For(t.of.parts, t); err != nil || !t.of.sums {
		return err
	}
	t.join(t.dscale, 0)
	t.join(t.dbias, t.of.n)
	return nil
}

// Chunk implements Region: a part of the rows.
func (t *layerNormGradientTask) Chunk(i, worker int) {
	n := t.of.n
	var scale, bias []float32
	if t.of.sums {
		scale, bias = t.sums[2*i*n:][:n], t.sums[(2*i+1)*n:][:n]
		clear(scale)
		clear(bias)
	}
	for o := i * t.of.per; o < min((i+1)*t.of.per, t.of.outer); o++ {
		t.row(o, t.rows[worker][:n], scale, bias)
	}
}

// row replaces the gradient of row o by that of its operand, by way of what it was normalised to,
// and adds to sums that are not nil. Row dx may be row dy.
func (t *layerNormGradientTask) row(o int, normal, scale, bias []float32) {
	n, inverse := t.of.n, t.inverse[o]
	dy, x, dx := t.dy[o*n:][:n], t.x.piece(normal, o*n, (o+1)*n), t.dx[o*n:][:n]
	vec.Normalize(normal, x, nil, nil, t.mean[o], inverse)
	if scale != nil {
		vec.FMA(scale, dy, normal, scale)
		vec.Add(bias, bias, dy)
	}
	vec.Mul(dx, dy, t.scale)
	each := float64(inverse) / float64(n)
	sum, dot := vec.Total(dx), vec.TotalDotDiff(dx, normal, 0)
	vec.Blend(dx, dx, normal, inverse, float32(-each*dot), float32(-each*sum))
}

// join adds up what parts have at from on.
func (t *layerNormGradientTask) join(to []float32, from int) {
	for k := range to {
		sum := 0.0
		for i := range t.of.parts {
			sum += float64(t.sums[2*i*t.of.n+from+k])
		}
		to[k] = float32(sum)
	}
}

// softmaxGradientKernel is weir:SoftmaxGradient.
type softmaxGradientKernel struct {
	plain
	first
	outer, n int
	narrow   bool // whether y has been saved in bfloat16
}

func softmaxGradient(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(0)
	axis := int(r.Call.Attrs.Int("axis", -1))
	if axis < 0 {
		axis += len(shape)
	}
	if !r.besideSaved() || axis < 0 || axis >= len(shape) {
		return nil, nil
	}
	k := &softmaxGradientKernel{outer: count(shape[:axis]), n: count(shape[axis:]),
		narrow: r.In[1].DType == tensor.BFloat16}
	if k.n > longRow {
		return nil, nil
	}
	return k, nil
}

// Name implements Kernel.
func (*softmaxGradientKernel) Name() string { return "softmax.gradient" }

// ScratchBytes implements Kernel: a row of each worker.
func (k *softmaxGradientKernel) ScratchBytes(workers int) int {
	if !k.narrow {
		return 0
	}
	return workers * scratchBytes(k.n)
}

// Bind implements Kernel.
func (k *softmaxGradientKernel) Bind(b compute.Binding) compute.Task {
	return &softmaxGradientTask{of: k, per: rowsPerChunk(k.n), dy: tensor.As[float32](b.In[0]),
		y: savedOf(b.In[1]), dx: tensor.As[float32](b.Out[0]), rows: perWorker(b)}
}

type softmaxGradientTask struct {
	of     *softmaxGradientKernel
	per    int
	dy, dx []float32
	y      saved
	rows   [][]float32
}

// Run implements Task.
func (t *softmaxGradientTask) Run(x *compute.Exec) error {
	return x.For((t.of.outer+t.per-1)/t.per, t)
}

// Chunk implements Region.
func (t *softmaxGradientTask) Chunk(i, worker int) {
	n := t.of.n
	for o := i * t.per; o < min((i+1)*t.per, t.of.outer); o++ {
		dy, dx := t.dy[o*n:][:n], t.dx[o*n:][:n]
		y := t.y.piece(t.rows[worker], o*n, (o+1)*n)
		vec.SubScalar(dx, dy, float32(vec.TotalDotDiff(dy, y, 0)))
		vec.Mul(dx, dx, y)
	}
}
