package op

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// sequenceMapOps hold SequenceMap: a body applied to every value of sequences.
var sequenceMapOps = []Op{
	{Name: "SequenceMap", Since: []int{17}, MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: -1,
		Traits: Containers,
		Infer:  inferSequenceMap, Eval: evalSequenceMap},
}

// mapInputs are the inputs before the captures, and those.
func mapInputs[T any](c *Call, in []T) (given, captures []T) {
	n := len(in) - c.Captures
	return in[:n], in[n:]
}

// inferSequenceMap types the body for one value of each sequence; inputs that are tensors are the
// same every time.
func inferSequenceMap(c *Infer) error {
	body, err := c.body("body", c.NumIn-c.Captures, c.NumOut)
	if err != nil {
		return err
	}
	if err := c.isSequence(0); err != nil {
		return err
	}
	given, captures := mapInputs(c.Call, c.In)
	if i := slices.Index(c.Present[:len(given)], false); i >= 0 {
		return c.Errorf(ErrInput, "input %d is left out", i)
	}
	out, err := body.Infer(mappedTypes(given, captures))
	if err != nil {
		return err
	}
	if err := c.setOut(out, c.In); err != nil {
		return err
	}
	for i, t := range c.Out {
		c.Out[i] = SequenceOf(t)
	}
	return nil
}

// mappedTypes are the types that the body takes: of sequences, those of their values.
func mappedTypes(given, captures []Type) []Type {
	in := slices.Concat(given, captures)
	for i, t := range given {
		if in[i] = t.withoutContents(); t.DType == tensor.Sequence {
			in[i] = t.Item()
		}
	}
	return in
}

// checkUnused reports what the body says of the types of sequences without values, on which it
// never runs.
func checkUnused(body Body, given, captures []*tensor.Tensor) error {
	types := func(vs []*tensor.Tensor) []Type {
		out := make([]Type, len(vs))
		for i, v := range vs {
			out[i] = ValueType(v)
		}
		return out
	}
	_, err := body.Infer(mappedTypes(types(given), types(captures)))
	return err
}

func evalSequenceMap(c *Eval) error {
	body, err := c.body("body", c.NumIn-c.Captures, c.NumOut)
	if err != nil {
		return err
	}
	first, err := c.sequence(0)
	if err != nil {
		return err
	}
	given, captures := mapInputs(c.Call, c.In)
	if err := c.checkMapped(given, len(first)); err != nil {
		return err
	}
	if len(first) == 0 {
		if err := checkUnused(body, given, captures); err != nil {
			return err
		}
	}
	outs, err := c.mapEach(body, len(first), given, captures)
	if err != nil {
		return err
	}
	for k, items := range outs {
		if err := c.putMapped(k, items); err != nil {
			return err
		}
	}
	return nil
}

// checkMapped checks that all inputs are there and all sequences have n values.
func (c *Call) checkMapped(given []*tensor.Tensor, n int) error {
	for i, t := range given {
		if t == nil {
			return c.Errorf(ErrInput, "input %d is left out", i)
		}
		if t.DType == tensor.Sequence && len(t.Items) != n {
			return c.Errorf(ErrInput, "input 0 has %d values, input %d has %d", n, i, len(t.Items))
		}
	}
	return nil
}

// mapEach runs the body for n places of the sequences among the inputs, and returns what it
// computed, by output and place.
func (c *Eval) mapEach(body Body, n int, given, captures []*tensor.Tensor) (
	outs [][]*tensor.Tensor, err error) {
	outs = make([][]*tensor.Tensor, c.NumOut)
	for i := range n {
		in := slices.Clone(given)
		for k, t := range given {
			if t.DType == tensor.Sequence {
				in[k] = t.Items[i]
			}
		}
		out, err := c.iterate(body, int64(i), slices.Concat(in, captures))
		if err != nil {
			return nil, err
		}
		if err := c.reserve(c.newBytes(out)); err != nil {
			return nil, fmt.Errorf("%s: iteration %d: %w", c.Name(), i, err)
		}
		for k, t := range out {
			outs[k] = append(outs[k], t)
		}
	}
	return outs, nil
}

func (c *Eval) putMapped(k int, items []*tensor.Tensor) error {
	for _, t := range items {
		if t.DType != items[0].DType {
			return c.Errorf(ErrInput, "output %d holds %v and %v", k, items[0].DType, t.DType)
		}
	}
	return c.putSequence(k, items)
}
