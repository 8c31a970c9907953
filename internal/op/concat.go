package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// concatOps join and part tensors along an axis: Concat and Split.
var concatOps = []Op{
	{Name: "Concat", Since: []int{4, 11, 13}, MinIn: 1, MaxIn: -1, Infer: inferConcat,
		Eval: evalConcat, grad: gradConcat},
	{Name: "Split", Since: []int{2, 11, 13, 18}, MinIn: 1, MaxIn: 2, MinOut: 1, MaxOut: -1,
		Infer: inferSplit, Eval: evalSplit, grad: gradSplit},
}

func inferConcat(c *Infer) error {
	if !c.Attrs.Has("axis") {
		return c.Errorf(ErrAttr, "has no axis")
	}
	c.Out[0] = Unranked(c.In[0].DType)
	first := slices.IndexFunc(c.In, func(t Type) bool { return t.Ranked })
	if first < 0 {
		return nil
	}
	shape, err := c.concatDims(first)
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(c.In[0].DType, shape...)
	if len(shape) == 1 {
		c.Out[0].Elems = concatElems(c)
	}
	return nil
}

// concatDims joins the shapes of all inputs with that of the first one whose rank is known.
func (c *Infer) concatDims(first int) ([]Dim, error) {
	shape := slices.Clone(c.In[first].Shape)
	axis, err := c.Axis(c.Attrs.Int("axis", 0), len(shape))
	if err != nil {
		return nil, err
	}
	sum := Known(0)
	for i, t := range c.In {
		switch {
		case !mayBeSame(t.DType, c.In[0].DType):
			return nil, c.Errorf(ErrInput, "inputs %v and %v differ in type", c.In[0], t)
		case !t.Ranked:
			sum = Unknown()
			continue
		case len(t.Shape) != len(shape):
			return nil, c.Errorf(ErrInput, "input %d is %v, input %d is %v: ranks differ", first,
				c.In[first], i, t)
		}
		for k, d := range t.Shape {
			if k == axis {
				sum = sum.Add(d)
			} else if shape[k], err = c.sameDim(shape[k], d, i, k); err != nil {
				return nil, err
			}
		}
	}
	shape[axis] = sum
	return shape, nil
}

// sameDim joins what two operands tell of one size: a known one wins, two known ones must agree.
func (c *Infer) sameDim(a, b Dim, input, axis int) (Dim, error) {
	m, aKnown := a.Int()
	n, bKnown := b.Int()
	if aKnown && bKnown && m != n {
		return a, c.Errorf(ErrInput, "input %d has size %d at axis %d, others have %d", input, n,
			axis, m)
	}
	if bKnown && !aKnown || a.IsUnknown() {
		return b, nil
	}
	return a, nil
}

func concatElems(c *Infer) []Dim {
	out := []Dim{}
	for i := range c.In {
		e := c.Dims(i)
		if e == nil || len(out)+len(e) > MaxElems {
			return nil
		}
		out = append(out, e...)
	}
	return out
}

// concatShape is the shape of tensors joined along the axis; they agree in type, rank and every
// other size.
func (c *Call) concatShape(in []*tensor.Tensor, axis int) ([]int, error) {
	first := in[0]
	shape := slices.Clone(first.Shape)
	shape[axis] = 0
	for i, t := range in {
		if t == nil || t.DType != first.DType || t.Rank() != first.Rank() {
			return nil, c.Errorf(ErrInput, "input %d is %v, does not join %v%v", i, t, first.DType,
				first.Shape)
		}
		for k, n := range t.Shape {
			if k != axis && n != shape[k] {
				return nil, c.Errorf(ErrInput, "input %d is %v, does not join %v at axis %d", i,
					t.Shape, first.Shape, axis)
			}
		}
		shape[axis] += t.Shape[axis]
	}
	return shape, nil
}

func evalConcat(c *Eval) error {
	if !c.Attrs.Has("axis") {
		return c.Errorf(ErrAttr, "has no axis")
	}
	axis, err := c.Axis(c.Attrs.Int("axis", 0), c.In[0].Rank())
	if err != nil {
		return err
	}
	return c.concat(c.In, axis)
}

// concat makes output 0 of tensors joined along an axis.
func (c *Eval) concat(in []*tensor.Tensor, axis int) error {
	shape, err := c.concatShape(in, axis)
	if err != nil {
		return err
	}
	out, err := c.Output(0, in[0].DType, shape)
	if err != nil {
		return err
	}
	steps := strided.RowMajor(shape)
	for _, t := range in {
		if err := strided.Copy(out, steps, t, strided.RowMajor(t.Shape), t.Shape); err != nil {
			return err
		}
		steps.Offset += t.Shape[axis] * steps.Strides[axis]
	}
	return nil
}

// splitSizes divides a known size among n outputs: as lens says when that is given, else evenly,
// each output having ⌈size/n⌉ and the last what remains (uneven since opset 18, with num_outputs).
func splitSizes(c *Call, size int, lens []int64, given bool, n int) ([]int, error) {
	if size < 0 || n < 1 {
		return nil, c.Errorf(ErrInput, "size %d for %d outputs", size, n)
	}
	if given {
		return c.givenSizes(size, lens, n)
	}
	if c.Version < 18 && size%n != 0 {
		return nil, c.Errorf(ErrInput, "size %d has no %d equal parts", size, n)
	}
	out := make([]int, n)
	chunk := size / n
	if size%n != 0 {
		chunk++
	}
	rest := size
	for i := range out {
		out[i] = min(chunk, rest)
		rest -= out[i]
	}
	return out, nil
}

// givenSizes checks that n lengths add up to a size.
func (c *Call) givenSizes(size int, lens []int64, n int) ([]int, error) {
	out, err := c.sizes(lens)
	if err != nil {
		return nil, err
	}
	rest := size
	for _, l := range out {
		if l > rest {
			return nil, c.Errorf(ErrInput, "parts %v of a size %d", lens, size)
		}
		rest -= l
	}
	if len(out) != n || rest != 0 {
		return nil, c.Errorf(ErrInput, "%d parts %v of a size %d for %d outputs", len(out), lens,
			size, n)
	}
	return out, nil
}

// splitOutputs checks num_outputs (opset 18) against the outputs that the call has.
func splitOutputs(c *Call, given bool) error {
	n := c.Attrs.Int("num_outputs", int64(c.NumOut))
	if c.Version >= 18 && given && c.Attrs.Has("num_outputs") {
		return c.Errorf(ErrAttr, "has both num_outputs and an input split")
	}
	if n != int64(c.NumOut) {
		return c.Errorf(ErrAttr, "num_outputs is %d, the node has %d", n, c.NumOut)
	}
	return nil
}

func inferSplit(c *Infer) error {
	in := c.In[0]
	for i := range c.Out {
		c.Out[i] = Unranked(in.DType)
	}
	lens, given, known := c.intsArg("split", 1, 13)
	if err := splitOutputs(c.Call, given); err != nil || !in.Ranked {
		return err
	}
	axis, err := c.Axis(c.Attrs.Int("axis", 0), len(in.Shape))
	if err != nil {
		return err
	}
	for i := range c.Out {
		c.Out[i] = Ranked(in.DType, slices.Clone(in.Shape)...)
		c.Out[i].Shape[axis] = Unknown()
	}
	if !known {
		return nil
	}
	return c.splitTypes(in, axis, lens, given)
}

// splitOpen types the parts of an axis whose size is not known: lens says theirs, or they are
// equal.
func (c *Infer) splitOpen(size Dim, axis int, lens []int64, given bool) error {
	n := len(c.Out)
	if given && len(lens) == n {
		for i, l := range lens {
			s, err := c.size(l)
			if err != nil {
				return err
			}
			c.Out[i].Shape[axis] = Known(s)
		}
		return nil
	}
	if q := size.FloorDiv(n); q.MulInt(n).Equal(size) {
		for i := range c.Out {
			c.Out[i].Shape[axis] = q
		}
	}
	return nil
}

func (c *Infer) splitTypes(in Type, axis int, lens []int64, given bool) error {
	size, fixed := in.Shape[axis].Int()
	if !fixed {
		return c.splitOpen(in.Shape[axis], axis, lens, given)
	}
	parts, err := splitSizes(c.Call, size, lens, given, len(c.Out))
	if err != nil {
		return err
	}
	elems := in.Elems
	for i, n := range parts {
		c.Out[i].Shape[axis] = Known(n)
		if elems != nil && len(elems) >= n {
			c.Out[i].Elems, elems = elems[:n:n], elems[n:]
		}
	}
	return nil
}

func evalSplit(c *Eval) error {
	in := c.In[0]
	lens, given, err := c.intsArg("split", 1, 13)
	if err != nil {
		return err
	}
	if err := splitOutputs(c.Call, given); err != nil {
		return err
	}
	axis, err := c.Axis(c.Attrs.Int("axis", 0), in.Rank())
	if err != nil {
		return err
	}
	parts, err := splitSizes(c.Call, in.Shape[axis], lens, given, c.NumOut)
	if err != nil {
		return err
	}
	return c.splitInto(parts, axis)
}

// splitInto makes one output a part of an axis of input 0.
func (c *Eval) splitInto(parts []int, axis int) error {
	in := c.In[0]
	return cutAxis(in, axis, parts, func(i int, shape []int) (*tensor.Tensor, error) {
		return c.Output(i, in.DType, shape)
	})
}

// cutAxis cuts a tensor along an axis into parts of the given sizes, each copied to the tensor that
// make returns for its shape.
func cutAxis(in *tensor.Tensor, axis int, parts []int,
	make func(i int, shape []int) (*tensor.Tensor, error)) error {
	from := strided.RowMajor(in.Shape)
	for i, n := range parts {
		shape := slices.Clone(in.Shape)
		shape[axis] = n
		out, err := make(i, shape)
		if err != nil {
			return err
		}
		if err := strided.Copy(out, strided.RowMajor(shape), in, from, shape); err != nil {
			return err
		}
		from.Offset += n * from.Strides[axis]
	}
	return nil
}
