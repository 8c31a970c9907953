package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// sequenceOps make, change and read sequences of tensors, which share their tensors with the
// sequences that they are made of. SequenceMap has a file of its own.
var sequenceOps = []Op{
	{Name: "SequenceEmpty", Since: []int{11}, MinIn: 0, MaxIn: 0, Infer: inferSequenceEmpty,
		Eval: evalSequenceEmpty},
	{Name: "SequenceConstruct", Since: []int{11}, MinIn: 1, MaxIn: -1,
		Infer: inferSequenceConstruct, Eval: evalSequenceConstruct},
	{Name: "SequenceAt", Since: []int{11}, MinIn: 2, MaxIn: 2, Traits: Containers,
		Infer: inferSequenceAt, Eval: evalSequenceAt},
	{Name: "SequenceInsert", Since: []int{11}, MinIn: 2, MaxIn: 3, Traits: Containers,
		Infer: inferSequenceInsert, Eval: evalSequenceInsert},
	{Name: "SequenceErase", Since: []int{11}, MinIn: 1, MaxIn: 2, Traits: Containers,
		Infer: inferSequenceErase, Eval: evalSequenceErase},
	{Name: "SequenceLength", Since: []int{11}, MinIn: 1, MaxIn: 1, Traits: Containers,
		Infer: inferSequenceLength, Eval: evalSequenceLength},
	{Name: "SplitToSequence", Since: []int{11, 24}, MinIn: 1, MaxIn: 2, Infer: inferSplitToSequence,
		Eval: evalSplitToSequence},
	{Name: "ConcatFromSequence", Since: []int{11}, MinIn: 1, MaxIn: 1, Traits: Containers,
		Infer: inferConcatFromSequence,
		Eval:  evalConcatFromSequence},
}

// isSequence refuses an input whose type is known to be no sequence.
func (c *Infer) isSequence(i int) error {
	if d := c.In[i].DType; d != tensor.Sequence && d != tensor.Undefined {
		return c.Errorf(ErrInput, "input %d is %v, wants a sequence", i, c.In[i])
	}
	return nil
}

// sequence returns the values of an input that is a sequence.
func (c *Eval) sequence(i int) ([]*tensor.Tensor, error) {
	if d := c.In[i].DType; d != tensor.Sequence {
		return nil, c.Errorf(ErrInput, "input %d is %v, wants a sequence", i, d)
	}
	return c.In[i].Items, nil
}

// putSequence makes output i a sequence, after asking for the memory of the list itself.
func (c *Eval) putSequence(i int, items []*tensor.Tensor) error {
	if err := c.reserve(int64(len(items)) * pointerBytes); err != nil {
		return err
	}
	c.Out[i] = tensor.NewSequence(items...)
	return nil
}

const pointerBytes = 8

// place is a position in [-n, limit-n] of n values, as operator texts count from the back.
func (c *Eval) place(i, n, limit int) (int, error) {
	at, err := c.Int(i)
	if err != nil {
		return 0, err
	}
	if at < int64(-n) || at >= int64(limit) {
		return 0, c.Errorf(ErrInput, "position %d of a sequence of %d values", at, n)
	}
	if at < 0 {
		at += int64(n)
	}
	return int(at), nil
}

func sequenceDType(c *Call) (tensor.DType, error) {
	d := c.Attrs.Int("dtype", int64(tensor.Float32))
	if d < 0 || d > 255 || !tensor.DType(d).Valid() {
		return 0, c.Errorf(ErrAttr, "dtype %d is no element type", d)
	}
	return tensor.DType(d), nil
}

func inferSequenceEmpty(c *Infer) error {
	d, err := sequenceDType(c.Call)
	c.Out[0] = SequenceOf(Unranked(d))
	return err
}

func evalSequenceEmpty(c *Eval) error {
	_, err := sequenceDType(c.Call)
	c.Out[0] = tensor.NewSequence()
	return err
}

func inferSequenceConstruct(c *Infer) error {
	elem := c.In[0].withoutContents()
	for i, t := range c.In[1:] {
		if !c.Present[1+i] {
			return c.Errorf(ErrInput, "input %d is left out", 1+i)
		}
		var err error
		if elem, err = joinTypes(c.Call, elem, t.withoutContents()); err != nil {
			return err
		}
	}
	c.Out[0] = SequenceOf(elem)
	return nil
}

func evalSequenceConstruct(c *Eval) error {
	for i, t := range c.In {
		if t == nil {
			return c.Errorf(ErrInput, "input %d is left out", i)
		}
		if t.DType != c.In[0].DType {
			return c.Errorf(ErrInput, "input %d is %v, others are %v", i, t.DType, c.In[0].DType)
		}
	}
	return c.putSequence(0, slices.Clone(c.In))
}

func inferSequenceAt(c *Infer) error {
	if err := c.isSequence(0); err != nil {
		return err
	}
	c.Out[0] = c.In[0].Item()
	return nil
}

func evalSequenceAt(c *Eval) error {
	items, err := c.sequence(0)
	if err != nil {
		return err
	}
	at, err := c.place(1, len(items), len(items))
	if err != nil {
		return err
	}
	c.Out[0] = items[at]
	return nil
}

func inferSequenceInsert(c *Infer) error {
	if err := c.isSequence(0); err != nil {
		return err
	}
	if c.In[1].DType.IsContainer() {
		return c.Errorf(ErrInput, "inserts a %v, wants a tensor", c.In[1])
	}
	elem := c.In[1].withoutContents()
	if e := c.In[0].Elem; e != nil {
		var err error
		if elem, err = joinTypes(c.Call, *e, elem); err != nil {
			return err
		}
	}
	c.Out[0] = SequenceOf(elem)
	return nil
}

// evalSequenceInsert inserts before the position, by default behind the last value.
func evalSequenceInsert(c *Eval) error {
	items, err := c.sequence(0)
	if err != nil {
		return err
	}
	t := c.In[1]
	if t.DType.IsContainer() || len(items) > 0 && t.DType != items[0].DType {
		return c.Errorf(ErrInput, "inserts a %v into %v", t.DType, ValueType(c.In[0]))
	}
	at := len(items)
	if c.Has(2) {
		if at, err = c.place(2, len(items), len(items)+1); err != nil {
			return err
		}
	}
	return c.putSequence(0, slices.Concat(items[:at], []*tensor.Tensor{t}, items[at:]))
}

func inferSequenceErase(c *Infer) error {
	c.Out[0] = c.In[0]
	return c.isSequence(0)
}

// evalSequenceErase leaves out the value at the position, by default the last one.
func evalSequenceErase(c *Eval) error {
	items, err := c.sequence(0)
	if err != nil {
		return err
	}
	at := len(items) - 1
	switch {
	case c.Has(1):
		at, err = c.place(1, len(items), len(items))
	case at < 0:
		err = c.Errorf(ErrInput, "the sequence is empty")
	}
	if err != nil {
		return err
	}
	return c.putSequence(0, slices.Concat(items[:at], items[at+1:]))
}

func inferSequenceLength(c *Infer) error {
	c.Out[0] = Ranked(tensor.Int64)
	return c.isSequence(0)
}

func evalSequenceLength(c *Eval) error {
	items, err := c.sequence(0)
	if err != nil {
		return err
	}
	out, err := c.Output(0, tensor.Int64, []int{})
	if err != nil {
		return err
	}
	tensor.As[int64](out)[0] = int64(len(items))
	return nil
}

// inferSplitToSequence types the parts: without lengths each is one slice, with keepdims of 0
// without the axis; one length divides the axis or leaves the last part shorter.
func inferSplitToSequence(c *Infer) error {
	in := c.In[0]
	c.Out[0] = SequenceOf(Unranked(in.DType))
	if !in.Ranked {
		return nil
	}
	axis, err := c.Axis(c.Attrs.Int("axis", 0), len(in.Shape))
	if err != nil {
		return err
	}
	shape := slices.Clone(in.Shape)
	switch {
	case !c.Has(1) && !c.Attrs.Bool("keepdims", true):
		shape = slices.Delete(shape, axis, axis+1)
	case !c.Has(1):
		shape[axis] = Known(1)
	default:
		shape[axis] = c.partSize(shape[axis])
	}
	c.Out[0] = SequenceOf(Ranked(in.DType, shape...))
	return nil
}

// partSize is the size of every part of an axis, Unknown when they differ or cannot be told.
func (c *Infer) partSize(size Dim) Dim {
	lens, known := c.Ints(1)
	if !known || len(lens) == 0 {
		return Unknown()
	}
	for _, l := range lens {
		if l != lens[0] {
			return Unknown()
		}
	}
	part, err := c.size(lens[0])
	if err != nil || part == 0 {
		return Unknown()
	}
	if rest := size.FloorDiv(part); len(lens) == 1 && !rest.MulInt(part).Equal(size) {
		return Unknown()
	}
	return Known(part)
}

func evalSplitToSequence(c *Eval) error {
	in := c.In[0]
	axis, err := c.Axis(c.Attrs.Int("axis", 0), in.Rank())
	if err != nil {
		return err
	}
	parts, err := c.sequenceParts(in.Shape[axis])
	if err != nil {
		return err
	}
	items := make([]*tensor.Tensor, len(parts))
	if err := cutAxis(in, axis, parts, func(i int, shape []int) (*tensor.Tensor, error) {
		items[i], err = c.New(in.DType, shape)
		return items[i], err
	}); err != nil {
		return err
	}
	if !c.Has(1) && !c.Attrs.Bool("keepdims", true) {
		for _, part := range items {
			part.Shape = slices.Delete(part.Shape, axis, axis+1)
		}
	}
	return c.putSequence(0, items)
}

// sequenceParts divides an axis of the given size. Without the input of lengths, every part has
// length 1. A scalar length is that of every part, of which the last may be shorter. A vector lists
// the length of each part.
func (c *Eval) sequenceParts(size int) ([]int, error) {
	length := 1
	if c.Has(1) {
		lens, err := c.Ints(1)
		if err != nil {
			return nil, err
		}
		if c.In[1].Rank() > 0 {
			return c.givenSizes(size, lens, len(lens))
		}
		if length, err = c.size(lens[0]); err != nil {
			return nil, err
		}
	}
	if length == 0 {
		return nil, c.Errorf(ErrInput, "parts of length 0")
	}
	if n := size / length; n > maxSequence {
		return nil, c.Errorf(tensor.ErrShape, "size %d in parts of %d gives %d values, limit %d",
			size, length, n, maxSequence)
	}
	return partsOf(size, length), nil
}

// partsOf cuts size in parts of a length; the last one is the rest.
func partsOf(size, length int) []int {
	var parts []int
	for rest := size; rest > 0; rest -= length {
		parts = append(parts, min(length, rest))
	}
	return parts
}

// maxSequence bounds the values of a sequence that one operator makes: parts without elements take
// memory too.
const maxSequence = 1 << 24

// joinAxis is the axis of a ConcatFromSequence of values of that rank, and whether it is a new one.
func joinAxis(c *Call, rank int) (axis int, fresh bool, err error) {
	if !c.Attrs.Has("axis") {
		return 0, false, c.Errorf(ErrAttr, "has no axis")
	}
	if fresh = c.Attrs.Bool("new_axis", false); fresh {
		rank++
	}
	axis, err = c.Axis(c.Attrs.Int("axis", 0), rank)
	return axis, fresh, err
}

func inferConcatFromSequence(c *Infer) error {
	if err := c.isSequence(0); err != nil {
		return err
	}
	elem := c.In[0].Item()
	c.Out[0] = Unranked(elem.DType)
	if !elem.Ranked {
		return nil
	}
	axis, fresh, err := joinAxis(c.Call, len(elem.Shape))
	if err != nil {
		return err
	}
	if fresh {
		elem.Shape = slices.Insert(elem.Shape, axis, Unknown())
	} else {
		elem.Shape[axis] = Unknown()
	}
	c.Out[0] = elem
	return nil
}

func evalConcatFromSequence(c *Eval) error {
	items, err := c.sequence(0)
	if err != nil {
		return err
	}
	if len(items) == 0 {
		return c.Errorf(ErrInput, "the sequence is empty: nothing tells the shape of the result")
	}
	axis, fresh, err := joinAxis(c.Call, items[0].Rank())
	if err != nil {
		return err
	}
	if fresh {
		items = slices.Clone(items)
		for i, t := range items {
			if items[i], err = unsqueezed(c.Call, t, axis); err != nil {
				return err
			}
		}
	}
	return c.concat(items, axis)
}

// unsqueezed is t with another axis of size 1.
func unsqueezed(c *Call, t *tensor.Tensor, axis int) (*tensor.Tensor, error) {
	if axis > t.Rank() {
		return nil, c.Errorf(ErrInput, "a value of shape %v has no new axis %d", t.Shape, axis)
	}
	return t.Reshaped(slices.Insert(slices.Clone(t.Shape), axis, 1)...)
}
