package kernels

import (
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/kernel/vec"
	"github.com/weirgpu/weir/tensor"
)

// transpose is Transpose (ONNX 1 to 25). Where the innermost axis stays it moves runs; where it
// changes, elements of four bytes and of one go through the blocked matrix transpose, one matrix
// for each index of the other axes.
func transpose(r *request) (compute.Kernel, error) {
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
	last := len(shape) - 1
	if perm[last] == last || d.Size() != 4 && d.Size() != 1 {
		return newMoves(r, permuted(shape, perm))
	}
	shape, perm = merged(shape, perm)
	last = len(shape) - 1
	return newMatrixTranspose(permuted(shape, perm), last, indexOf(perm, last), d.Size()), nil
}

// merged takes axes that stay neighbours, in their order, for one.
func merged(shape, perm []int) (dims, order []int) {
	first := make([]bool, len(shape)) // whether an axis begins a merged one
	for i, p := range perm {
		first[p] = i == 0 || p != perm[i-1]+1
	}
	number := make([]int, len(shape))
	for i, n := range shape {
		if first[i] {
			dims = append(dims, n)
		} else {
			dims[len(dims)-1] *= n
		}
		number[i] = len(dims) - 1
	}
	for _, p := range perm {
		if first[p] {
			order = append(order, number[p])
		}
	}
	return dims, order
}

func indexOf(perm []int, v int) int {
	for i, p := range perm {
		if p == v {
			return i
		}
	}
	return -1
}

// matrixTranspose is a permutation whose innermost output axis is rows and whose output axis of the
// innermost input axis is columns of a matrix; the other axes count matrices.
type matrixTranspose struct {
	plain
	rows, cols   int
	ldSrc, ldDst int
	dims         []int // the other axes, innermost first
	from, to     []int // their strides
	matrices     int
	per          int // rows of a chunk
	size         int // of an element
}

func newMatrixTranspose(m move, inner, column, size int) *matrixTranspose {
	k := &matrixTranspose{
		size:     size,
		rows:     m.shape[inner],
		cols:     m.shape[column],
		ldSrc:    m.from.Strides[inner],
		ldDst:    m.to.Strides[column],
		matrices: 1,
	}
	for i := len(m.shape) - 1; i >= 0; i-- {
		if i == inner || i == column || m.shape[i] == 1 {
			continue
		}
		k.dims, k.from, k.to = append(k.dims, m.shape[i]), append(k.from, m.from.Strides[i]),
			append(k.to, m.to.Strides[i])
		k.matrices *= m.shape[i]
	}
	const block = 16 // rows of the transpose's register blocks
	k.per = max(block, moveBlock/k.cols&^(block-1))
	return k
}

// Name implements Kernel.
func (k *matrixTranspose) Name() string { return "transpose.matrix" }

// Bind implements Kernel.
func (k *matrixTranspose) Bind(b compute.Binding) compute.Task {
	t := &transposeTask{of: k, parts: (k.rows + k.per - 1) / k.per}
	if k.size == 1 {
		t.src, t.dst = b.In[0].Data, b.Out[0].Data
	} else {
		t.x, t.y = tensor.Cast[uint32](b.In[0].Data), tensor.Cast[uint32](b.Out[0].Data)
	}
	return t
}

type transposeTask struct {
	of       *matrixTranspose
	parts    int
	x, y     []uint32
	src, dst []byte // for elements of one byte
}

// Run implements Task.
func (t *transposeTask) Run(x *compute.Exec) error { return x.For(t.of.matrices*t.parts, t) }

// Chunk implements Region.
func (t *transposeTask) Chunk(i, _ int) {
	matrix, part := i/t.parts, i%t.parts
	var from, to int
	for d, n := range t.of.dims {
		k := matrix % n
		matrix /= n
		from, to = from+k*t.of.from[d], to+k*t.of.to[d]
	}
	lo := part * t.of.per
	rows := min(t.of.per, t.of.rows-lo)
	if t.of.size == 1 {
		vec.TransposeBytes(t.dst[to+lo:], t.src[from+lo*t.of.ldSrc:], rows, t.of.cols, t.of.ldDst,
			t.of.ldSrc)
		return
	}
	vec.Transpose(t.y[to+lo:], t.x[from+lo*t.of.ldSrc:], rows, t.of.cols, t.of.ldDst, t.of.ldSrc)
}
