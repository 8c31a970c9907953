package kernels

import (
	"math"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// softmaxKernels are Softmax and LogSoftmax (ONNX 1, 11, 13) in float32.
var softmaxKernels = map[opKey]builder{
	{"", "Softmax"}:    softmax(vec.Softmax, false),
	{"", "LogSoftmax"}: softmax(vec.LogSoftmax, true),
}

func softmax(row vecFunc, log bool) builder {
	return func(r *request) (compute.Kernel, error) {
		shape, _, _ := r.in(0)
		if !r.allFloat32(-1) || len(shape) == 0 {
			return nil, nil
		}
		outer, n, inner := softmaxExtents(r, shape)
		if n == 0 {
			return nil, nil
		}
		if inner == 1 && n > longRow {
			return &longSoftmax{log: log, outer: outer, n: n}, nil
		}
		if inner == 1 {
			return &rowKernel{name: "softmax.rows", f: row, outer: outer, n: n}, nil
		}
		if log {
			return nil, nil
		}
		k := &columnSoftmax{outer: outer, n: n, inner: inner}
		if cut := newLongColumns(outer, n, inner); cut.parts > 1 {
			return &longColumnSoftmax{columnSoftmax: k, cut: cut}, nil
		}
		return k, nil
	}
}

// softmaxExtents splits a shape at the axis. Before version 13 the operator works on the matrix
// that a flattening at the axis gives, so everything from the axis on is one row.
func softmaxExtents(r *request, shape []int) (outer, n, inner int) {
	def := int64(-1)
	if r.Call.Version < 13 {
		def = 1
	}
	axis := int(r.Call.Attrs.Int("axis", def))
	if axis < 0 {
		axis += len(shape)
	}
	if axis < 0 || axis >= len(shape) {
		return 0, 0, 0
	}
	if r.Call.Version < 13 {
		return count(shape[:axis]), count(shape[axis:]), 1
	}
	return count(shape[:axis]), shape[axis], count(shape[axis+1:])
}

// rowKernel applies f to each of outer rows of n.
type rowKernel struct {
	plain
	first
	name     string
	f        vecFunc
	outer, n int
}

// Name implements Kernel.
func (k *rowKernel) Name() string { return k.name }

// Bind implements Kernel.
func (k *rowKernel) Bind(b compute.Binding) compute.Task {
	return &rowTask{
		k:   k,
		per: rowsPerChunk(k.n),
		x:   tensor.As[float32](b.In[0]),
		y:   tensor.As[float32](b.Out[0]),
	}
}

// rowsPerChunk is how many rows of n make a chunk.
func rowsPerChunk(n int) int { return max(1, mapBlock/max(1, n)) }

type rowTask struct {
	k    *rowKernel
	per  int
	x, y []float32
}

// Run implements Task.
func (t *rowTask) Run(x *compute.Exec) error { return x.For((t.k.outer+t.per-1)/t.per, t) }

// Chunk implements Region.
func (t *rowTask) Chunk(i, _ int) {
	n := t.k.n
	for o := i * t.per; o < min((i+1)*t.per, t.k.outer); o++ {
		t.k.f(t.y[o*n:(o+1)*n], t.x[o*n:(o+1)*n])
	}
}

// columnSoftmax normalises over an axis that is not the last: columns of n elements, inner apart, a
// block of columns at a time so that the running maxima and sums stay in the first cache level. The
// error is that of [vec.Softmax], with the sums of [vec.ColumnSums].
type columnSoftmax struct {
	plain
	first
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
func (k *columnSoftmax) Name() string { return "softmax.columns" }

// ScratchBytes implements Kernel: maxima and sums of a block, for each worker.
func (k *columnSoftmax) ScratchBytes(workers int) int {
	return workers * scratchBytes(2*columnBlock+columnScratch(k.n, k.inner))
}

// Bind implements Kernel.
func (k *columnSoftmax) Bind(b compute.Binding) compute.Task {
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
	k             *columnSoftmax
	parts, groups int
	scratch       [][]float32
	x, y          []float32
}

// Run implements Task.
func (t *columnTask) Run(x *compute.Exec) error { return x.For(t.k.outer*t.parts, t) }

// Chunk implements Region.
func (t *columnTask) Chunk(i, worker int) {
	k, o, part := t.k, i/t.parts, i%t.parts
	lo := part * columnBlock
	w := t.groups * min(columnBlock, k.inner-lo)
	x, y := t.x[o*k.n*k.inner : (o+1)*k.n*k.inner][lo:], t.y[o*k.n*k.inner : (o+1)*k.n*k.inner][lo:]
	peak, sum, rest := t.scratch[worker][:w], t.scratch[worker][columnBlock:][:w],
		t.scratch[worker][2*columnBlock:]
	t.greatest(peak, x)
	t.exponentials(y, x, peak, sum, rest)
	t.divide(y, sum)
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

// exponentials sets y to the exponentials of x less peak, and sum to their sums by columns, for
// each row of a group.
func (t *columnTask) exponentials(y, x, peak, sum, scratch []float32) {
	sums := vec.MakeColumnSums(sum, scratch)
	for at := 0; at < len(x); at += t.groups * t.k.inner {
		row := y[at:min(at+len(peak), len(x))]
		vec.Sub(row, x[at:], peak)
		vec.Exp(row, row)
		sums.Add(row)
	}
	sums.Finish()
	t.join(sum, vec.Add)
}

// divide divides the columns of y by sum.
func (t *columnTask) divide(y, sum []float32) {
	for at := 0; at < len(y); at += t.groups * t.k.inner {
		row := y[at:min(at+len(sum), len(y))]
		vec.Div(row, row, sum)
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
