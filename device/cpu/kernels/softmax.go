package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
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
		form := overSum
		if log {
			form = logOverSum
		}
		return newColumnExps(form, outer, n, inner), nil
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
