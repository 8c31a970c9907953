package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// longReduce is reduceKernel for rows that are cut into parts.
type longReduce struct{ *reduceKernel }

// Bind implements Kernel.
func (k *longReduce) Bind(b compute.Binding) compute.Task {
	l := newLongRows(k.outer, k.n, b.Workers)
	x, y := tensor.As[float32](b.In[0]), tensor.As[float32](b.Out[0])
	l.add(func(_, lo, hi int) float64 { return k.f.part(x[lo:hi]) },
		func(r int, values []float64) {
			y[l.first+r] = k.f.whole(folded(values, k.f.fold), k.n)
		})
	return l
}

// longColumnReduce is reduceKernel for columns that are cut into parts. The sums of parts have the
// error of [vec.ColumnSums] and are added up in float64.
type longColumnReduce struct {
	*reduceKernel
	cut longColumns
}

// workerFloats is the scratch of each worker: a row in the making, and that of its sums.
func (k *longColumnReduce) workerFloats() int {
	return columnBlock + columnScratch(k.cut.rows, k.inner)
}

// ScratchBytes implements Kernel.
func (k *longColumnReduce) ScratchBytes(workers int) int {
	return (8*k.cut.values()+63)&^63 + workers*scratchBytes(k.workerFloats())
}

// Bind implements Kernel.
func (k *longColumnReduce) Bind(b compute.Binding) compute.Task {
	t := &longColumnTask{k: k, x: tensor.As[float32](b.In[0]), y: tensor.As[float32](b.Out[0])}
	t.values, b.Scratch = doubles(b.Scratch, k.cut.values())
	t.scratch = perWorker(b)
	t.reduce, t.join = t.reducePart, t.joinParts
	return t
}

type longColumnTask struct {
	k            *longColumnReduce
	x, y         []float32
	values       []float64
	scratch      [][]float32
	reduce, join regionFunc
}

// Run implements Task.
func (t *longColumnTask) Run(x *compute.Exec) error {
	if err := x.For(t.k.cut.chunks(), t.reduce); err != nil {
		return err
	}
	return x.For(blocks(len(t.y)), t.join)
}

func (t *longColumnTask) reducePart(i, worker int) {
	k := t.k
	p := k.cut.at(i)
	x, values := t.x[p.first:p.end], k.cut.of(t.values, p)
	w := k.cut.groups * (p.hi - p.lo)
	acc, scratch := t.scratch[worker][:w], t.scratch[worker][columnBlock:]
	k.rows(acc, x, scratch, k.cut.groups)
	for j := range values {
		values[j] = float64(acc[j])
		if v := acc[j]; v-v != 0 && k.f.every != nil {
			values[j] = k.f.every(x[j:], k.inner)
		}
	}
}

// joinParts completes a block of results.
func (t *longColumnTask) joinParts(i, _ int) {
	lo, hi := block(i, len(t.y))
	for j := lo; j < hi; j++ {
		t.y[j] = t.k.f.whole(t.k.cut.fold(t.values, j, t.k.f.fold), t.k.n)
	}
}
