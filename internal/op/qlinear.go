package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// qlinear holds the products of 8-bit integers. An integer q stands for (q - zero point) · scale;
// products and sums of such numbers are exact in float64 before they are scaled and rounded once.
var qlinear = []Op{
	{Name: "MatMulInteger", Since: []int{10}, MinIn: 2, MaxIn: 4, Infer: inferMatMulInteger,
		Eval:  evalMatMulInteger,
		Flops: matMulFlops},
	{Name: "ConvInteger", Since: []int{10}, MinIn: 2, MaxIn: 4, Infer: inferConvInteger,
		Eval:  evalConvInteger,
		Flops: convFlops},
	{Name: "QLinearMatMul", Since: []int{10, 21}, MinIn: 8, MaxIn: 8, Infer: inferQLinearMatMul,
		Eval:  evalQLinearMatMul,
		Flops: qlinearFlops(matMulFlops)},
	{Name: "QLinearConv", Since: []int{10}, MinIn: 8, MaxIn: 9, Infer: inferQLinearConv,
		Eval:  evalQLinearConv,
		Flops: qlinearFlops(convFlops)},
}

var byteTypes = SetOf(tensor.Int8, tensor.Uint8)

// Inputs of QLinearMatMul and QLinearConv (ONNX 10), in order. The last is QLinearConv's.
const (
	QLinearA = iota
	QLinearAScale
	QLinearAZero
	QLinearB
	QLinearBScale
	QLinearBZero
	QLinearYScale
	QLinearYZero
	QLinearBias
)

// qlinearFlops counts for the two quantized operands what f counts for plain ones.
//
//go:noinline
func qlinearFlops(f func(*Call, []Type, []Type) int64) func(*Call, []Type, []Type) int64 {
	return func(c *Call, in, out []Type) int64 {
		return f(c, list2(in[QLinearA], in[QLinearB]), out)
	}
}

func list2(a, b Type) []Type { return []Type{a, b} }

// floatPart is the rule's context of the product of operands i and k alone, as if they were floats.
func (c *Infer) floatPart(typ string, i, k int) *Infer {
	a, b := c.In[i], c.In[k]
	a.DType, b.DType = tensor.Float64, tensor.Float64
	return &Infer{Call: c.plainProduct(typ), In: list2(a, b), Present: []bool{true, true},
		Out: c.Out[:1]}
}

//go:noinline
func (c *Call) plainProduct(typ string) *Call {
	return &Call{Type: typ, Version: 13, Attrs: c.Attrs, NumIn: 2, NumOut: 1}
}

func (c *Infer) byteOperands(is ...int) error {
	for _, i := range is {
		if _, err := c.SameDType(c.quantizedOperands(), c.In[i].DType); err != nil {
			return err
		}
	}
	return nil
}

// quantizedOperands are the types of quantized operands: bytes, and of QLinearMatMul (opset 21)
// also 8-bit floats.
//
//go:noinline
func (c *Call) quantizedOperands() TypeSet {
	if c.Type == "QLinearMatMul" {
		return byteTypes | float8Types
	}
	return byteTypes
}

func inferMatMulInteger(c *Infer) error {
	if err := c.byteOperands(0, 1); err != nil {
		return err
	}
	return c.matMulOut(tensor.Int32)
}

func inferConvInteger(c *Infer) error {
	if err := c.byteOperands(0, 1); err != nil {
		return err
	}
	err := inferConv(c.floatPart("Conv", 0, 1))
	c.Out[0].DType = tensor.Int32
	return err
}

func inferQLinearMatMul(c *Infer) error {
	if err := c.byteOperands(QLinearA, QLinearB, QLinearYZero); err != nil {
		return err
	}
	return c.matMulOutOf(c.In[QLinearYZero].DType, c.In[QLinearA], c.In[QLinearB])
}

func inferQLinearConv(c *Infer) error {
	if err := c.byteOperands(QLinearA, QLinearB, QLinearYZero); err != nil {
		return err
	}
	err := inferConv(c.floatPart("Conv", QLinearA, QLinearB))
	c.Out[0].DType = c.In[QLinearYZero].DType
	return err
}

// alongAxisShape is the shape in which a scale or zero point broadcasts to an operand of the given
// rank: a vector of several elements lies along axis, anything else is as it is.
func alongAxisShape(shape []int, rank, axis int) []int {
	if len(shape) != 1 || shape[0] == 1 || rank < 2 {
		return shape
	}
	out := slices.Repeat([]int{1}, rank-axis)
	out[0] = shape[0]
	return out
}

// centred returns 8-bit operand i less its zero point, input zero, times its scale, input scale, as
// float64. Either is negative for an operator that has none; a vector of them has one element an
// index of axis.
func (c *Eval) centred(i, scale, zero, axis int) (*tensor.Tensor, error) {
	x := c.In[i]
	if _, err := c.SameDType(c.quantizedOperands(), x.DType); err != nil {
		return nil, err
	}
	v, err := x.Floats()
	if err != nil {
		return nil, err
	}
	out := tensor.From(v, x.Shape...)
	if zero >= 0 && c.Has(zero) {
		err = c.eachScaled(out, zero, axis, func(x, z float64) float64 { return x - z })
	}
	if err == nil && scale >= 0 {
		err = c.eachScaled(out, scale, axis, func(x, s float64) float64 { return x * s })
	}
	return out, err
}

// eachScaled replaces each element of a float64 tensor by f of it and the element of input k that
// belongs to it.
func (c *Eval) eachScaled(t *tensor.Tensor, k, axis int, f func(x, s float64) float64) error {
	s, err := c.Floats(k)
	if err != nil {
		return err
	}
	shape := alongAxisShape(c.In[k].Shape, t.Rank(), axis)
	to, err := BroadcastShapes(t.Shape, shape)
	if err != nil || count(to) != t.Len() || len(to) > max(t.Rank(), 1) {
		return c.Errorf(ErrInput, "input %d of shape %v does not fit an operand of shape %v", k,
			c.In[k].Shape, t.Shape)
	}
	v := tensor.As[float64](t)
	broadcastWalk(to, t.Shape, shape).runs(func(_, n int, off, step []int) {
		for i := range n {
			v[off[0]+i*step[0]] = f(v[off[0]+i*step[0]], s[off[1]+i*step[1]])
		}
	})
	return nil
}

// product evaluates a plain operator on float64 operands.
func (c *Eval) product(typ string, eval func(*Eval) error, in ...*tensor.Tensor) (*tensor.Tensor,
	error) {
	e := &Eval{Call: c.plainProduct(typ), Ctx: c.Ctx, In: in, Out: make([]*tensor.Tensor, 1)}
	if err := eval(e); err != nil {
		return nil, err
	}
	return e.Out[0], nil
}

// evalMatMulInteger multiplies 8-bit operands, from which their zero points are taken first, into
// int32.
func evalMatMulInteger(c *Eval) error {
	a, err := c.centred(0, -1, 2, max(c.In[0].Rank()-2, 0))
	if err != nil {
		return err
	}
	b, err := c.centred(1, -1, 3, c.In[1].Rank()-1)
	if err != nil {
		return err
	}
	y, err := c.product("MatMul", evalMatMul, a, b)
	if err != nil {
		return err
	}
	return c.putInt32(y)
}

// evalConvInteger is a convolution of 8-bit operands, from which their zero points are taken first,
// into int32.
func evalConvInteger(c *Eval) error {
	x, err := c.centred(0, -1, 2, 0)
	if err != nil {
		return err
	}
	w, err := c.centred(1, -1, 3, 0)
	if err != nil {
		return err
	}
	y, err := c.product("Conv", evalConv, x, w)
	if err != nil {
		return err
	}
	return c.putInt32(y)
}

// putInt32 makes output 0 from integers held as float64, wrapping.
func (c *Eval) putInt32(y *tensor.Tensor) error {
	out, err := c.Output(0, tensor.Int32, y.Shape)
	if err != nil {
		return err
	}
	for i, v := range tensor.As[float64](y) {
		setInt(out, i, int64(v))
	}
	return nil
}

// evalQLinearMatMul multiplies the numbers that a and b stand for; scales and zero points are one
// for all, one a row of a or column of b, or tensors that broadcast.
func evalQLinearMatMul(c *Eval) error {
	a, err := c.centred(QLinearA, QLinearAScale, QLinearAZero, max(c.In[QLinearA].Rank()-2, 0))
	if err != nil {
		return err
	}
	b, err := c.centred(QLinearB, QLinearBScale, QLinearBZero, c.In[QLinearB].Rank()-1)
	if err != nil {
		return err
	}
	y, err := c.product("MatMul", evalMatMul, a, b)
	if err != nil {
		return err
	}
	return c.quantized(y, max(y.Rank()-2, 0))
}

// evalQLinearConv convolves the numbers that x and w stand for; the weights' scale and zero point
// may be one an output channel. The bias is int32 with scale x_scale · w_scale.
func evalQLinearConv(c *Eval) error {
	x, err := c.centred(QLinearA, QLinearAScale, QLinearAZero, 0)
	if err != nil {
		return err
	}
	w, err := c.centred(QLinearB, QLinearBScale, QLinearBZero, 0)
	if err != nil {
		return err
	}
	y, err := c.product("Conv", evalConv, x, w)
	if err != nil {
		return err
	}
	if c.Has(QLinearBias) {
		if err := c.addScaledBias(y); err != nil {
			return err
		}
	}
	return c.quantized(y, 1)
}

func (c *Eval) addScaledBias(y *tensor.Tensor) error {
	if d := c.In[QLinearBias].DType; d != tensor.Int32 {
		return c.Errorf(ErrInput, "bias is %v, must be int32", d)
	}
	bias, err := c.FloatsOf(QLinearBias, y.Shape[1])
	if err != nil {
		return err
	}
	t := tensor.From(bias, len(bias))
	for _, k := range []int{QLinearAScale, QLinearBScale} {
		if err := c.eachScaled(t, k, 0, func(x, s float64) float64 { return x * s }); err != nil {
			return err
		}
	}
	plane := count(y.Shape[2:])
	v := tensor.As[float64](y)
	for i := range v {
		v[i] += bias[i/plane%len(bias)]
	}
	return nil
}

// quantized makes output 0: y over y_scale, rounded to even, plus y_zero_point, saturated to the
// zero point's type. Numbers of 8-bit floats are rounded once, to their type.
func (c *Eval) quantized(y *tensor.Tensor, axis int) error {
	d := c.In[QLinearYZero].DType
	if _, err := c.SameDType(c.quantizedOperands(), d); err != nil {
		return err
	}
	round := math.RoundToEven
	if !d.IsInteger() {
		round = func(v float64) float64 { return v }
	}
	if err := c.eachScaled(y, QLinearYScale, axis, func(x, s float64) float64 {
		return round(x / s)
	}); err != nil {
		return err
	}
	if err := c.eachScaled(y, QLinearYZero, axis, func(x, z float64) float64 {
		return x + z
	}); err != nil {
		return err
	}
	out, err := c.Output(0, d, y.Shape)
	if err != nil {
		return err
	}
	narrowFloats(out, 0, tensor.As[float64](y))
	return nil
}
