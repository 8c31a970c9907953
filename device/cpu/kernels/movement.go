package kernels

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// movementKernels are the operators that move elements without looking at them, of any fixed-size
// type, with constant parameters.
var movementKernels = map[opKey]builder{
	{"", "Slice"}:        sliceMove,
	{"", "Concat"}:       concatMove,
	{"", "Split"}:        splitMove,
	{"", "Expand"}:       expandMove,
	{"", "Transpose"}:    transpose,
	{"", "DepthToSpace"}: depthToSpace,
	{"", "SpaceToDepth"}: spaceToDepth,
}

// move copies the index space shape from one placement in an input to another in an output.
type move struct {
	in, out  int
	from, to strided.Steps
	shape    []int
}

// moveBlock bounds the elements of one chunk of a move.
const moveBlock = 1 << 15

// cut splits a move along its axes, outermost first, into pieces of at most moveBlock elements
// where an axis allows it.
func (m move) cut() []move {
	n := count(m.shape)
	axis := slices.IndexFunc(m.shape, func(d int) bool { return d > 1 })
	if n <= moveBlock || axis < 0 {
		return []move{m}
	}
	per := max(1, moveBlock/(n/m.shape[axis]))
	var out []move
	for lo := 0; lo < m.shape[axis]; lo += per {
		p := m
		p.shape = slices.Clone(m.shape)
		p.shape[axis] = min(per, m.shape[axis]-lo)
		p.from.Offset += lo * m.from.Strides[axis]
		p.to.Offset += lo * m.to.Strides[axis]
		if per == 1 {
			out = append(out, p.cut()...)
		} else {
			out = append(out, p)
		}
	}
	return out
}

// moveKernel performs moves, whose pieces are independent.
type moveKernel struct {
	plain
	name   string
	size   int // bytes of an element
	moves  []move
	pieces []move         // of the moves, the chunks
	extra  *tensor.Tensor // one more input, of the kernel's own
}

func newMoves(r *request, moves ...move) (compute.Kernel, error) {
	k := &moveKernel{name: "move." + r.Call.Type, size: r.In[0].DType.Size()}
	// strings, or elements that share bytes, which pieces would write at the same time
	if k.size == 0 {
		return nil, nil
	}
	for _, m := range moves {
		if len(m.shape) == 0 || len(m.shape) > 8 {
			return nil, nil
		}
		if count(m.shape) > 0 {
			k.moves, k.pieces = append(k.moves, m), append(k.pieces, m.cut()...)
		}
	}
	return k, nil
}

// Stretches implements [compute.Moving].
func (k *moveKernel) Stretches() (list []compute.Stretch) {
	if k.extra != nil {
		return nil
	}
	size := int64(k.size)
	for i, m := range k.moves {
		if m.from.Dense(m.shape) && m.to.Dense(m.shape) {
			list = append(
				list,
				compute.Stretch{
					Move:  i,
					In:    m.in,
					Out:   m.out,
					From:  size * int64(m.from.Offset),
					To:    size * int64(m.to.Offset),
					Bytes: size * int64(count(m.shape)),
				},
			)
		}
	}
	return list
}

// Without implements [compute.Moving].
func (k *moveKernel) Without(moves []int) compute.Kernel {
	rest := &moveKernel{name: k.name, size: k.size, extra: k.extra}
	for i, m := range k.moves {
		if !slices.Contains(moves, i) {
			rest.moves, rest.pieces = append(rest.moves, m), append(rest.pieces, m.cut()...)
		}
	}
	if len(rest.moves) == 0 {
		return nil
	}
	return rest
}

// Name implements Kernel.
func (k *moveKernel) Name() string { return k.name }

// Bind implements Kernel.
func (k *moveKernel) Bind(b compute.Binding) compute.Task {
	t := &moveTask{pieces: k.pieces, in: b.In, out: b.Out}
	if k.extra != nil {
		t.in = []*tensor.Tensor{b.In[0], k.extra}
	}
	return t
}

type moveTask struct {
	pieces  []move
	in, out []*tensor.Tensor
}

// Run implements Task.
func (t *moveTask) Run(x *compute.Exec) error { return x.For(len(t.pieces), t) }

// Chunk implements Region. A move that leaves its tensors would be a wrong plan, which the panic
// reports.
func (t *moveTask) Chunk(i, _ int) {
	m := &t.pieces[i]
	if err := strided.Copy(t.out[m.out], m.to, t.in[m.in], m.from, m.shape); err != nil {
		panic(err)
	}
}

// sliceMove is Slice (ONNX 1 with attributes, 10 to 13 with constant inputs). The output's shape
// tells how many elements each axis keeps; starts and steps tell which.
func sliceMove(r *request) (compute.Kernel, error) {
	shape, _, _ := r.in(0)
	from := strided.RowMajor(shape)
	starts, axes, steps := r.Call.Attrs.Ints("starts"), r.Call.Attrs.Ints("axes"), []int64(nil)
	if r.Call.Version >= 10 {
		var ok [3]bool
		starts, ok[0] = r.ints(1)
		axes, ok[1] = r.ints(3)
		steps, ok[2] = r.ints(4)
		if !ok[0] || !ok[1] || !ok[2] {
			return nil, nil
		}
	}
	for i, s := range starts {
		axis := intAt(axes, i, i)
		if axis < 0 {
			axis += len(shape)
		}
		if axis < 0 || axis >= len(shape) {
			return nil, nil
		}
		step, n := intAt(steps, i, 1), shape[axis]
		first := min(max(s, int64(-n)), int64(n))
		if first < 0 {
			first += int64(n)
		}
		if step < 0 {
			first = min(first, int64(n-1))
		}
		from.Offset += int(first) * from.Strides[axis]
		from.Strides[axis] *= step
	}
	out := r.outShape()
	return newMoves(r, move{from: from, to: strided.RowMajor(out), shape: out})
}

// ints returns constant integer input i: nil and true when it is absent, false when it is not
// constant.
//
//go:noinline
func (r *request) ints(i int) ([]int64, bool) {
	if i >= len(r.In) || r.In[i].DType == tensor.Undefined {
		return nil, true
	}
	c := r.constant(i)
	if c == nil {
		return nil, false
	}
	v, err := c.Ints()
	return v, err == nil
}

// axis returns the normalised attribute axis for a rank.
//
//go:noinline
func (r *request) axis(rank int, def int64) (int, bool) {
	a := int(r.Call.Attrs.Int("axis", def))
	if a < 0 {
		a += rank
	}
	return a, a >= 0 && a < rank
}

func concatMove(r *request) (compute.Kernel, error) {
	out := r.outShape()
	axis, ok := r.axis(len(out), 0)
	if !ok {
		return nil, nil
	}
	var moves []move
	to := strided.RowMajor(out)
	for i := range r.In {
		shape, _, _ := r.in(i)
		moves = append(moves, move{in: i, from: strided.RowMajor(shape), to: to, shape: shape})
		to.Offset += shape[axis] * to.Strides[axis]
	}
	return newMoves(r, moves...)
}

func splitMove(r *request) (compute.Kernel, error) {
	in, _, _ := r.in(0)
	axis, ok := r.axis(len(in), 0)
	if !ok {
		return nil, nil
	}
	var moves []move
	from := strided.RowMajor(in)
	for i, t := range r.Out {
		shape, known := t.Ints()
		if !known || t.DType == tensor.Undefined {
			return nil, nil
		}
		moves = append(moves, move{out: i, from: from, to: strided.RowMajor(shape), shape: shape})
		from.Offset += shape[axis] * from.Strides[axis]
	}
	return newMoves(r, moves...)
}

func expandMove(r *request) (compute.Kernel, error) {
	in, _, _ := r.in(0)
	out := r.outShape()
	own := strided.RowMajor(in).Strides
	from := strided.Steps{Strides: make([]int, len(out))}
	for d := 1; d <= len(in); d++ {
		if in[len(in)-d] > 1 {
			from.Strides[len(out)-d] = own[len(in)-d]
		}
	}
	return newMoves(r, move{from: from, to: strided.RowMajor(out), shape: out})
}

// permuted returns a move that reads an input of the given shape with its axes in the order perm.
func permuted(shape, perm []int) move {
	own := strided.RowMajor(shape).Strides
	m := move{from: strided.Steps{Strides: make([]int, len(perm))}, shape: make([]int, len(perm))}
	for i, p := range perm {
		m.from.Strides[i], m.shape[i] = own[p], shape[p]
	}
	m.to = strided.RowMajor(m.shape)
	return m
}

// depthToSpace is DepthToSpace (ONNX 1, 11, 13) as a transpose of a six-dimensional view.
func depthToSpace(r *request) (compute.Kernel, error) {
	s, _, _ := r.in(0)
	b := int(r.Call.Attrs.Int("blocksize", 0))
	if len(s) != 4 || b < 1 || s[1]%(b*b) != 0 {
		return nil, nil
	}
	c := s[1] / (b * b)
	if r.Call.Attrs.String("mode", "DCR") == "CRD" {
		return newMoves(r, permuted([]int{s[0], c, b, b, s[2], s[3]}, []int{0, 1, 4, 2, 5, 3}))
	}
	return newMoves(r, permuted([]int{s[0], b, b, c, s[2], s[3]}, []int{0, 3, 4, 1, 5, 2}))
}

// spaceToDepth is SpaceToDepth (ONNX 1, 13, 28) as a transpose of a six-dimensional view.
func spaceToDepth(r *request) (compute.Kernel, error) {
	s, _, _ := r.in(0)
	b := int(r.Call.Attrs.Int("blocksize", 0))
	if len(s) != 4 || b < 1 || s[2]%b != 0 || s[3]%b != 0 {
		return nil, nil
	}
	order := []int{0, 3, 5, 1, 2, 4}
	if r.Call.Attrs.String("mode", "DCR") == "CRD" {
		order = []int{0, 1, 3, 5, 2, 4}
	}
	return newMoves(r, permuted([]int{s[0], s[1], s[2] / b, b, s[3] / b, b}, order))
}
