package op

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// BroadcastShapes returns the shape that all given shapes broadcast to, by the rule that ONNX calls
// multidirectional broadcasting and takes from numpy: shapes are aligned at their last dimension,
// and sizes are equal or 1. It fails with tensor.ErrShape.
func BroadcastShapes(shapes ...[]int) ([]int, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := slices.Repeat([]int{1}, rank)
	for _, s := range shapes {
		for i, n := range s {
			switch o := &out[rank-len(s)+i]; {
			case n == *o || n == 1:
			case *o == 1:
				*o = n
			default:
				return nil, fmt.Errorf("%w: %v do not broadcast: %d against %d", tensor.ErrShape,
					shapes, *o, n)
			}
		}
	}
	return out, nil
}

// BroadcastDims is [BroadcastShapes] for symbolic dimensions. Against a known size other than 1 a
// symbol must be that size or 1, so the result is known; two different symbols give Unknown, since
// either may be 1. A symbol against itself cut to a known size, as a table of positions is cut to
// the length of a sequence, is the symbol: the cut is the same size, or else it is 1 or refused.
func BroadcastDims(shapes ...[]Dim) ([]Dim, error) {
	rank := 0
	for _, s := range shapes {
		rank = max(rank, len(s))
	}
	out := slices.Repeat([]Dim{Known(1)}, rank)
	for _, s := range shapes {
		for i, n := range s {
			o := &out[rank-len(s)+i]
			d, ok := broadcastDim(*o, n)
			if !ok {
				return nil, fmt.Errorf("%w: %v do not broadcast: %v against %v", tensor.ErrShape,
					shapes, *o, n)
			}
			*o = d
		}
	}
	return out, nil
}

func broadcastDim(a, b Dim) (Dim, bool) {
	_, aKnown := a.Int()
	_, bKnown := b.Int()
	switch {
	case b.Is(1) || a.Equal(b) || b.isCutOf(a):
		return a, true
	case a.Is(1) || a.isCutOf(b):
		return b, true
	case aKnown && bKnown:
		return Dim{}, false
	case aKnown:
		return a, true
	case bKnown:
		return b, true
	}
	return Unknown(), true
}

// rowMajor returns the strides, in elements, of a contiguous tensor.
//
//go:noinline
func rowMajor(shape []int) []int {
	st := make([]int, len(shape))
	n := 1
	for i := len(shape) - 1; i >= 0; i-- {
		st[i] = n
		n *= shape[i]
	}
	return st
}

// broadcastStrides returns the strides by which an operand of the given shape is read along the
// shape that it broadcasts to: 0 where it is repeated.
//
//go:noinline
func broadcastStrides(shape, to []int) []int {
	st := make([]int, len(to))
	skip := len(to) - len(shape)
	for i, s := range rowMajor(shape) {
		if shape[i] != 1 {
			st[skip+i] = s
		}
	}
	return st
}

// walk goes over an index space in row-major order and keeps the offsets of any number of strided
// operands. Adjacent dimensions that all operands step through evenly are merged, so that the usual
// cases are one long run.
type walk struct {
	shape   []int
	strides [][]int // one an operand, each as long as shape
}

// newWalk prepares a walk over shape; strides has one entry an operand, in elements.
func newWalk(shape []int, strides ...[]int) walk {
	w := walk{strides: make([][]int, len(strides))}
	for i, n := range shape {
		if n == 1 {
			continue
		}
		last := len(w.shape) - 1
		if last >= 0 && evenAt(w.strides, strides, last, i, n) {
			w.shape[last] *= n
			for k := range strides {
				w.strides[k][last] = strides[k][i]
			}
			continue
		}
		w.push(n, func(k int) int { return strides[k][i] })
	}
	if len(w.shape) == 0 {
		w.push(1, func(int) int { return 0 })
	}
	return w
}

// push adds a dimension of n steps; stride tells how far operand k goes in one.
func (w *walk) push(n int, stride func(k int) int) {
	w.shape = append(w.shape, n)
	for k := range w.strides {
		w.strides[k] = append(w.strides[k], stride(k))
	}
}

// evenAt reports whether dimension i of size n continues the merged dimension last for every
// operand.
func evenAt(merged, strides [][]int, last, i, n int) bool {
	for k := range strides {
		if merged[k][last] != strides[k][i]*n {
			return false
		}
	}
	return true
}

// broadcastWalk walks over the shape that operands of the given shapes broadcast to.
func broadcastWalk(to []int, shapes ...[]int) walk {
	strides := make([][]int, len(shapes))
	for i, s := range shapes {
		strides[i] = broadcastStrides(s, to)
	}
	return newWalk(to, strides...)
}

// runs calls f for consecutive runs of n indices that together cover the space: at is the row-major
// position of the first, off[k] the offset of operand k there, and step[k] by how much it moves
// from one index to the next. f must not keep or change the slices.
func (w walk) runs(f func(at, n int, off, step []int)) {
	for _, n := range w.shape {
		if n == 0 {
			return
		}
	}
	last := len(w.shape) - 1
	n := w.shape[last]
	off, step := make([]int, len(w.strides)), make([]int, len(w.strides))
	for k := range w.strides {
		step[k] = w.strides[k][last]
	}
	index := make([]int, last)
	for at := 0; ; at += n {
		f(at, n, off, step)
		if !w.next(index, off) {
			return
		}
	}
}

// pairs calls f for each index i of w, in row-major order, with the elements of a and b, its two
// operands, there.
func pairs[T any](w walk, a, b []T, f func(i int, x, y T)) {
	w.runs(func(at, n int, off, step []int) {
		ia, ib := off[0], off[1]
		for i := range n {
			f(at+i, a[ia], b[ib])
			ia, ib = ia+step[0], ib+step[1]
		}
	})
}

// next advances the outer index by one, in row-major order, and the offsets with it; false at the
// end.
func (w walk) next(index, off []int) bool {
	for i := len(index) - 1; i >= 0; i-- {
		index[i]++
		for k := range off {
			off[k] += w.strides[k][i]
		}
		if index[i] < w.shape[i] {
			return true
		}
		for k := range off {
			off[k] -= w.strides[k][i] * w.shape[i]
		}
		index[i] = 0
	}
	return false
}

// inferBroadcast is the shape rule of element-wise operators: inputs of one type in the set
// broadcast to one output, whose type is result, or that of the inputs when result is Undefined.
//
//go:noinline
func inferBroadcast(set TypeSet, result tensor.DType) func(*Infer) error {
	return func(c *Infer) error {
		d, err := c.SameDType(set, c.DTypes()...)
		if err != nil {
			return err
		}
		if result != tensor.Undefined {
			d = result
		}
		return c.broadcastOut(d)
	}
}

// broadcastOut sets output 0 to the broadcast shape of all inputs.
func (c *Infer) broadcastOut(d tensor.DType) error {
	shapes := make([][]Dim, len(c.In))
	for i, t := range c.In {
		if !c.Has(i) {
			return c.Errorf(ErrInput, "input %d is missing", i)
		}
		shapes[i] = t.Shape
	}
	if slices.ContainsFunc(c.In, func(t Type) bool { return !t.Ranked }) {
		c.Out[0] = Unranked(d)
		return nil
	}
	dims, err := BroadcastDims(shapes...)
	if err != nil {
		return fmt.Errorf("%s: %w", c.Name(), err)
	}
	c.Out[0] = Ranked(d, dims...)
	return nil
}

// broadcastOutput makes output 0 with the broadcast shape of all inputs.
func (c *Eval) broadcastOutput(d tensor.DType) (*tensor.Tensor, walk, error) {
	shapes := make([][]int, len(c.In))
	for i, t := range c.In {
		if t == nil {
			return nil, walk{}, c.Errorf(ErrInput, "input %d is missing", i)
		}
		shapes[i] = t.Shape
	}
	to, err := BroadcastShapes(shapes...)
	if err != nil {
		return nil, walk{}, fmt.Errorf("%s: %w", c.Name(), err)
	}
	out, err := c.Output(0, d, to)
	if err != nil {
		return nil, walk{}, err
	}
	return out, broadcastWalk(to, shapes...), nil
}

// withElems extends the shape rule of a broadcasting operator on two inputs by what it does to the
// elements of shapes.
func withElems(infer func(*Infer) error, f func(a, b Dim) Dim) func(*Infer) error {
	return func(c *Infer) error {
		err := infer(c)
		if err == nil && len(c.In) == 2 {
			c.elemsByDim(f)
		}
		return err
	}
}

// elemsByDim sets the elements of output 0 by applying f to the known elements of two inputs of
// rank at most 1, so that the shape arithmetic of exporters resolves.
func (c *Infer) elemsByDim(f func(a, b Dim) Dim) {
	a, b := c.Elems(0), c.Elems(1)
	if a == nil || b == nil || !elemTypes.Has(c.Out[0].DType) || len(c.Out[0].Shape) > 1 {
		return
	}
	n := max(len(a), len(b))
	if len(a) != n && len(a) != 1 || len(b) != n && len(b) != 1 {
		return
	}
	if len(a) == 0 || len(b) == 0 {
		n = 0
	}
	out := make([]Dim, n)
	for i := range out {
		out[i] = f(a[i%len(a)], b[i%len(b)])
	}
	c.Out[0].Elems = out
}
