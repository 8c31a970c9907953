package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// expForm is what becomes of the exponentials of a column and their sum.
type expForm uint8

const (
	overSum    expForm = iota // Softmax: they are divided by the sum
	logOverSum                // LogSoftmax: the logarithm of that
	logSum                    // ReduceLogSumExp: the logarithm of the sum
)

// newColumnExps takes exponentials along the middle of [outer, n, inner], where inner is above 1.
func newColumnExps(form expForm, outer, n, inner int) compute.Kernel {
	k := &columnExps{form: form, outer: outer, n: n, inner: inner}
	if cut := newLongColumns(outer, n, inner); cut.parts > 1 {
		return &longColumnExps{columnExps: k, cut: cut}
	}
	return k
}

// columnExps is Softmax, LogSoftmax or ReduceLogSumExp over an axis that is not the last: columns
// of n elements, inner apart, a block of columns at a time so that the running maxima and sums stay
// in the first cache level. The errors are those of [vec.Softmax], [vec.LogSoftmax] and
// [vec.LogSumExp], with the sums of [vec.ColumnSums].
type columnExps struct {
	plain
	form            expForm
	outer, n, inner int
}

const columnBlock = 512

// columnGroup is how many neighbouring rows of inner elements are taken as one, of n: a power of
// two, so that halves can be joined until one row is left.
func columnGroup(n, inner int) int {
	g := 1
	for 2*g <= n && 2*g*inner <= columnBlock {
		g *= 2
	}
	return g
}

// columnScratch is the scratch of [vec.ColumnSums] for n rows of inner elements, in such groups.
func columnScratch(n, inner int) int {
	g := columnGroup(n, inner)
	return vec.ColumnSumScratch((n+g-1)/g, min(g*inner, columnBlock))
}

// Name implements Kernel.
func (k *columnExps) Name() string {
	if k.form == logSum {
		return "reduce"
	}
	return "softmax.columns"
}

// InPlace implements [compute.InPlace].
func (k *columnExps) InPlace() []int {
	if k.form == logSum {
		return nil
	}
	return []int{0}
}

// workerFloats is the scratch of each worker for n rows: maxima and sums of a block, a row where
// the result has no room for exponentials, and what [vec.ColumnSums] needs.
func (k *columnExps) workerFloats(n int) int {
	blocks := 2
	if k.form != overSum {
		blocks = 3
	}
	return blocks*columnBlock + columnScratch(n, k.inner)
}

// ScratchBytes implements Kernel.
func (k *columnExps) ScratchBytes(workers int) int {
	return workers * scratchBytes(k.workerFloats(k.n))
}

// Bind implements Kernel.
func (k *columnExps) Bind(b compute.Binding) compute.Task {
	return &columnTask{
		k:       k,
		parts:   (k.inner + columnBlock - 1) / columnBlock,
		groups:  columnGroup(k.n, k.inner),
		scratch: perWorker(b),
		x:       tensor.As[float32](b.In[0]),
		y:       tensor.As[float32](b.Out[0]),
	}
}

type columnTask struct {
	k             *columnExps
	parts, groups int
	scratch       [][]float32
	x, y          []float32
}

// columnState is what is known of a block of columns, once for each row of a group, and scratch.
type columnState struct{ peak, sum, row, rest []float32 }

// state is that of a block of w columns in a worker's scratch.
func (t *columnTask) state(worker, w int) (s columnState) {
	s.rest, w = t.scratch[worker], t.groups*w
	s.peak, s.rest = s.rest[:w], s.rest[columnBlock:]
	s.sum, s.rest = s.rest[:w], s.rest[columnBlock:]
	if t.k.form != overSum {
		s.row, s.rest = s.rest[:w], s.rest[columnBlock:]
	}
	return s
}

// Run implements Task.
func (t *columnTask) Run(x *compute.Exec) error { return x.For(t.k.outer*t.parts, t) }

// Chunk implements Region.
func (t *columnTask) Chunk(i, worker int) {
	k, o, part := t.k, i/t.parts, i%t.parts
	lo := part * columnBlock
	w := min(columnBlock, k.inner-lo)
	s := t.state(worker, w)
	x, y := t.x[o*k.n*k.inner : (o+1)*k.n*k.inner][lo:], []float32(nil)
	if k.form != logSum {
		y = t.y[o*k.n*k.inner : (o+1)*k.n*k.inner][lo:]
	}
	t.greatest(s.peak, x)
	k.finite(s.peak)
	t.exponentials(y, x, s)
	t.join(s.sum, vec.Add)
	if k.form != overSum {
		vec.Log(s.sum, s.sum)
	}
	if k.form == logSum {
		vec.Add(t.y[o*k.inner+lo:][:w], s.peak, s.sum)
		return
	}
	t.complete(y, x, s)
}

// greatest sets peak to the greatest elements of the columns of x, for each row of a group.
func (t *columnTask) greatest(peak, x []float32) {
	vec.Fill(peak, float32(math.Inf(-1)))
	for at := 0; at < len(x); at += t.groups * t.k.inner {
		row := x[at:min(at+len(peak), len(x))]
		vec.Max(peak[:len(row)], peak, row)
	}
	t.join(peak, vec.Max)
}

// finite makes peaks of whole columns finite where an infinity must show through.
func (k *columnExps) finite(peaks []float32) {
	if k.form != logSum {
		return
	}
	for j, m := range peaks {
		peaks[j] = vec.FinitePeak(m)
	}
}

// exponentials takes those of x less the peaks, to y where they stay, and sets the sums by columns,
// for each row of a group.
func (t *columnTask) exponentials(y, x []float32, s columnState) {
	sums := vec.MakeColumnSums(s.sum, s.rest)
	for at := 0; at < len(x); at += t.groups * t.k.inner {
		part := x[at:min(at+len(s.peak), len(x))]
		row := s.row
		if t.k.form == overSum {
			row = y[at:]
		}
		row = row[:len(part)]
		vec.Sub(row, part, s.peak)
		vec.Exp(row, row)
		sums.Add(row)
	}
	sums.Finish()
}

// complete sets y to the exponentials over their sums, or to x less the peaks and less the sums,
// which are logarithms then.
func (t *columnTask) complete(y, x []float32, s columnState) {
	for at := 0; at < len(y); at += t.groups * t.k.inner {
		row := y[at:min(at+len(s.sum), len(y))]
		if t.k.form == overSum {
			vec.Div(row, row, s.sum)
			continue
		}
		vec.Sub(row, x[at:], s.peak)
		vec.Sub(row, row, s.sum)
	}
}

// join folds the rows of a group into one, which it then repeats.
func (t *columnTask) join(x []float32, f func(dst, a, b []float32)) {
	g := t.groups / 2
	for ; g > 0; g /= 2 {
		f(x[:g*t.k.inner], x[:g*t.k.inner], x[g*t.k.inner:2*g*t.k.inner])
	}
	for g = 1; g < t.groups; g *= 2 {
		copy(x[g*t.k.inner:], x[:g*t.k.inner])
	}
}
