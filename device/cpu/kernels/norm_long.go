package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// longMoments adds the steps that find mean and scale of each row of a batch.
func longMoments(l *longRows, x []float32, eps float32) (mean, scale []float32) {
	mean, scale = make([]float32, l.batch), make([]float32, l.batch)
	l.add(func(_, lo, hi int) float64 { return vec.Total(x[lo:hi]) },
		func(r int, values []float64) { mean[r] = float32(folded(values, plus) / float64(l.n)) })
	l.add(func(r, lo, hi int) float64 { return vec.TotalSquaredDiff(x[lo:hi], mean[r]) },
		func(r int, values []float64) {
			scale[r] = vec.InverseDeviation(folded(values, plus)/float64(l.n), eps)
		})
	return mean, scale
}

// longLayerNorm is layerNormKernel for rows that are cut into parts.
type longLayerNorm struct{ *layerNormKernel }

// Bind implements Kernel.
func (k *longLayerNorm) Bind(b compute.Binding) compute.Task {
	l := newLongRows(k.outer, k.n, b.Workers)
	x, y := tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	gamma, beta := tensor.As[float32](b.In[1]), []float32(nil)
	if len(b.In) > 2 && b.In[2] != nil {
		beta = tensor.As[float32](b.In[2])
	}
	mean, scale := longMoments(l, x, k.eps)
	l.add(func(r, lo, hi int) float64 {
		at, n := lo%k.n, hi-lo
		var shift []float32
		if beta != nil {
			shift = beta[at : at+n]
		}
		vec.Normalize(y[lo:hi], x[lo:hi], gamma[at:at+n], shift, mean[r], scale[r])
		return 0
	}, nil)
	return l
}

// longGroupNorm is groupNormKernel for groups that are cut into parts.
type longGroupNorm struct{ *groupNormKernel }

// Bind implements Kernel.
func (k *longGroupNorm) Bind(b compute.Binding) compute.Task {
	n := k.channels * k.inner
	l, t := newLongRows(k.rows, n, b.Workers), k.bind(b)
	mean, scale := longMoments(l, t.x, k.eps)
	l.add(func(r, lo, hi int) float64 {
		y := t.y[lo:hi]
		vec.Normalize(y, t.x[lo:hi], nil, nil, mean[r], scale[r])
		t.affine(y, l.first+r, lo%n)
		return 0
	}, nil)
	return l
}
