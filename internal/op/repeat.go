package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// repeatOps make tensors larger by repeating them: Expand and Tile.
var repeatOps = []Op{
	{Name: "Expand", Since: []int{8, 13}, MinIn: 2, MaxIn: 2, Infer: inferExpand, Eval: evalExpand,
		grad: gradExpand},
	{Name: "Tile", Since: []int{6, 13}, MinIn: 2, MaxIn: 2, Infer: inferTile, Eval: evalTile,
		grad: gradMoved},
}

func inferExpand(c *Infer) error {
	in, want := c.In[0], c.Dims(1)
	c.Out[0] = Unranked(in.DType)
	if want == nil {
		n := c.length(1)
		if in.Ranked && n >= 0 && n <= MaxElems {
			c.Out[0] = Ranked(in.DType, unknownDims(max(n, len(in.Shape)))...)
		}
		return nil
	}
	if !in.Ranked {
		return nil
	}
	if err := c.checkDims(want); err != nil {
		return err
	}
	shape, err := BroadcastDims(in.Shape, want)
	if err != nil {
		return c.Errorf(ErrInput, "cannot expand %v to %v", in, want)
	}
	c.Out[0] = Ranked(in.DType, shape...)
	c.Out[0].Elems = expandedElems(in, c.Out[0])
	return nil
}

// expandedElems are the elements of in expanded to out, nil where they are not known.
func expandedElems(in, out Type) []Dim {
	n, ok := out.Count().Int()
	switch {
	case len(out.Shape) > 1:
		return nil
	case ok && n <= MaxElems && len(in.Elems) == 1:
		return slices.Repeat(in.Elems, n)
	case len(in.Shape) == 1 && out.Shape[0].Equal(in.Shape[0]):
		return in.Elems
	}
	return nil
}

func evalExpand(c *Eval) error {
	dims, err := c.Ints(1)
	if err != nil {
		return err
	}
	want, err := c.sizes(dims)
	if err != nil {
		return err
	}
	in := c.In[0]
	shape, err := BroadcastShapes(in.Shape, want)
	if err != nil {
		return c.Errorf(ErrInput, "cannot expand %v to %v", in.Shape, want)
	}
	out, err := c.Output(0, in.DType, shape)
	if err != nil {
		return err
	}
	return strided.Copy(out, strided.RowMajor(shape), in,
		strided.Steps{Strides: broadcastStrides(in.Shape, shape)}, shape)
}

func inferTile(c *Infer) error {
	in, repeats := c.In[0], c.Dims(1)
	c.Out[0] = Unranked(in.DType)
	if !in.Ranked {
		if n := c.length(1); n >= 0 && n <= MaxElems {
			c.Out[0] = Ranked(in.DType, unknownDims(n)...)
		}
		return nil
	}
	if repeats == nil {
		c.Out[0] = Ranked(in.DType, unknownDims(len(in.Shape))...)
		return nil
	}
	if len(repeats) != len(in.Shape) {
		return c.Errorf(ErrInput, "%d repeats for %v", len(repeats), in)
	}
	if err := c.checkDims(repeats); err != nil {
		return err
	}
	c.Out[0] = Ranked(in.DType, slices.Clone(in.Shape)...)
	for k, d := range in.Shape {
		n := d.Mul(repeats[k])
		if n.IsUnknown() && !d.IsUnknown() && !repeats[k].IsUnknown() {
			return c.Errorf(tensor.ErrShape, "%v copies of %v", repeats[k], in)
		}
		c.Out[0].Shape[k] = n
	}
	return nil
}

// evalTile walks each axis as two: which copy, and where in it.
func evalTile(c *Eval) error {
	repeats, err := c.sizesInput(1)
	if err != nil {
		return err
	}
	in := c.In[0]
	if len(repeats) != in.Rank() {
		return c.Errorf(ErrInput, "%d repeats for %v", len(repeats), in.Shape)
	}
	shape := make([]int, in.Rank())
	for k, n := range in.Shape {
		size, fits := mulInt(int64(n), int64(repeats[k]))
		if !fits {
			return c.Errorf(tensor.ErrShape, "%d copies of %v", repeats[k], in.Shape)
		}
		shape[k] = int(size)
	}
	out, err := c.Output(0, in.DType, shape)
	if err != nil {
		return err
	}
	var walk, to, from []int
	outer, inner := rowMajor(shape), rowMajor(in.Shape)
	for k, n := range in.Shape {
		walk = append(walk, repeats[k], n)
		to = append(to, outer[k]*n, outer[k])
		from = append(from, 0, inner[k])
	}
	return strided.Copy(out, strided.Steps{Strides: to}, in, strided.Steps{Strides: from}, walk)
}
