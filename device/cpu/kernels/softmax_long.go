package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// longLogSumExp is [vec.LogSumExp] of rows that are cut into parts.
type longLogSumExp struct{ *reduceKernel }

// Bind implements Kernel.
func (k *longLogSumExp) Bind(b compute.Binding) compute.Task {
	l := newLongRows(k.outer, k.n, b.Workers)
	x, y := tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	peak := make([]float32, l.batch)
	l.add(func(_, lo, hi int) float64 { return float64(vec.MaxReduce(x[lo:hi])) },
		func(r int, values []float64) {
			peak[r] = vec.FinitePeak(float32(folded(values, larger)))
		})
	l.add(func(r, lo, hi int) float64 { return vec.SumExp(x[lo:hi], peak[r]) },
		func(r int, values []float64) {
			y[l.first+r] = float32(float64(peak[r]) + math.Log(folded(values, plus)))
		})
	return l
}

// longSoftmax is the softmax of rows that are cut into parts, or its logarithm.
type longSoftmax struct {
	plain
	first
	log      bool
	outer, n int
}

// Name implements Kernel.
func (k *longSoftmax) Name() string { return "softmax.rows" }

// Bind implements Kernel.
func (k *longSoftmax) Bind(b compute.Binding) compute.Task {
	l := newLongRows(k.outer, k.n, b.Workers)
	x, y := tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	peak, last := make([]float32, l.batch), make([]float32, l.batch)
	l.add(func(_, lo, hi int) float64 { return float64(vec.MaxReduce(x[lo:hi])) },
		func(r int, values []float64) { peak[r] = float32(folded(values, larger)) })
	if k.log {
		l.add(func(r, lo, hi int) float64 { return vec.SumExp(x[lo:hi], peak[r]) },
			func(r int, values []float64) { last[r] = float32(math.Log(folded(values, plus))) })
		l.add(func(r, lo, hi int) float64 {
			vec.ShiftTwice(y[lo:hi], x[lo:hi], peak[r], last[r])
			return 0
		}, nil)
		return l
	}
	l.add(func(r, lo, hi int) float64 { return vec.ExpShift(y[lo:hi], x[lo:hi], peak[r]) },
		func(r int, values []float64) { last[r] = float32(1 / folded(values, plus)) })
	l.add(func(r, lo, hi int) float64 {
		vec.MulScalar(y[lo:hi], y[lo:hi], last[r])
		return 0
	}, nil)
	return l
}
