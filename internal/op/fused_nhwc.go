package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// fusedNHWC holds the operators on images of 8-bit integers whose channels lie in the last axis,
// that passes put in the place of those whose channels lie in axis 1.
//
//   - NhwcQLinearConv: weir's QLinearConv of x, N x spatial axes x C, by weights as ONNX has them,
//     to N x spatial axes x M. Inputs 9 to 11, which are those of the Rescale that follows, are all
//     there or all left out; without them nothing follows. With the attribute planar, x has its
//     channels in axis 1.
//   - NhwcMaxPool(x): ONNX's MaxPool (version 12) of N x spatial axes x C, without indices, of
//     bfloat16 too.
var fusedNHWC = []Op{
	{Domain: FusedDomain, Name: "NhwcQLinearConv", Since: []int{1}, MinIn: 12, MaxIn: 12,
		Optional: []int{QLinearBias, qThenScale, qThenBias, qThenZero},
		Infer:    inferNHWCConv, Eval: evalNHWCConv, Flops: qlinearFlops(convFlops)},
	{Domain: FusedDomain, Name: "NhwcMaxPool", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferNHWCPool, Eval: evalNHWCPool, Flops: poolFlops},
}

// pixelTypes are those of images for NhwcMaxPool.
var pixelTypes = byteTypes | SetOf(tensor.BFloat16)

// planarType is the type with the last axis moved to axis 1.
func planarType(t Type) Type {
	if t.Ranked && len(t.Shape) > 2 {
		last := len(t.Shape) - 1
		t.Shape = slices.Insert(slices.Clone(t.Shape[:last]), 1, t.Shape[last])
	}
	t.Const, t.Elems = nil, nil
	return t
}

// pixelType is the type with axis 1 moved to the end.
func pixelType(t Type) Type {
	if t.Ranked && len(t.Shape) > 2 {
		t.Shape = append(slices.Delete(slices.Clone(t.Shape), 1, 2), t.Shape[1])
	}
	t.Const, t.Elems = nil, nil
	return t
}

func inferNHWCConv(c *Infer) error {
	in := slices.Clone(c.In)
	if !c.Attrs.Bool("planar", false) {
		in[QLinearA] = planarType(in[QLinearA])
	}
	err := inferQLinearConv(&Infer{Call: c.onnxConv(), In: in[:QLinearBias+1],
		Present: c.Present[:QLinearBias+1], Out: c.Out})
	c.Out[0] = pixelType(c.Out[0])
	if err == nil && c.Has(qThenZero) {
		err = c.byteOperands(qThenZero)
		c.Out[0].DType = c.In[qThenZero].DType
	}
	return err
}

func evalNHWCConv(c *Eval) error {
	in := slices.Clone(c.In)
	if !c.Attrs.Bool("planar", false) {
		x, err := c.moveAxis(in[QLinearA], len(in[QLinearA].Shape)-1, 1)
		if err != nil {
			return err
		}
		in[QLinearA] = x
	}
	e := &Eval{Call: c.onnxConv(), Ctx: c.Ctx, In: in[:QLinearBias+1],
		Out: make([]*tensor.Tensor, 1)}
	if err := evalQLinearConv(e); err != nil {
		return err
	}
	y := e.Out[0]
	if c.Has(qThenScale) && c.Has(qThenBias) && c.Has(qThenZero) {
		then := &Eval{Call: c.Call, Ctx: c.Ctx, In: c.In, Out: make([]*tensor.Tensor, 1)}
		if err := then.rescaled(y, qThenScale); err != nil {
			return err
		}
		y = then.Out[0]
	}
	return c.putNHWC(y)
}

func inferNHWCPool(c *Infer) error {
	if _, err := c.SameDType(pixelTypes, c.In[0].DType); err != nil {
		return err
	}
	err := inferPool(&Infer{Call: c.maxPool(), In: []Type{planarType(c.In[0])},
		Present: []bool{true}, Out: c.Out[:1]})
	c.Out[0] = pixelType(c.Out[0])
	return err
}

func evalNHWCPool(c *Eval) error {
	if _, err := c.SameDType(pixelTypes, c.In[0].DType); err != nil {
		return err
	}
	x, err := c.moveAxis(c.In[0], len(c.In[0].Shape)-1, 1)
	if err != nil {
		return err
	}
	e := &Eval{Call: c.maxPool(), Ctx: c.Ctx, In: []*tensor.Tensor{x},
		Out: make([]*tensor.Tensor, 1)}
	if err := InFloat32(evalMaxPool)(e); err != nil {
		return err
	}
	return c.putNHWC(e.Out[0])
}

// maxPool is the call of the ONNX operator.
//
//go:noinline
func (c *Call) maxPool() *Call {
	return &Call{Type: "MaxPool", Version: 12, Attrs: c.Attrs, NumIn: 1, NumOut: 1}
}

// putNHWC makes output 0 of a tensor with its channels in axis 1.
func (c *Eval) putNHWC(y *tensor.Tensor) error {
	y, err := c.moveAxis(y, 1, y.Rank()-1)
	if err != nil {
		return err
	}
	out, err := c.Output(0, y.DType, y.Shape)
	if err == nil {
		copy(out.Data, y.Data)
	}
	return err
}

// moveAxis returns t with axis from moved to be axis to.
func (c *Eval) moveAxis(t *tensor.Tensor, from, to int) (*tensor.Tensor, error) {
	if t.Rank() < 3 {
		return nil, c.Errorf(ErrInput, "an image has shape %v, must have at least 3 axes", t.Shape)
	}
	perm := make([]int64, 0, t.Rank())
	for i := range t.Shape {
		if i != from {
			perm = append(perm, int64(i))
		}
	}
	perm = slices.Insert(perm, to, int64(from))
	e := &Eval{Call: &Call{Type: "Transpose", Version: 13, Attrs: Attrs{IntsAttr("perm", perm...)},
		NumIn: 1, NumOut: 1}, Ctx: c.Ctx,
		In: []*tensor.Tensor{t}, Out: make([]*tensor.Tensor, 1)}
	err := evalTranspose(e)
	return e.Out[0], err
}
