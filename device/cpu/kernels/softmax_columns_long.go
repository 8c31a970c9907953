package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// longColumnExps is columnExps for columns that are cut into parts: their greatest elements and
// sums are joined between the passes over the parts.
type longColumnExps struct {
	*columnExps
	cut longColumns
}

// ScratchBytes implements Kernel: values of parts, maxima and sums of columns, and for each worker
// what columnExps has.
func (k *longColumnExps) ScratchBytes(workers int) int {
	return (8*k.cut.values()+63)&^63 + 2*scratchBytes(k.outer*k.inner) +
		workers*scratchBytes(k.workerFloats(k.cut.rows))
}

// Bind implements Kernel.
func (k *longColumnExps) Bind(b compute.Binding) compute.Task {
	t := &longExpsTask{
		k: k,
		columns: columnTask{k: k.columnExps, groups: k.cut.groups,
			x: tensor.As[float32](b.In[0]), y: tensor.As[float32](b.Out[0])},
	}
	t.values, b.Scratch = doubles(b.Scratch, k.cut.values())
	n := scratchBytes(k.outer * k.inner)
	t.peaks, b.Scratch = tensor.Cast[float32](b.Scratch[:n]), b.Scratch[n:]
	t.sums, b.Scratch = tensor.Cast[float32](b.Scratch[:n]), b.Scratch[n:]
	t.columns.scratch = perWorker(b)
	t.passes = []regionFunc{t.peak, t.joinPeaks, t.exponentials, t.joinSums, t.complete}
	if k.form == logSum {
		t.passes = t.passes[:4]
	}
	return t
}

type longExpsTask struct {
	k           *longColumnExps
	columns     columnTask
	values      []float64
	peaks, sums []float32 // sums are logarithms but for Softmax
	passes      []regionFunc
}

// Run implements Task.
func (t *longExpsTask) Run(x *compute.Exec) error {
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

// repeat writes to dst what is known of the columns of a part, once for each row of a group.
func (t *longExpsTask) repeat(dst []float32, p columnPart, all []float32) {
	w := p.hi - p.lo
	for g := range t.k.cut.groups {
		copy(dst[g*w:(g+1)*w], all[p.outer*t.k.inner:][p.lo:p.hi])
	}
}

func (t *longExpsTask) peak(i, worker int) {
	p := t.k.cut.at(i)
	s := t.columns.state(worker, p.hi-p.lo)
	t.columns.greatest(s.peak, t.columns.x[p.first:p.end])
	t.keep(p, s.peak)
}

func (t *longExpsTask) exponentials(i, worker int) {
	p := t.k.cut.at(i)
	s := t.columns.state(worker, p.hi-p.lo)
	t.repeat(s.peak, p, t.peaks)
	t.columns.exponentials(t.out(p), t.columns.x[p.first:p.end], s)
	t.columns.join(s.sum, vec.Add)
	t.keep(p, s.sum)
}

// out is the result for a part, nil where it has none of its own.
func (t *longExpsTask) out(p columnPart) []float32 {
	if t.k.form == logSum {
		return nil
	}
	return t.columns.y[p.first:p.end]
}

func (t *longExpsTask) complete(i, worker int) {
	p := t.k.cut.at(i)
	s := t.columns.state(worker, p.hi-p.lo)
	t.repeat(s.peak, p, t.peaks)
	t.repeat(s.sum, p, t.sums)
	t.columns.complete(t.out(p), t.columns.x[p.first:p.end], s)
}

// keep makes the values of a part of a row.
func (t *longExpsTask) keep(p columnPart, row []float32) {
	values := t.k.cut.of(t.values, p)
	for j := range values {
		values[j] = float64(row[j])
	}
}

func (t *longExpsTask) joinPeaks(i, _ int) {
	lo, hi := block(i, t.k.outer*t.k.inner)
	for j := lo; j < hi; j++ {
		t.peaks[j] = float32(t.k.cut.fold(t.values, j, larger))
	}
	t.k.finite(t.peaks[lo:hi])
}

func (t *longExpsTask) joinSums(i, _ int) {
	lo, hi := block(i, t.k.outer*t.k.inner)
	for j := lo; j < hi; j++ {
		switch sum := t.k.cut.fold(t.values, j, plus); t.k.form {
		case overSum:
			t.sums[j] = float32(sum)
		case logOverSum:
			t.sums[j] = float32(math.Log(sum))
		default:
			t.columns.y[j] = float32(float64(t.peaks[j]) + math.Log(sum))
		}
	}
}
