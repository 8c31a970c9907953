package op

import "github.com/weirgpu/weir/internal/strided"

// transposeOps reorder axes.
var transposeOps = []Op{
	{Name: "Transpose", Since: []int{1, 13, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1,
		Infer: inferTranspose, Eval: evalTranspose, grad: gradTranspose},
}

// transposePerm is the attribute perm, by default the axes in reverse; it must name every axis
// once.
func transposePerm(c *Call, rank int) ([]int, error) {
	as := c.Attrs.Ints("perm")
	if as == nil {
		as = make([]int64, rank)
		for i := range as {
			as[i] = int64(rank - 1 - i)
		}
	}
	if len(as) != rank {
		return nil, c.Errorf(ErrAttr, "perm %v for rank %d", as, rank)
	}
	return c.axes(as, rank)
}

func inferTranspose(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Unranked(in.DType)
	if !in.Ranked {
		if p := c.Attrs.Ints("perm"); p != nil {
			c.Out[0] = Ranked(in.DType, unknownDims(len(p))...)
		}
		return nil
	}
	perm, err := transposePerm(c.Call, len(in.Shape))
	if err != nil {
		return err
	}
	shape := make([]Dim, len(perm))
	for i, k := range perm {
		shape[i] = in.Shape[k]
	}
	c.Out[0] = viewed(in, shape)
	return nil
}

func evalTranspose(c *Eval) error {
	in := c.In[0]
	perm, err := transposePerm(c.Call, in.Rank())
	if err != nil {
		return err
	}
	shape := make([]int, len(perm))
	strides := make([]int, len(perm))
	rows := rowMajor(in.Shape)
	for i, k := range perm {
		shape[i], strides[i] = in.Shape[k], rows[k]
	}
	out, err := c.Output(0, in.DType, shape)
	if err != nil {
		return err
	}
	return strided.Copy(out, strided.RowMajor(shape), in, strided.Steps{Strides: strides},
		shape)
}
