package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// fusedPixels holds the operators on images of bfloat16 whose channels lie in the last axis, that
// passes put in the place of those on images of float32 whose channels lie in axis 1.
//
//   - NhwcConv: weir's Conv of x, N x spatial axes x C, by weights as ONNX has them, to N x spatial
//     axes x M. Image, result and what is added to it (input 3) are bfloat16, all others float32.
//     Weights are rounded to bfloat16 where there is one group; sums are float32. With the
//     attribute planar, x is float32 with its channels in axis 1, and is rounded first.
//   - NhwcGlobalAveragePool(x): the means of the channels of x, N x spatial axes x C, as float32 of
//     N x C x 1 for each spatial axis.
var fusedPixels = []Op{
	{Domain: FusedDomain, Name: "NhwcConv", Since: []int{1}, MinIn: 2, MaxIn: 5,
		Optional: []int{pixelBias, pixelResidual, weightScale},
		Infer:    inferPixelConv, Eval: evalPixelConv, Flops: convFlops},
	{Domain: FusedDomain, Name: "NhwcGlobalAveragePool", Since: []int{1}, MinIn: 1, MaxIn: 1,
		Infer: inferPixelMean, Eval: evalPixelMean},
}

// Inputs of NhwcConv, where weir:Conv has them.
const (
	pixelBias     = 2
	pixelResidual = 3
)

// planarConv is the call of weir:Conv on images with their channels in axis 1.
//
//go:noinline
func (c *Call) planarConv() *Call {
	return &Call{Domain: FusedDomain, Type: "Conv", Version: 1, Attrs: c.Attrs, NumIn: c.NumIn,
		NumOut: 1}
}

// of returns the type with another type of elements.
func (t Type) of(d tensor.DType) Type {
	t.DType, t.Const, t.Elems = d, nil, nil
	return t
}

func inferPixelConv(c *Infer) error {
	in := slices.Clone(c.In)
	x := tensor.Float32
	if !c.Attrs.Bool("planar", false) {
		x, in[0] = tensor.BFloat16, planarType(in[0])
	}
	if !mayBeSame(in[0].DType, x) {
		return c.Errorf(ErrInput, "the image is %v, must be %v", c.In[0], x)
	}
	in[0] = in[0].of(tensor.Float32)
	if len(in) > pixelResidual && c.Has(pixelResidual) {
		if r := in[pixelResidual]; !mayBeSame(r.DType, tensor.BFloat16) {
			return c.Errorf(ErrInput, "input %d is %v, must be bfloat16", pixelResidual, r)
		}
		in[pixelResidual] = planarType(in[pixelResidual]).of(tensor.Float32)
	}
	err := fusedConv.infer(&Infer{Call: c.planarConv(), In: in, Present: c.Present, Out: c.Out})
	c.Out[0] = pixelType(c.Out[0]).of(tensor.BFloat16)
	return err
}

func evalPixelConv(c *Eval) error {
	in := slices.Clone(c.In)
	for _, i := range []int{0, pixelResidual} {
		if !c.Has(i) || i == 0 && c.Attrs.Bool("planar", false) {
			continue
		}
		if in[i].DType != tensor.BFloat16 {
			return c.Errorf(ErrInput, "input %d is %v, must be bfloat16", i, in[i].DType)
		}
		t, err := c.moveAxis(in[i], len(in[i].Shape)-1, 1)
		if err != nil {
			return err
		}
		if in[i], err = widened(t); err != nil {
			return err
		}
	}
	if in[0].DType != tensor.Float32 || in[1].DType != tensor.Float32 {
		return c.Errorf(ErrInput, "inputs are %v and %v, must be float32", in[0].DType,
			in[1].DType)
	}
	if c.Attrs.Int("group", 1) == 1 {
		if c.Has(weightScale) {
			w, err := scaledWeights(&Eval{Call: c.Call, In: in})
			if err != nil {
				return err
			}
			in[1], in[weightScale] = w, nil
		}
		in[0], in[1] = roundedToBF16(in[0]), roundedToBF16(in[1])
	}
	e := &Eval{Call: c.planarConv(), Ctx: c.Ctx, In: in, Out: make([]*tensor.Tensor, 1)}
	if err := fusedConv.eval(e); err != nil {
		return err
	}
	y, err := c.moveAxis(e.Out[0], 1, e.Out[0].Rank()-1)
	if err != nil {
		return err
	}
	return c.putRounded(0, y, tensor.BFloat16)
}

func inferPixelMean(c *Infer) error {
	if !mayBeSame(c.In[0].DType, tensor.BFloat16) {
		return c.Errorf(ErrInput, "the image is %v, must be bfloat16", c.In[0])
	}
	in := []Type{planarType(c.In[0]).of(tensor.Float32)}
	return inferGlobalPool(&Infer{Call: c.Call, In: in, Present: c.Present, Out: c.Out})
}

func evalPixelMean(c *Eval) error {
	if c.In[0].DType != tensor.BFloat16 {
		return c.Errorf(ErrInput, "the image is %v, must be bfloat16", c.In[0].DType)
	}
	x, err := c.moveAxis(c.In[0], len(c.In[0].Shape)-1, 1)
	if err != nil {
		return err
	}
	if x, err = widened(x); err != nil {
		return err
	}
	e := &Eval{Call: c.Call, Ctx: c.Ctx, In: []*tensor.Tensor{x}, Out: c.Out, Alloc: c.Alloc}
	err = e.evalGlobalPool(mean)
	c.Out = e.Out
	return err
}
