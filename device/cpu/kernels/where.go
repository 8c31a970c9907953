package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/tensor"
)

// whereKernels are Where (ONNX 9, 16) for any fixed-size type.
var whereKernels = map[opKey]builder{{"", "Where"}: where}

func where(r *request) (compute.Kernel, error) {
	cond, dc, _ := r.in(0)
	a, d, _ := r.in(1)
	b, _, _ := r.in(2)
	if dc != tensor.Bool {
		return nil, nil
	}
	cut, full := cutRows(broadcast(r.outShape(), cond, a, b)), r.full(2)
	switch d.Size() {
	case 1:
		return &whereKernel[uint8]{cut: cut, full: full}, nil
	case 2:
		return &whereKernel[uint16]{cut: cut, full: full}, nil
	case 4:
		return &whereKernel[uint32]{cut: cut, full: full}, nil
	case 8:
		return &whereKernel[uint64]{cut: cut, full: full}, nil
	}
	return nil, nil
}

// whereKernel picks elements of the size of T.
type whereKernel[T tensor.Elem] struct {
	plain
	cut  rowChunks
	full []int
}

// InPlace implements [compute.InPlace]: the last operand is spread over the result before the other
// is read.
func (k *whereKernel[T]) InPlace() []int { return k.full }

// Name implements Kernel.
func (k *whereKernel[T]) Name() string { return "where" }

// Bind implements Kernel.
func (k *whereKernel[T]) Bind(b compute.Binding) compute.Task {
	return &whereTask[T]{
		of:   k,
		cond: b.In[0].Data,
		a:    tensor.Cast[T](b.In[1].Data),
		b:    tensor.Cast[T](b.In[2].Data),
		y:    tensor.Cast[T](b.Out[0].Data),
	}
}

type whereTask[T tensor.Elem] struct {
	of      *whereKernel[T]
	cond    []byte
	a, b, y []T
}

// Run implements Task.
func (t *whereTask[T]) Run(x *compute.Exec) error { return x.For(t.of.cut.chunks, t) }

// Chunk implements Region.
func (t *whereTask[T]) Chunk(i, _ int) {
	first, last, lo, hi := t.of.cut.chunk(i)
	l := &t.of.cut.loop
	var off [maxOperands]int
	for row := first; row < last; row++ {
		l.at(row, &off)
		y := t.y[row*l.inner+lo : row*l.inner+hi]
		if !l.runs[0] {
			from, at, runs := t.b, off[2], l.runs[2]
			if t.cond[off[0]] != 0 {
				from, at, runs = t.a, off[1], l.runs[1]
			}
			spread(y, from[at:], lo, runs)
			continue
		}
		spread(y, t.b[off[2]:], lo, l.runs[2])
		pick(y, t.cond[off[0]+lo:off[0]+hi], t.a[off[1]:], lo, l.runs[1])
	}
}

// spread copies x[lo:] to y, or its first element everywhere when the operand does not run.
func spread[T any](y, x []T, lo int, runs bool) {
	if runs {
		copy(y, x[lo:])
		return
	}
	v := x[0]
	for i := range y {
		y[i] = v
	}
}

// pick puts the elements of x where cond holds.
func pick[T any](y []T, cond []byte, x []T, lo int, runs bool) {
	if !runs {
		v := x[0]
		for i, c := range cond {
			if c != 0 {
				y[i] = v
			}
		}
		return
	}
	x = x[lo:][:len(cond)]
	for i, c := range cond {
		if c != 0 {
			y[i] = x[i]
		}
	}
}
