package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// normKernels are the normalisations that remain after passes have folded what they can.
var normKernels = map[opKey]builder{
	{"", "LayerNormalization"}:    layerNorm,
	{"", "BatchNormalization"}:    batchNorm,
	{"", "InstanceNormalization"}: groupNorm,
	{"", "GroupNormalization"}:    groupNorm,
}

// layerNorm is LayerNormalization-17 over trailing axes. Rows that are cut into parts give no
// moments.
func layerNorm(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(0)
	axis := int(r.Call.Attrs.Int("axis", -1))
	if axis < 0 {
		axis += len(shape)
	}
	if !r.allFloat32(-1) || axis < 0 || axis >= len(shape) {
		return nil, nil
	}
	moments := false
	for i := 1; i < len(r.Out); i++ {
		if moments = moments || wants(r, i); wants(r, i) && r.Out[i].DType != tensor.Float32 {
			return nil, nil
		}
	}
	k := &layerNormKernel{
		outer: count(shape[:axis]),
		n:     count(shape[axis:]),
		eps:   r.Call.Attrs.Float("epsilon", 1e-5),
	}
	for i := 1; i < len(r.In); i++ {
		if s, _, ok := r.in(i); ok && !slices.Equal(withoutOnes(s), withoutOnes(shape[axis:])) {
			return nil, nil
		}
	}
	if k.n <= longRow {
		return k, nil
	}
	if moments {
		return nil, nil
	}
	return &longLayerNorm{k}, nil
}

// withoutOnes leaves the leading ones of a shape out.
func withoutOnes(shape []int) []int {
	for len(shape) > 0 && shape[0] == 1 {
		shape = shape[1:]
	}
	return shape
}

//go:noinline
func wants(r *request, out int) bool {
	return out < len(r.Out) && r.Out[out].DType != tensor.Undefined
}

type layerNormKernel struct {
	plain
	first
	outer, n int
	eps      float32
}

// Name implements Kernel.
func (k *layerNormKernel) Name() string { return "layernorm" }

// Bind implements Kernel.
func (k *layerNormKernel) Bind(b compute.Binding) compute.Task {
	t := &layerNormTask{of: k, per: rowsPerChunk(k.n), x: tensor.As[float32](b.In[0]),
		y: tensor.As[float32](b.Out[0]), gamma: tensor.As[float32](b.In[1])}
	if len(b.In) > 2 && b.In[2] != nil {
		t.beta = tensor.As[float32](b.In[2])
	}
	t.mean, t.inverse = optional(b.Out, 1), optional(b.Out, 2)
	return t
}

type layerNormTask struct {
	of                *layerNormKernel
	per               int
	x, y, gamma, beta []float32
	mean, inverse     []float32 // nil where nobody asks for them
}

// Run implements Task.
func (t *layerNormTask) Run(x *compute.Exec) error { return x.For((t.of.outer+t.per-1)/t.per, t) }

// Chunk implements Region.
func (t *layerNormTask) Chunk(i, _ int) {
	for o := i * t.per; o < min((i+1)*t.per, t.of.outer); o++ {
		mean, inverse := vec.LayerNorm(t.y[o*t.of.n:(o+1)*t.of.n], t.x[o*t.of.n:(o+1)*t.of.n],
			t.gamma, t.beta, t.of.eps)
		if t.mean != nil {
			t.mean[o] = mean
		}
		if t.inverse != nil {
			t.inverse[o] = inverse
		}
	}
}

// batchNorm is BatchNormalization-7 to 15 in inference with one scale and shift a channel.
func batchNorm(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(0)
	if !r.allFloat32(-1) || len(shape) < 2 || count(shape) == 0 || wants(r, 1) ||
		r.Call.Attrs.Bool("training_mode", false) || !r.Call.Attrs.Bool("spatial", true) {
		return nil, nil
	}
	return &batchNormKernel{
		n:     shape[0],
		c:     shape[1],
		inner: count(shape[2:]),
		eps:   r.Call.Attrs.Float("epsilon", 1e-5),
	}, nil
}

type batchNormKernel struct {
	plain
	first
	n, c, inner int
	eps         float32
}

// Name implements Kernel.
func (k *batchNormKernel) Name() string { return "batchnorm" }

// Bind implements Kernel.
func (k *batchNormKernel) Bind(b compute.Binding) compute.Task {
	t := &batchNormTask{
		of:  k,
		per: rowsPerChunk(k.inner),
		y:   tensor.As[float32](b.Out[0]),
	}
	for i, p := range []*[]float32{&t.x, &t.scale, &t.shift, &t.mean, &t.variance} {
		*p = tensor.As[float32](b.In[i])
	}
	return t
}

type batchNormTask struct {
	of                           *batchNormKernel
	per                          int
	x, y                         []float32
	scale, shift, mean, variance []float32
}

// Run implements Task.
func (t *batchNormTask) Run(x *compute.Exec) error {
	return x.For((t.of.n*t.of.c+t.per-1)/t.per, t)
}

// Chunk implements Region.
func (t *batchNormTask) Chunk(i, _ int) {
	for row := i * t.per; row < min((i+1)*t.per, t.of.n*t.of.c); row++ {
		c := row % t.of.c
		a := t.scale[c] / float32(math.Sqrt(float64(t.variance[c]+t.of.eps)))
		vec.Affine(t.y[row*t.of.inner:(row+1)*t.of.inner], t.x[row*t.of.inner:(row+1)*t.of.inner],
			a, t.shift[c]-a*t.mean[c])
	}
}
