package kernels

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

// scatterKernels are ScatterND (ONNX 16, 18) that adds float32, the gradient of an embedding
// look-up.
var scatterKernels = map[opKey]builder{{"", "ScatterND"}: scatterAdd}

// scatterKernel adds rows of updates to those of data. A chunk has some rows of data and adds all
// that go there in their order, several of them in float64, as the reference does.
type scatterKernel struct {
	plain
	first
	call  *op.Call
	sizes []int // of the axes that indices are of
	n     int   // updates
	rows  int   // of data
	block int   // elements of a row
}

// scatterElements is about how many elements of data a chunk has, and the most of a row.
const scatterElements = 1 << 15

func scatterAdd(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(0)
	at, d, _ := r.in(1)
	updates, _, _ := r.in(2)
	if !r.allFloat32(1) || len(at) == 0 || d != tensor.Int64 ||
		r.Call.Attrs.String("reduction", "none") != "add" {
		return nil, nil
	}
	depth := at[len(at)-1]
	if depth < 1 || depth > len(shape) ||
		!slices.Equal(updates, slices.Concat(at[:len(at)-1], shape[depth:])) {
		return nil, nil
	}
	k := &scatterKernel{call: r.Call, sizes: shape[:depth], n: count(at[:len(at)-1]),
		rows: count(shape[:depth]), block: count(shape[depth:])}
	if count(shape) == 0 || k.n > math.MaxInt32-1 || k.rows > math.MaxInt32 ||
		k.block > scatterElements {
		return nil, nil
	}
	return k, nil
}

// Name implements Kernel.
func (k *scatterKernel) Name() string { return "scatter.add" }

// ScratchBytes implements Kernel: the first update of each row, the next one after each update, and
// of each worker the sums of a row.
func (k *scatterKernel) ScratchBytes(workers int) int {
	return scratchBytes(k.rows) + scratchBytes(k.n) + workers*scratchBytes(2*k.block)
}

// Bind implements Kernel.
func (k *scatterKernel) Bind(b compute.Binding) compute.Task {
	t := &scatterTask{of: k, x: tensor.As[float32](b.In[0]), at: tensor.As[int64](b.In[1]),
		updates: tensor.As[float32](b.In[2]), y: tensor.As[float32](b.Out[0])}
	heads, links := scratchBytes(k.rows), scratchBytes(k.n)
	t.head = tensor.Cast[int32](b.Scratch[:heads])
	t.next = tensor.Cast[int32](b.Scratch[heads:][:links])
	b.Scratch = b.Scratch[heads+links:]
	t.sums, t.per = perWorker(b), max(1, scatterElements/k.block)
	return t
}

type scatterTask struct {
	of            *scatterKernel
	x, updates, y []float32
	at            []int64
	// the first update of each row of data, and the next one after each update, counted from 1
	head, next []int32
	sums       [][]float32
	per        int // rows of a chunk
}

// Run implements Task. Indices are data and are checked before anything is added.
func (t *scatterTask) Run(x *compute.Exec) error {
	clear(t.head)
	depth := len(t.of.sizes)
	for i := t.of.n - 1; i >= 0; i-- {
		row := 0
		for j, size := range t.of.sizes {
			v := t.at[i*depth+j]
			if v < -int64(size) || v >= int64(size) {
				return t.of.call.Errorf(op.ErrInput, "index %d is outside an axis of %d", v, size)
			}
			if v < 0 {
				v += int64(size)
			}
			row = row*size + int(v)
		}
		t.next[i], t.head[row] = t.head[row], int32(i+1)
	}
	return x.For((t.of.rows+t.per-1)/t.per, t)
}

// Chunk implements Region.
func (t *scatterTask) Chunk(i, worker int) {
	n := t.of.block
	from, to := i*t.per, min((i+1)*t.per, t.of.rows)
	if &t.x[0] != &t.y[0] {
		copy(t.y[from*n:to*n], t.x[from*n:])
	}
	for row := from; row < to; row++ {
		switch first, y := t.head[row], t.y[row*n:][:n]; {
		case first == 0:
		case t.next[first-1] == 0:
			vec.Add(y, y, t.updates[int(first-1)*n:][:n])
		default:
			t.several(y, int(first), vec.AsDoubles(t.sums[worker])[:n])
		}
	}
}

// several adds all updates of a row, of which first is the first.
func (t *scatterTask) several(y []float32, first int, sums []float64) {
	for j, v := range y {
		sums[j] = float64(v)
	}
	for at := first; at != 0; at = int(t.next[at-1]) {
		for j, v := range t.updates[(at-1)*len(y):][:len(y)] {
			sums[j] += float64(v)
		}
	}
	for j, s := range sums {
		y[j] = float32(s)
	}
}
