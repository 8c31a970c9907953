package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// oneHotOps hold OneHot.
var oneHotOps = []Op{
	{Name: "OneHot", Since: []int{9, 11, 28}, MinIn: 3, MaxIn: 3, Infer: inferOneHot,
		Eval: evalOneHot},
}

func inferOneHot(c *Infer) error {
	indices, values := c.In[0], c.In[2]
	c.Out[0] = Unranked(values.DType)
	if !indices.Ranked {
		return nil
	}
	axis, err := c.Axis(c.Attrs.Int("axis", -1), len(indices.Shape)+1)
	if err != nil {
		return err
	}
	depth, err := c.depth()
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(values.DType, slices.Insert(slices.Clone(indices.Shape), axis, depth)...)
	return nil
}

// depth is the number of classes as far as it is known.
func (c *Infer) depth() (Dim, error) {
	depth := Unknown()
	if d := c.Dims(1); len(d) == 1 {
		depth = d[0]
	} else if t := c.Const(1); t != nil && t.Len() == 1 {
		whole, err := tensor.New(tensor.Int64, 1)
		if err == nil {
			err = castInto(c.Call, whole, t)
		}
		if err != nil {
			return depth, c.Errorf(ErrInput, "depth: %v", err)
		}
		depth = Known(int(tensor.As[int64](whole)[0]))
	}
	if n, ok := depth.Int(); ok && n < 0 {
		return depth, c.Errorf(ErrInput, "depth %d", n)
	}
	return depth, nil
}

// WholeNumbers converts a numeric input, which may be of a floating-point type, to integers.
func (c *Eval) WholeNumbers(i int) ([]int64, error) {
	t, err := tensor.New(tensor.Int64, c.In[i].Shape...)
	if err != nil {
		return nil, err
	}
	return tensor.As[int64](t), castInto(c.Call, t, c.In[i])
}

// depth is the number of classes, input 1.
func (c *Eval) depth() (int, error) {
	v, err := c.WholeNumbers(1)
	if err != nil {
		return 0, err
	}
	if len(v) != 1 || v[0] < 0 {
		return 0, c.Errorf(ErrInput, "depth %v", v)
	}
	return int(v[0]), nil
}

// evalOneHot puts the on-value where the new axis equals the index; an index outside [-depth,
// depth) leaves only off-values.
func evalOneHot(c *Eval) error {
	indices, values := c.In[0], c.In[2]
	depth, err := c.depth()
	if err != nil {
		return err
	}
	if values.Rank() != 1 || values.Len() != 2 {
		return c.Errorf(ErrInput, "values %v, wants two", values)
	}
	axis, err := c.Axis(c.Attrs.Int("axis", -1), indices.Rank()+1)
	if err != nil {
		return err
	}
	at, err := c.WholeNumbers(0)
	if err != nil {
		return err
	}
	out, err := c.Output(0, values.DType, slices.Insert(slices.Clone(indices.Shape), axis, depth))
	if err != nil || out.Len() == 0 {
		return err
	}
	if err := fillWith(out, values); err != nil {
		return err
	}
	inner := count(indices.Shape[axis:])
	for i, v := range at {
		if k, err := c.index(v, depth); err == nil {
			copyElems(out, (i/inner*depth+k)*inner+i%inner, values, 1, 1)
		}
	}
	return nil
}
