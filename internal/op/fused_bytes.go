package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// fusedBytes holds the operators on 8-bit integers that passes make of ONNX's where a
// QuantizeLinear follows, so that no float is stored between. An integer q stands for (q - zero
// point) · scale.
//
//   - Rescale(x, scale, bias, zero): saturate(round(x·scale + bias) + zero), where scale and bias
//     are float32, one number or one an index of axis 1, and zero is a scalar whose type is the
//     result's.
//   - Table(x, table): table[x], where table is 256 bytes, and a signed x counts as the unsigned
//     byte of the same bits.
//   - QLinearConv: its ONNX namesake (version 10) with inputs 0 to 8 and then Rescale with inputs 9
//     to 11.
//   - QLinearAdd(a, a_scale, a_zero, b, b_scale, b_zero, y_scale, y_zero): the sum of two tensors
//     of one shape.
//
// Numbers are rounded to the nearest integer, ties to even.
var fusedBytes = []Op{
	{Domain: FusedDomain, Name: "Rescale", Since: []int{1}, MinIn: 4, MaxIn: 4, Infer: inferRescale,
		Eval: evalRescale},
	{Domain: FusedDomain, Name: "Table", Since: []int{1}, MinIn: 2, MaxIn: 2, Infer: inferTable,
		Eval: evalTable},
	{Domain: FusedDomain, Name: "QLinearConv", Since: []int{1}, MinIn: 12, MaxIn: 12,
		Optional: []int{QLinearBias}, Infer: inferRescaledConv,
		Eval: evalRescaledConv, Flops: qlinearFlops(convFlops)},
	{Domain: FusedDomain, Name: "QLinearAdd", Since: []int{1}, MinIn: 8, MaxIn: 8,
		Infer: inferQLinearAdd, Eval: evalQLinearAdd},
}

// Inputs of the fused QLinearConv after those of ONNX's, in order.
const (
	qThenScale = QLinearBias + 1 + iota
	qThenBias
	qThenZero
)

func inferRescale(c *Infer) error {
	if err := c.byteOperands(0, 3); err != nil {
		return err
	}
	c.Out[0] = c.In[0]
	c.Out[0].DType, c.Out[0].Const, c.Out[0].Elems = c.In[3].DType, nil, nil
	return nil
}

func evalRescale(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(byteTypes, x.DType); err != nil {
		return err
	}
	return c.rescaled(x, 1)
}

func inferTable(c *Infer) error {
	if err := c.byteOperands(0, 1); err != nil {
		return err
	}
	c.Out[0] = c.In[0]
	c.Out[0].DType, c.Out[0].Const, c.Out[0].Elems = c.In[1].DType, nil, nil
	return nil
}

func evalTable(c *Eval) error {
	for _, t := range c.In[:2] {
		if _, err := c.SameDType(byteTypes, t.DType); err != nil {
			return err
		}
	}
	if !slices.Equal(c.In[1].Shape, []int{256}) {
		return c.Errorf(ErrInput, "the table has shape %v, must be [256]", c.In[1].Shape)
	}
	out, err := c.Output(0, c.In[1].DType, c.In[0].Shape)
	if err != nil {
		return err
	}
	for i, b := range c.In[0].Data {
		out.Data[i] = c.In[1].Data[b]
	}
	return nil
}

// rescaled makes output 0 from the bytes x, with the inputs from i on.
func (c *Eval) rescaled(x *tensor.Tensor, i int) error {
	scale, bias, err := c.rescaling(x, i)
	if err != nil {
		return err
	}
	zero, err := c.zeroPoint(i + 2)
	if err != nil {
		return err
	}
	v, err := x.Floats()
	if err != nil {
		return err
	}
	plane := 1
	if len(scale) > 1 {
		plane = count(x.Shape[2:])
	}
	for k, q := range v {
		ch := k / plane % len(scale)
		v[k] = math.RoundToEven(float64(float32(q*scale[ch]+bias[ch]))) + zero
	}
	out, err := c.Output(0, c.In[i+2].DType, x.Shape)
	if err != nil {
		return err
	}
	narrowFloats(out, 0, v)
	return nil
}

// zeroPoint returns input i, one byte.
func (c *Eval) zeroPoint(i int) (float64, error) {
	zero := c.In[i]
	if _, err := c.SameDType(byteTypes, zero.DType); err != nil {
		return 0, err
	}
	if zero.Len() != 1 {
		return 0, c.Errorf(ErrInput, "input %d has shape %v, must have one element", i, zero.Shape)
	}
	v, err := zero.Floats()
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// rescaling returns inputs i and i+1, which are one number or one an index of axis 1 of x.
func (c *Eval) rescaling(x *tensor.Tensor, i int) (scale, bias []float64, err error) {
	if scale, bias, err = c.FloatsPair(i, i+1); err != nil {
		return nil, nil, err
	}
	n := len(scale)
	if n != len(bias) || n != 1 && (x.Rank() < 2 || n != x.Shape[1]) ||
		c.In[i].DType != tensor.Float32 || c.In[i+1].DType != tensor.Float32 {
		return nil, nil, c.Errorf(ErrInput, "inputs %d and %d are %v and %v of %v, must be one "+
			"float32 or one an index of axis 1 of %v",
			i, i+1, c.In[i].Shape, c.In[i+1].Shape, c.In[i].DType, x.Shape)
	}
	return scale, bias, nil
}

// onnxConv is the call of the ONNX operator alone.
//
//go:noinline
func (c *Call) onnxConv() *Call {
	return &Call{Type: c.Type, Version: 10, Attrs: c.Attrs, NumIn: QLinearBias + 1, NumOut: 1}
}

func inferRescaledConv(c *Infer) error {
	if err := c.byteOperands(qThenZero); err != nil {
		return err
	}
	err := inferQLinearConv(&Infer{Call: c.onnxConv(), In: c.In[:QLinearBias+1],
		Present: c.Present[:QLinearBias+1], Out: c.Out})
	c.Out[0].DType = c.In[qThenZero].DType
	return err
}

func evalRescaledConv(c *Eval) error {
	e := &Eval{Call: c.onnxConv(), Ctx: c.Ctx, In: c.In[:QLinearBias+1],
		Out: make([]*tensor.Tensor, 1)}
	if err := evalQLinearConv(e); err != nil {
		return err
	}
	return c.rescaled(e.Out[0], qThenScale)
}

func inferQLinearAdd(c *Infer) error {
	if err := c.byteOperands(QLinearA, QLinearB, QLinearYZero); err != nil {
		return err
	}
	a, b := c.In[QLinearA], c.In[QLinearB]
	if a.Ranked && b.Ranked && !slices.EqualFunc(a.Shape, b.Shape, Dim.MayEqual) {
		return c.Errorf(ErrInput, "operands are %v and %v, must have one shape", a, b)
	}
	if !a.Ranked {
		a = b
	}
	c.Out[0] = a
	c.Out[0].DType, c.Out[0].Const, c.Out[0].Elems = c.In[QLinearYZero].DType, nil, nil
	return nil
}

func evalQLinearAdd(c *Eval) error {
	a, err := c.centred(QLinearA, QLinearAScale, QLinearAZero, 0)
	if err != nil {
		return err
	}
	b, err := c.centred(QLinearB, QLinearBScale, QLinearBZero, 0)
	if err != nil {
		return err
	}
	if !slices.Equal(a.Shape, b.Shape) {
		return c.Errorf(ErrInput, "operands are %v and %v, must have one shape", a.Shape, b.Shape)
	}
	v := tensor.As[float64](a)
	for i, f := range tensor.As[float64](b) {
		v[i] += f
	}
	return c.quantized(a, 0)
}
