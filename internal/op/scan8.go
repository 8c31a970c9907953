package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// Scan of version 8 runs its body for each element of a batch: states and scanned values have the
// batch as axis 0, scanned ones the sequence as axis 1. An optional first input gives the lengths
// of the sequences, none longer than the axis; scanned outputs are filled up with zeros. The
// attribute directions says which inputs are walked from the last slice to the first.

// scan8Of is the body's view of the call: slices of one element of the batch.
func scan8Of(c *Call) (*scan, error) {
	s, err := wireScan(c, c.NumIn-c.Captures-1)
	if err != nil {
		return nil, err
	}
	s.inAxes, s.outAxes, s.outBack = make([]int64, s.ins), make([]int64, s.outs),
		make([]bool, s.outs)
	s.inBack, err = c.directionsList("directions", s.ins)
	return s, err
}

// batched are the operands of a Scan of version 8 without the lengths and the captures.
func batched[T any](c *Call, in []T) []T { return in[1 : len(in)-c.Captures] }

func inferScan8(c *Infer) error {
	s, err := scan8Of(c.Call)
	if err != nil {
		return err
	}
	formals, batch, length, err := s.formals8(c)
	if err != nil {
		return err
	}
	out, err := s.body.Infer(slices.Concat(formals, c.In[len(c.In)-c.Captures:]))
	if err != nil {
		return err
	}
	if err := c.setOut(out, c.In); err != nil {
		return err
	}
	for i, t := range c.Out {
		switch {
		case !t.Ranked:
			c.Out[i] = Unranked(t.DType)
		case i < s.states:
			c.Out[i] = Ranked(t.DType, slices.Concat([]Dim{batch}, t.Shape)...)
		default:
			c.Out[i] = Ranked(t.DType, slices.Concat([]Dim{batch, length}, t.Shape)...)
		}
	}
	return nil
}

// formals8 are the types that the body gets, for one element of the batch, and the sizes of the
// batch and of what is scanned.
func (s *scan) formals8(c *Infer) (formals []Type, batch, length Dim, err error) {
	batch, length = Unknown(), Unknown()
	for i, t := range batched(c.Call, c.In) {
		lead := s.lead8(i)
		if !t.Ranked {
			formals = append(formals, Unranked(t.DType))
			continue
		}
		if len(t.Shape) < lead {
			return nil, batch, length, c.Errorf(ErrInput, "input %d is %v, wants %d leading axes",
				1+i, t, lead)
		}
		if batch, err = c.sameDim(batch, t.Shape[0], 1+i, 0); err != nil {
			return nil, batch, length, err
		}
		if lead == 2 {
			if length, err = c.sameDim(length, t.Shape[1], 1+i, 1); err != nil {
				return nil, batch, length, err
			}
		}
		formals = append(formals, Ranked(t.DType, slices.Clone(t.Shape[lead:])...))
	}
	return formals, batch, length, nil
}

// lead8 is how many axes of operand i are not the body's: the batch, and of what is scanned the
// sequence.
func (s *scan) lead8(i int) int {
	if i < s.states {
		return 1
	}
	return 2
}

// element takes entry b of the batch from the inputs, and n positions of what is scanned.
func (s *scan) element(in []*tensor.Tensor, b, n int) (one []*tensor.Tensor, err error) {
	one = make([]*tensor.Tensor, len(in))
	for i, t := range in {
		if one[i], err = takeSlice(t, 0, b); err != nil {
			return nil, err
		}
	}
	for i, t := range one[s.states:] {
		if one[s.states+i], err = leading(t, n); err != nil {
			return nil, err
		}
	}
	return one, nil
}

func evalScan8(c *Eval) error {
	s, err := scan8Of(c.Call)
	if err != nil {
		return err
	}
	in := batched(c.Call, c.In)
	if slices.Contains(in, nil) || slices.Contains(c.CaptureTensors(), nil) {
		return c.Errorf(ErrInput, "an input or captured value is left out")
	}
	batch, longest, err := s.batchShape(c.Call, in)
	if err != nil {
		return err
	}
	lens, err := s.batchLengths(c, batch, longest)
	if err != nil {
		return err
	}
	axes := make([]int, s.ins)
	for b := range batch {
		one, err := s.element(in, b, lens[b])
		if err != nil {
			return err
		}
		state, outs, err := s.run(c, one[:s.states], one[s.states:], axes, lens[b])
		if err != nil {
			return err
		}
		if err := s.putElement(c, b, batch, longest, state, outs); err != nil {
			return err
		}
	}
	if batch == 0 {
		return s.putNone(c, in, longest)
	}
	return nil
}

// batchShape checks that all operands have one batch, and the scanned ones one length.
func (s *scan) batchShape(c *Call, in []*tensor.Tensor) (batch, longest int, err error) {
	batch, longest = -1, -1
	for i, t := range in {
		if t.DType.IsContainer() || t.Rank() < 1 || i >= s.states && t.Rank() < 2 {
			return 0, 0, c.Errorf(ErrInput, "input %d is %v%v, wants a batch of values", 1+i,
				t.DType, t.Shape)
		}
		if batch >= 0 && t.Shape[0] != batch {
			return 0, 0, c.Errorf(ErrInput, "input %d has a batch of %d, others of %d", 1+i,
				t.Shape[0], batch)
		}
		batch = t.Shape[0]
		if i < s.states {
			continue
		}
		if longest >= 0 && t.Shape[1] != longest {
			return 0, 0, c.Errorf(ErrInput, "input %d has sequences of %d, others of %d", 1+i,
				t.Shape[1], longest)
		}
		longest = t.Shape[1]
	}
	return batch, longest, nil
}

// batchLengths are the lengths of the sequences, by default all of the axis.
func (s *scan) batchLengths(c *Eval, batch, longest int) ([]int, error) {
	if !c.Has(0) {
		return slices.Repeat([]int{longest}, batch), nil
	}
	given, err := c.Ints(0)
	if err != nil {
		return nil, err
	}
	if len(given) != batch {
		return nil, c.Errorf(ErrInput, "%d sequence lengths for a batch of %d", len(given), batch)
	}
	lens := make([]int, batch)
	for b, n := range given {
		if n < 0 || n > int64(longest) {
			return nil, c.Errorf(ErrInput, "sequence %d has length %d of %d", b, n, longest)
		}
		lens[b] = int(n)
	}
	return lens, nil
}

// leading is the first n slices of axis 0.
func leading(t *tensor.Tensor, n int) (*tensor.Tensor, error) {
	if t.Shape[0] == n {
		return t, nil
	}
	shape := slices.Clone(t.Shape)
	shape[0] = n
	out, err := tensor.New(t.DType, shape...)
	if err != nil {
		return nil, err
	}
	return out, strided.Copy(out, strided.RowMajor(shape), t, strided.RowMajor(t.Shape), shape)
}

// putElement writes the results of one element of the batch; the first one makes the outputs.
func (s *scan) putElement(c *Eval, b, batch, longest int, state []*tensor.Tensor,
	outs []stack) error {
	for i, t := range state {
		if err := s.putPart(c, i, b, []int{batch}, t); err != nil {
			return err
		}
	}
	for k, o := range outs {
		whole, err := s.padded(c, k, longest, o)
		if err != nil {
			return err
		}
		c.release(int64(o.bytes))
		if err := s.putPart(c, s.states+k, b, []int{batch}, whole); err != nil {
			return err
		}
	}
	return nil
}

// padded is scan output k of an element of the batch, with zeros up to the longest one's length.
func (s *scan) padded(c *Eval, k, longest int, o stack) (*tensor.Tensor, error) {
	d, shape, err := o.sliceType(s.states+k, func() ([]Type, error) { return s.slice8Types(c) })
	if err != nil {
		return nil, err
	}
	whole, err := tensor.New(d, slices.Concat([]int{longest}, shape)...)
	if err != nil {
		return nil, err
	}
	for i, t := range o.slices {
		copyElems(whole, i*t.Len(), t, 0, t.Len())
	}
	return whole, nil
}

// putPart writes element b of the batch of output i.
func (s *scan) putPart(c *Eval, i, b int, lead []int, t *tensor.Tensor) error {
	shape := slices.Concat(lead, t.Shape)
	if b == 0 {
		if _, err := c.Output(i, t.DType, shape); err != nil {
			return err
		}
	}
	out := c.Out[i]
	if t.DType != out.DType || !slices.Equal(shape, out.Shape) {
		return c.Errorf(ErrInput,
			"output %d is %v%v for the first element of the batch, %v%v for another", i, out.DType,
			out.Shape, t.DType, shape)
	}
	copyElems(out, b*t.Len(), t, 0, t.Len())
	return nil
}

// putNone makes the outputs of an empty batch.
func (s *scan) putNone(c *Eval, in []*tensor.Tensor, longest int) error {
	types, err := s.slice8Types(c)
	if err != nil {
		return err
	}
	for i, t := range types {
		lead := []int{0}
		d := t.DType
		if i >= s.states {
			lead = append(lead, longest)
		} else if d == tensor.Undefined {
			d = in[i].DType
		}
		if _, err := c.Output(i, d, slices.Concat(lead, openAsZero(t))); err != nil {
			return err
		}
	}
	return nil
}

// slice8Types are the types that the body gives for one element of the batch.
func (s *scan) slice8Types(c *Eval) ([]Type, error) {
	var in []Type
	for i, t := range batched(c.Call, c.In) {
		in = append(in, Concrete(t.DType, t.Shape[s.lead8(i):]...))
	}
	for _, t := range c.CaptureTensors() {
		in = append(in, ValueType(t))
	}
	return s.body.Infer(in)
}
