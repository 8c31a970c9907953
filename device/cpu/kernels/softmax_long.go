package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

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

// longColumnSoftmax is columnSoftmax for columns that are cut into parts: their greatest elements
// and sums are joined between the passes over the parts.
type longColumnSoftmax struct {
	*columnSoftmax
	cut longColumns
}

// ScratchBytes implements Kernel: values of parts, maxima and sums of columns, and for each worker
// what columnSoftmax has.
func (k *longColumnSoftmax) ScratchBytes(workers int) int {
	return (8*k.cut.values()+63)&^63 + 2*scratchBytes(k.outer*k.inner) +
		workers*scratchBytes(2*columnBlock+columnScratch(k.cut.rows, k.inner))
}

// Bind implements Kernel.
func (k *longColumnSoftmax) Bind(b compute.Binding) compute.Task {
	t := &longSoftmaxTask{
		k: k,
		columns: columnTask{k: k.columnSoftmax, groups: k.cut.groups,
			x: tensor.As[float32](b.In[0]), y: tensor.As[float32](b.Out[0])},
	}
	t.values, b.Scratch = doubles(b.Scratch, k.cut.values())
	n := scratchBytes(k.outer * k.inner)
	t.peaks, b.Scratch = tensor.Cast[float32](b.Scratch[:n]), b.Scratch[n:]
	t.sums, b.Scratch = tensor.Cast[float32](b.Scratch[:n]), b.Scratch[n:]
	t.columns.scratch = perWorker(b)
	t.passes = [...]regionFunc{t.peak, t.joinPeaks, t.exponentials, t.joinSums, t.divide}
	return t
}

type longSoftmaxTask struct {
	k           *longColumnSoftmax
	columns     columnTask
	values      []float64
	peaks, sums []float32
	passes      [5]regionFunc
}

// Run implements Task.
func (t *longSoftmaxTask) Run(x *compute.Exec) error {
	for i, f := range t.passes {
		chunks := t.k.cut.chunks()
		if i%2 == 1 {
			chunks = blocks(t.k.outer * t.k.inner)
		}
		if err := x.For(chunks, f); err != nil {
			return err
		}
	}
	return nil
}

// rowOf writes to dst what is known of the columns of a part, once for each row of a group.
func (t *longSoftmaxTask) rowOf(dst []float32, p columnPart, all []float32) []float32 {
	w := p.hi - p.lo
	for g := range t.k.cut.groups {
		copy(dst[g*w:(g+1)*w], all[p.outer*t.k.inner:][p.lo:p.hi])
	}
	return dst[:t.k.cut.groups*w]
}

func (t *longSoftmaxTask) peak(i, worker int) {
	p := t.k.cut.at(i)
	peak := t.columns.scratch[worker][:t.k.cut.groups*(p.hi-p.lo)]
	t.columns.greatest(peak, t.columns.x[p.first:p.end])
	t.keep(p, peak)
}

func (t *longSoftmaxTask) exponentials(i, worker int) {
	p, s := t.k.cut.at(i), t.columns.scratch[worker]
	peak := t.rowOf(s, p, t.peaks)
	sum := s[columnBlock:][:len(peak)]
	t.columns.exponentials(t.columns.y[p.first:p.end], t.columns.x[p.first:p.end], peak, sum,
		s[2*columnBlock:])
	t.keep(p, sum)
}

func (t *longSoftmaxTask) divide(i, worker int) {
	p := t.k.cut.at(i)
	sum := t.rowOf(t.columns.scratch[worker], p, t.sums)
	t.columns.divide(t.columns.y[p.first:p.end], sum)
}

// keep makes the values of a part of a row.
func (t *longSoftmaxTask) keep(p columnPart, row []float32) {
	values := t.k.cut.of(t.values, p)
	for j := range values {
		values[j] = float64(row[j])
	}
}

func (t *longSoftmaxTask) joinPeaks(i, _ int) { t.joinInto(t.peaks, i, larger) }

func (t *longSoftmaxTask) joinSums(i, _ int) { t.joinInto(t.sums, i, plus) }

func (t *longSoftmaxTask) joinInto(dst []float32, i int, f func(a, b float64) float64) {
	lo, hi := block(i, t.k.outer*t.k.inner)
	for j := lo; j < hi; j++ {
		dst[j] = float32(t.k.cut.fold(t.values, j, f))
	}
}
