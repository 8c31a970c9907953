package op

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// sequenceMapOps hold SequenceMap: a body applied to every value of sequences.
var sequenceMapOps = []Op{
	{Name: "SequenceMap", Since: []int{17}, MinIn: 1, MaxIn: -1, MinOut: 1, MaxOut: -1, Traits: Containers,
		Infer: inferSequenceMap, Eval: evalSequenceMap},
}

// mapInputs are the inputs before the captures, and those.
func mapInputs[T any](c *Call, in []T) (given, captures []T) {
	n := len(in) - c.Captures
	return in[:n], in[n:]
}

// inferSequenceMap types the body for one value of each sequence; inputs that are tensors are the same every time.
func inferSequenceMap(c *Infer) error {
	body, err := c.body("body", c.NumIn-c.Captures, c.NumOut)
	if err != nil {
		return err
	}
	if err := c.isSequence(0); err != nil {
		return err
	}
	given, captures := mapInputs(c.Call, c.In)
	formals := make([]Type, len(given))
	for i, t := range given {
		if !c.Present[i] {
			return c.Errorf(ErrInput, "input %d is left out", i)
		}
		if formals[i] = t.withoutContents(); t.DType == tensor.Sequence {
			formals[i] = t.Item()
		}
	}
	out, err := body.Infer(slices.Concat(formals, captures))
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
	for i, t := range given {
		if t == nil {
			return c.Errorf(ErrInput, "input %d is left out", i)
		}
		if t.DType == tensor.Sequence && len(t.Items) != len(first) {
			return c.Errorf(ErrInput, "input 0 has %d values, input %d has %d", len(first), i, len(t.Items))
		}
	}
	outs := make([][]*tensor.Tensor, c.NumOut)
	for i := range first {
		in := slices.Clone(given)
		for k, t := range given {
			if t.DType == tensor.Sequence {
				in[k] = t.Items[i]
			}
		}
		out, err := c.iterate(body, int64(i), slices.Concat(in, captures))
		if err != nil {
			return err
		}
		if err := c.reserve(c.newBytes(out)); err != nil {
			return fmt.Errorf("%s: iteration %d: %w", c.Name(), i, err)
		}
		for k, t := range out {
			outs[k] = append(outs[k], t)
		}
	}
	for k, items := range outs {
		if err := c.putMapped(k, items); err != nil {
			return err
		}
	}
	return nil
}

func (c *Eval) putMapped(k int, items []*tensor.Tensor) error {
	for _, t := range items {
		if t.DType != items[0].DType {
			return c.Errorf(ErrInput, "output %d holds %v and %v", k, items[0].DType, t.DType)
		}
	}
	return c.putSequence(k, items)
}
