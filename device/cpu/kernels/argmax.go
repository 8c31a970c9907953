package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// argKernels are ArgMax (ONNX 1 to 13) along the last axis, the first of equals: how a class is
// read off.
var argKernels = map[opKey]builder{{"", "ArgMax"}: argMax}

func argMax(r *request) (compute.Kernel, error) {
	shape, d, _ := r.in(0)
	axis, ok := r.axis(len(shape), 0)
	if !ok || d != tensor.Float32 || shape[axis] == 0 || count(shape[axis+1:]) != 1 ||
		r.Call.Attrs.Bool("select_last_index", false) {
		return nil, nil
	}
	return &argMaxKernel{rows: count(shape[:axis]), n: shape[axis]}, nil
}

type argMaxKernel struct {
	plain
	rows, n int
}

// Name implements Kernel.
func (k *argMaxKernel) Name() string { return "argmax" }

// Bind implements Kernel.
func (k *argMaxKernel) Bind(b compute.Binding) compute.Task {
	return &argMaxTask{
		of:  k,
		per: rowsPerChunk(k.n),
		x:   tensor.As[float32](b.In[0]),
		y:   tensor.As[int64](b.Out[0]),
	}
}

type argMaxTask struct {
	of  *argMaxKernel
	per int
	x   []float32
	y   []int64
}

// Run implements Task.
func (t *argMaxTask) Run(x *compute.Exec) error { return x.For((t.of.rows+t.per-1)/t.per, t) }

// Chunk implements Region.
func (t *argMaxTask) Chunk(i, _ int) {
	for row := i * t.per; row < min((i+1)*t.per, t.of.rows); row++ {
		t.y[row] = int64(vec.ArgMax(t.x[row*t.of.n : (row+1)*t.of.n]))
	}
}
