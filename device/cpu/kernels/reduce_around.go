package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// reduceAround is the kernel of a reduction of the first and the last axes, such as all but that of
// channels; nil for others. Each chunk takes one result: pieces of neighbours one after the other,
// folded in float64.
func reduceAround(f reduction, r *request) compute.Kernel {
	shape, _, _ := r.in(0)
	if r.In[0].DType != tensor.Float32 || r.Out[0].DType != tensor.Float32 || count(shape) == 0 {
		return nil
	}
	axes, ok := sortedAxes(r, len(shape))
	if !ok || axes[0] != 0 || axes[len(axes)-1] != len(shape)-1 {
		return nil
	}
	split := 1 // where the axes behind those that are kept begin
	for split < len(axes) && axes[split] == axes[split-1]+1 {
		split++
	}
	for i := split + 1; i < len(axes); i++ {
		if axes[i] != axes[i-1]+1 {
			return nil
		}
	}
	if split == len(axes) || axes[split] <= split { // all, or some twice
		return nil
	}
	k := &reduceAroundKernel{f: f, n: count(shape[:split]), c: count(shape[split:axes[split]]),
		inner: count(shape[axes[split]:])}
	if k.n*k.inner > wholeChannel {
		return nil
	}
	return k
}

// reduceAroundKernel reduces the first and last of [n, c, inner].
type reduceAroundKernel struct {
	plain
	f           reduction
	n, c, inner int
}

// Name implements Kernel.
func (k *reduceAroundKernel) Name() string { return "reduce.around" }

// Bind implements Kernel.
func (k *reduceAroundKernel) Bind(b compute.Binding) compute.Task {
	return &reduceAroundTask{k, tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])}
}

type reduceAroundTask struct {
	of   *reduceAroundKernel
	x, y []float32
}

// Run implements Task.
func (t *reduceAroundTask) Run(x *compute.Exec) error { return x.For(t.of.c, t) }

// Chunk implements Region: a result.
func (t *reduceAroundTask) Chunk(c, _ int) {
	var all float64
	for i := range t.of.n {
		if part := t.of.f.part(t.x[(i*t.of.c+c)*t.of.inner:][:t.of.inner]); i == 0 {
			all = part
		} else {
			all = t.of.f.fold(all, part)
		}
	}
	t.y[c] = t.of.f.whole(all, t.of.n*t.of.inner)
}
