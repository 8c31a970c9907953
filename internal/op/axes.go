package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// Axis brings an axis counted from either end into [0, rank).
func (c *Call) Axis(a int64, rank int) (int, error) {
	n := int64(rank)
	if a < -n || a >= n {
		return 0, c.Errorf(ErrAttr, "axis %d is outside rank %d", a, rank)
	}
	if a < 0 {
		a += n
	}
	return int(a), nil
}

// axes brings distinct axes into [0, rank), in the given order; a repeated one is an error.
func (c *Call) axes(as []int64, rank int) ([]int, error) {
	if len(as) > rank {
		return nil, c.Errorf(ErrAttr, "%d axes for rank %d", len(as), rank)
	}
	out := make([]int, len(as))
	seen := make([]bool, rank)
	for i, a := range as {
		k, err := c.Axis(a, rank)
		if err != nil {
			return nil, err
		}
		if seen[k] {
			return nil, c.Errorf(ErrAttr, "axis %d is given twice", a)
		}
		out[i], seen[k] = k, true
	}
	return out, nil
}

// AllAxes returns 0 … rank-1, the default of operators that take axes.
func AllAxes(rank int) []int64 {
	out := make([]int64, rank)
	for i := range out {
		out[i] = int64(i)
	}
	return out
}

// Ints returns integer input i when its value is known.
func (c *Infer) Ints(i int) ([]int64, bool) {
	if t := c.Const(i); t != nil {
		v, err := t.Ints()
		return v, err == nil
	}
	if !c.Has(i) {
		return nil, false
	}
	e, ok := c.In[i].IntElems()
	if !ok {
		return nil, false
	}
	out := make([]int64, len(e))
	for k, v := range e {
		out[k] = int64(v)
	}
	return out, true
}

// Dims returns integer input i as expressions, nil when nothing is known of its elements. Elements
// of a constant that is longer than any shape are not given.
func (c *Infer) Dims(i int) []Dim {
	if e := c.Elems(i); e != nil {
		return e
	}
	v, ok := c.Ints(i)
	if !ok || len(v) > MaxElems {
		return nil
	}
	out := make([]Dim, len(v))
	for k, n := range v {
		out[k] = Known(int(n))
	}
	return out
}

// length returns how many elements the rank-1 input i has, -1 when that is not known.
func (c *Infer) length(i int) int {
	if !c.Has(i) || !c.In[i].Ranked || len(c.In[i].Shape) != 1 {
		return -1
	}
	if n, ok := c.In[i].Shape[0].Int(); ok {
		return n
	}
	return -1
}

// rank returns the rank of input i, -1 when it is not known.
func (c *Infer) rank(i int) int {
	if !c.Has(i) || !c.In[i].Ranked {
		return -1
	}
	return len(c.In[i].Shape)
}

// intsArg gives integers that are attribute name before opset since and input i from then on. given
// is false when the model leaves them out, known when they are an input whose value is not known
// yet.
func (c *Infer) intsArg(name string, i, since int) (v []int64, given, known bool) {
	if c.Version < since {
		return c.Attrs.Ints(name), c.Attrs.Has(name), true
	}
	if !c.Has(i) {
		return nil, false, true
	}
	v, known = c.Ints(i)
	return v, true, known
}

// intsArg gives integers that are attribute name before opset since and input i from then on.
func (c *Eval) intsArg(name string, i, since int) (v []int64, given bool, err error) {
	if c.Version < since {
		return c.Attrs.Ints(name), c.Attrs.Has(name), nil
	}
	if !c.Has(i) {
		return nil, false, nil
	}
	v, err = c.Ints(i)
	return v, true, err
}

// Ints returns the elements of integer input i.
func (c *Eval) Ints(i int) ([]int64, error) {
	v, err := c.In[i].Ints()
	if err != nil {
		return nil, c.Errorf(ErrInput, "input %d: %v", i, err)
	}
	return v, nil
}

// Int returns the only element of integer input i.
func (c *Eval) Int(i int) (int64, error) {
	v, err := c.Ints(i)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 {
		return 0, c.Errorf(ErrInput, "input %d has %d elements, wants one", i, len(v))
	}
	return v[0], nil
}

// intOr is int for an optional input, def when it is absent.
func (c *Eval) intOr(i int, def int64) (int64, error) {
	if !c.Has(i) {
		return def, nil
	}
	return c.Int(i)
}

// size checks that v can be the size of a dimension.
//
//go:noinline
func (c *Call) size(v int64) (int, error) {
	if v < 0 || v > math.MaxInt {
		return 0, c.Errorf(ErrInput, "%d is no size", v)
	}
	return int(v), nil
}

// sizes checks that each of v can be the size of a dimension.
func (c *Call) sizes(v []int64) ([]int, error) {
	out := make([]int, len(v))
	for i, n := range v {
		s, err := c.size(n)
		if err != nil {
			return nil, err
		}
		out[i] = s
	}
	return out, nil
}

// sizesInput returns the elements of integer input i, each the size of a dimension.
func (c *Eval) sizesInput(i int) ([]int, error) {
	v, err := c.Ints(i)
	if err != nil {
		return nil, err
	}
	return c.sizes(v)
}

// unknownDims makes a shape of which only the rank is known.
//
//go:noinline
func unknownDims(rank int) []Dim {
	out := make([]Dim, rank)
	for i := range out {
		out[i] = Unknown()
	}
	return out
}

// checkDims checks that every known one of v can be a size.
func (c *Infer) checkDims(v []Dim) error {
	for _, d := range v {
		if n, ok := d.Int(); ok && n < 0 {
			return c.Errorf(ErrInput, "%d is no size", n)
		}
	}
	return nil
}

// count is the number of elements of part of a concrete shape.
//
//go:noinline
func count(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}

// copySlice copies slice si of src along an axis to slice di of dst, which has the same shape but
// for that axis.
func copySlice(dst *tensor.Tensor, di int, src *tensor.Tensor, si, axis int) error {
	to, from := strided.RowMajor(dst.Shape), strided.RowMajor(src.Shape)
	to.Offset, from.Offset = di*to.Strides[axis], si*from.Strides[axis]
	shape := slices.Clone(dst.Shape)
	shape[axis] = 1
	return strided.Copy(dst, to, src, from, shape)
}

// ZeroOutput makes output i with every element zero, or the empty string.
func (c *Eval) ZeroOutput(i int, d tensor.DType, shape []int) (*tensor.Tensor, error) {
	out, err := c.Output(i, d, shape)
	if err == nil {
		clear(out.Data)
		clear(out.Strings)
	}
	return out, err
}

// copyElems copies n consecutive elements of any type, from element si of src to element di of dst.
func copyElems(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int) {
	strided.CopyElems(dst, di, src, si, n)
}
