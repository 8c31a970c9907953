package cpu

import (
	"github.com/weirgpu/weir/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// transpose is Transpose (ONNX 1 to 25). Where the innermost axis stays it moves runs; where it changes, four-byte elements
// go through the blocked matrix transpose, one matrix for each index of the other axes.
func transpose(r *Request) (Kernel, error) {
	shape, d, _ := r.in(0)
	perm := make([]int, len(shape))
	for i := range perm {
		perm[i] = intAt(r.Call.Attrs.Ints("perm"), i, len(shape)-1-i)
		if perm[i] < 0 || perm[i] >= len(shape) {
			return nil, nil
		}
	}
	if len(shape) == 0 || count(shape) == 0 {
		return nil, nil
	}
	m := permuted(shape, perm)
	last := len(shape) - 1
	if perm[last] == last || d.Size() != 4 {
		return newMoves(r, m)
	}
	return newMatrixTranspose(m, last, indexOf(perm, last)), nil
}

func indexOf(perm []int, v int) int {
	for i, p := range perm {
		if p == v {
			return i
		}
	}
	return -1
}

// matrixTranspose is a permutation whose innermost output axis is rows and whose output axis of the innermost input
// axis is columns of a matrix; the other axes count matrices.
type matrixTranspose struct {
	plain
	rows, cols   int
	ldSrc, ldDst int
	dims         []int // the other axes, innermost first
	from, to     []int // their strides
	matrices     int
	per          int // rows of a chunk
}

func newMatrixTranspose(m move, inner, column int) *matrixTranspose {
	k := &matrixTranspose{rows: m.shape[inner], cols: m.shape[column], ldSrc: m.from.Strides[inner],
		ldDst: m.to.Strides[column], matrices: 1}
	for i := len(m.shape) - 1; i >= 0; i-- {
		if i == inner || i == column || m.shape[i] == 1 {
			continue
		}
		k.dims, k.from, k.to = append(k.dims, m.shape[i]), append(k.from, m.from.Strides[i]), append(k.to, m.to.Strides[i])
		k.matrices *= m.shape[i]
	}
	const block = 16 // rows of the transpose's register blocks
	k.per = max(block, moveBlock/k.cols&^(block-1))
	return k
}

// Name implements Kernel.
func (k *matrixTranspose) Name() string { return "transpose.matrix" }

// Bind implements Kernel.
func (k *matrixTranspose) Bind(b Binding) Task {
	return &transposeTask{matrixTranspose: k, parts: (k.rows + k.per - 1) / k.per,
		x: tensor.Cast[uint32](b.In[0].Data), y: tensor.Cast[uint32](b.Out[0].Data)}
}

type transposeTask struct {
	*matrixTranspose
	parts int
	x, y  []uint32
}

// Run implements Task.
func (t *transposeTask) Run(x *Exec) error { return x.For(t.matrices*t.parts, t) }

// Chunk implements Region.
func (t *transposeTask) Chunk(i, _ int) {
	matrix, part := i/t.parts, i%t.parts
	var from, to int
	for d, n := range t.dims {
		k := matrix % n
		matrix /= n
		from, to = from+k*t.from[d], to+k*t.to[d]
	}
	lo := part * t.per
	rows := min(t.per, t.rows-lo)
	vec.Transpose(t.y[to+lo:], t.x[from+lo*t.ldSrc:], rows, t.cols, t.ldDst, t.ldSrc)
}
