package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// quantizeOps convert between numbers and integers on a scale: QuantizeLinear, DequantizeLinear, DynamicQuantizeLinear.
var quantizeOps = []Op{
	{Name: "QuantizeLinear", Since: []int{10, 13, 19, 21, 23, 24, 25}, MinIn: 2, MaxIn: 3,
		Infer: inferQuantize, Eval: evalQuantize},
	{Name: "DequantizeLinear", Since: []int{10, 13, 19, 21, 23, 24, 25}, MinIn: 2, MaxIn: 3,
		Infer: inferDequantize, Eval: evalDequantize},
	{Name: "DynamicQuantizeLinear", Since: []int{11}, MinIn: 1, MaxIn: 1, MinOut: 3, MaxOut: 3,
		Infer: inferDynamicQuantize, Eval: evalDynamicQuantize},
}

// quantizedType is the type that QuantizeLinear gives: that of the zero point, else output_dtype (opset 21), else uint8.
func quantizedType(c *Call, zero tensor.DType, has bool) (tensor.DType, error) {
	d := tensor.DType(c.Attrs.Int("output_dtype", 0))
	switch {
	case has:
		d = zero
	case d == tensor.Undefined:
		d = tensor.Uint8
	}
	switch d {
	case tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16:
		return d, nil
	}
	return 0, c.Errorf(ErrUnsupported, "quantization to %v", d)
}

func inferQuantize(c *Infer) error {
	var zero tensor.DType
	if c.Has(2) {
		if zero = c.In[2].DType; zero == tensor.Undefined {
			return inferFirst(c)
		}
	}
	d, err := quantizedType(c.Call, zero, c.Has(2))
	c.Out[0] = Type{DType: d, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return err
}

// dequantizedType is the type that DequantizeLinear gives: output_dtype (opset 23), else that of the scale.
func dequantizedType(c *Call, scale tensor.DType) tensor.DType {
	if d := c.Attrs.Int("output_dtype", 0); c.Version >= 23 && d > 0 && d <= math.MaxUint8 {
		return tensor.DType(d)
	}
	return scale
}

func inferDequantize(c *Infer) error {
	c.Out[0] = Type{DType: dequantizedType(c.Call, c.In[1].DType), Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return nil
}

// grid tells which scale belongs to which element: one for all, one an index of an axis (opset 13), or one a block of
// indices of it (opset 21).
type grid struct {
	n, inner      int // length of the axis and elements under one index of it
	block, blocks int // block 0: one scale an index, or one for all when n is 0
	scales, zeros []float64
}

func gridOf(c *Eval) (g grid, err error) {
	if g.scales, err = c.In[1].Floats(); err != nil {
		return g, c.Errorf(ErrInput, "scale: %v", err)
	}
	if g.zeros, err = zeroPoints(c, len(g.scales)); err != nil {
		return g, err
	}
	block := c.Attrs.Int("block_size", 0)
	if len(g.scales) == 1 && block == 0 {
		return g, nil
	}
	axis, err := c.axis(c.Attrs.Int("axis", 1), c.In[0].Rank())
	if err != nil {
		return g, err
	}
	return g, g.along(c, axis, block)
}

// along lays the grid along an axis, in blocks of the given size when that is not 0.
func (g *grid) along(c *Eval, axis int, block int64) error {
	shape, scale := c.In[0].Shape, c.In[1].Shape
	g.n, g.inner = shape[axis], count(shape[axis+1:])
	want := []int{g.n}
	if block != 0 {
		if block < 0 || block > int64(max(g.n, 1)) {
			return c.Errorf(ErrAttr, "block_size %d for an axis of %d", block, g.n)
		}
		g.block = int(block)
		g.blocks = (g.n + g.block - 1) / g.block
		want = slices.Clone(shape)
		want[axis] = g.blocks
	}
	if !slices.Equal(want, scale) {
		return c.Errorf(ErrInput, "scale %v for %v along axis %d, wants %v", scale, shape, axis, want)
	}
	return nil
}

// zeroPoints are as many as the scales, all 0 when the input is left out.
func zeroPoints(c *Eval, n int) ([]float64, error) {
	if !c.Has(2) {
		return make([]float64, n), nil
	}
	if z, s := c.In[2], c.In[1]; !slices.Equal(z.Shape, s.Shape) && (n != 1 || z.Len() != 1) {
		return nil, c.Errorf(ErrInput, "zero point %v for scale %v", z.Shape, s.Shape)
	}
	v, err := c.In[2].Floats()
	if err != nil {
		return nil, c.Errorf(ErrInput, "zero point: %v", err)
	}
	return v, nil
}

// at returns which scale element i has.
func (g *grid) at(i int) int {
	switch {
	case g.n == 0:
		return 0
	case g.block == 0:
		return i / g.inner % g.n
	}
	outer, k := i/(g.inner*g.n), i/g.inner%g.n
	return (outer*g.blocks+k/g.block)*g.inner + i%g.inner
}

// evalQuantize is saturate(round(x / scale) + zero point), ties to even, the quotient in float32.
func evalQuantize(c *Eval) error {
	var zero tensor.DType
	if c.Has(2) {
		zero = c.In[2].DType
	}
	d, err := quantizedType(c.Call, zero, c.Has(2))
	if err != nil {
		return err
	}
	g, err := gridOf(c)
	if err != nil {
		return err
	}
	x, err := c.In[0].Floats()
	if err != nil {
		return c.Errorf(ErrInput, "%v", err)
	}
	for i, v := range x {
		k := g.at(i)
		x[i] = math.RoundToEven(float64(float32(v)/float32(g.scales[k]))) + g.zeros[k]
	}
	return c.putFloats(d, x)
}

// putFloats makes output 0 of the shape of input 0 from values, converted to type d with saturation.
func (c *Eval) putFloats(d tensor.DType, v []float64) error {
	out, err := c.Output(0, d, c.In[0].Shape)
	if err != nil {
		return err
	}
	if !narrowFloats(out, 0, v) {
		return c.Errorf(ErrUnsupported, "result of %v", d)
	}
	return nil
}

// evalDequantize is (x − zero point) · scale, the product in float32.
func evalDequantize(c *Eval) error {
	g, err := gridOf(c)
	if err != nil {
		return err
	}
	x, err := c.In[0].Floats()
	if err != nil {
		return c.Errorf(ErrInput, "%v", err)
	}
	for i, v := range x {
		k := g.at(i)
		x[i] = float64(float32(v-g.zeros[k]) * float32(g.scales[k]))
	}
	return c.putFloats(dequantizedType(c.Call, c.In[1].DType), x)
}

func inferDynamicQuantize(c *Infer) error {
	c.Out[0] = Type{DType: tensor.Uint8, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	c.Out[1], c.Out[2] = Ranked(tensor.Float32), Ranked(tensor.Uint8)
	return nil
}

// dynamicGrid returns the scale on which 256 steps just hold the range of x and zero, and the step that is zero.
func dynamicGrid(x []float32) (scale float32, zero float64) {
	var lo, hi float32
	for _, v := range x {
		lo, hi = min(lo, v), max(hi, v)
	}
	scale = (hi - lo) / 255
	if hi == lo {
		scale = 1
	}
	return scale, math.RoundToEven(float64(min(max(-lo/scale, 0), 255)))
}

// evalDynamicQuantize quantizes to uint8 on the scale that just holds the range of x and zero.
func evalDynamicQuantize(c *Eval) error {
	if c.In[0].DType != tensor.Float32 {
		return c.Errorf(ErrInput, "has %v, wants float32", c.In[0].DType)
	}
	scale, zero := dynamicGrid(tensor.As[float32](c.In[0]))
	x := make([]float64, c.In[0].Len())
	for i, v := range tensor.As[float32](c.In[0]) {
		x[i] = math.RoundToEven(float64(v/scale)) + zero
	}
	if err := c.putFloats(tensor.Uint8, x); err != nil {
		return err
	}
	s, err := c.Output(1, tensor.Float32, nil)
	if err != nil {
		return err
	}
	z, err := c.Output(2, tensor.Uint8, nil)
	if err != nil {
		return err
	}
	tensor.As[float32](s)[0], z.Data[0] = scale, uint8(zero)
	return nil
}
