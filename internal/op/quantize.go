package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// quantizeOps convert between numbers and integers on a scale: QuantizeLinear, DequantizeLinear,
// DynamicQuantizeLinear.
var quantizeOps = []Op{
	{Name: "QuantizeLinear", Since: []int{10, 13, 19, 21, 23, 24, 25, 28}, MinIn: 2, MaxIn: 3,
		Infer: inferQuantize, Eval: evalQuantize},
	{Name: "DequantizeLinear", Since: []int{10, 13, 19, 21, 23, 24, 25, 28}, MinIn: 2, MaxIn: 3,
		Infer: inferDequantize, Eval: evalDequantize},
	{Name: "DynamicQuantizeLinear", Since: []int{11}, MinIn: 1, MaxIn: 1, MinOut: 3, MaxOut: 3,
		Infer: inferDynamicQuantize, Eval: evalDynamicQuantize},
}

// quantizedTypes are what QuantizeLinear gives and DequantizeLinear takes, besides int32.
var quantizedTypes = SetOf(tensor.Uint8, tensor.Int8, tensor.Uint16, tensor.Int16, tensor.Uint4,
	tensor.Int4, tensor.Uint2, tensor.Int2, tensor.Float8E4M3FN, tensor.Float8E4M3FNUZ,
	tensor.Float8E5M2, tensor.Float8E5M2FNUZ, tensor.Float4E2M1)

// quantizedType is the type that QuantizeLinear gives: that of the zero point, else output_dtype
// (opset 21), else uint8.
func quantizedType(c *Call, zero tensor.DType, has bool) (tensor.DType, error) {
	v := c.Attrs.Int("output_dtype", 0)
	d := tensor.DType(v)
	switch {
	case v < 0 || v > math.MaxUint8:
		return 0, c.Errorf(ErrAttr, "output_dtype is %d, no element type", v)
	case has && d != tensor.Undefined && d != zero:
		return 0, c.Errorf(ErrInput, "output_dtype is %v, the zero point %v", d, zero)
	case has:
		d = zero
	case d == tensor.Undefined:
		d = tensor.Uint8
	}
	if !quantizedTypes.Has(d) {
		return 0, c.Errorf(ErrUnsupported, "quantization to %v", d)
	}
	return d, nil
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

// dequantizedType is the type that DequantizeLinear gives: output_dtype (opset 23), else that of
// the scale.
func dequantizedType(c *Call, scale tensor.DType) (tensor.DType, error) {
	d := scale
	if v := c.Attrs.Int("output_dtype", 0); c.Version >= 23 && v != 0 {
		d = tensor.DType(v)
		if v < 0 || v > math.MaxUint8 || !floatTypes.Has(d) {
			return 0, c.Errorf(ErrAttr, "output_dtype is %d, wants a type of floats", v)
		}
	}
	if d != tensor.Undefined && !floatTypes.Has(d) {
		return 0, c.Errorf(ErrInput, "scale is %v: name another type by output_dtype", d)
	}
	return d, nil
}

func inferDequantize(c *Infer) error {
	d, err := dequantizedType(c.Call, c.In[1].DType)
	c.Out[0] = Type{DType: d, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return err
}

// grid tells which scale belongs to which element: one for all, one an index of an axis (opset 13),
// or one a block of indices of it (opset 21).
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
	axis, err := c.Axis(c.Attrs.Int("axis", 1), c.In[0].Rank())
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
		return c.Errorf(ErrInput, "scale %v for %v along axis %d, wants %v", scale, shape, axis,
			want)
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

// division returns x / scale as QuantizeLinear rounds it: in the type of attribute precision (opset
// 23), else in that of the scale. Scales of int32 and float8e8m0, on which there is no division,
// divide in wider types.
func (c *Eval) division() (func(x, scale float64) float64, error) {
	d := c.In[1].DType
	if v := c.Attrs.Int("precision", 0); v != 0 {
		d = tensor.DType(min(max(v, 0), math.MaxUint8))
	}
	switch d {
	case tensor.Float32, tensor.Float8E8M0:
		return func(x, scale float64) float64 { return float64(float32(x) / float32(scale)) }, nil
	case tensor.Float64, tensor.Int32:
		return func(x, scale float64) float64 { return x / scale }, nil
	case tensor.Float16:
		return divisionIn(tensor.Half.Float32, tensor.HalfOf), nil
	case tensor.BFloat16:
		return divisionIn(tensor.BHalf.Float32, tensor.BHalfOf), nil
	}
	return nil, c.Errorf(ErrAttr, "cannot divide in %v", d)
}

// divisionIn divides in a type of 16 bits: rounding the quotient in float32 once more is rounding
// the quotient itself, as 24 bits are at least 2 · 11 + 2.
func divisionIn[T tensor.Half | tensor.BHalf](wide func(T) float32, narrow func(float32) T) func(x,
	scale float64) float64 {
	in := func(v float64) float32 { return wide(narrow(roundToOdd(v))) }
	return func(x, scale float64) float64 { return float64(wide(narrow(in(x) / in(scale)))) }
}

// evalQuantize is saturate(round(x / scale) + zero point), ties to even; numbers of 4 and 8 bits
// are not rounded before the zero point is added, but to their type afterwards. NaN, of which ONNX
// says nothing, becomes the least integer, as in ONNX Runtime.
func evalQuantize(c *Eval) error {
	var zero tensor.DType
	if c.Has(2) {
		zero = c.In[2].DType
	}
	d, err := quantizedType(c.Call, zero, c.Has(2))
	if err != nil {
		return err
	}
	divide, err := c.division()
	if err != nil {
		return err
	}
	g, err := gridOf(c)
	if err != nil {
		return err
	}
	if !d.IsInteger() {
		return c.mapNumbers(d, func(i int, x float64) float64 {
			k := g.at(i)
			return divide(x, g.scales[k]) + g.zeros[k]
		})
	}
	lo, hi := integerRange(d)
	return c.mapNumbers(d, func(i int, x float64) float64 {
		k := g.at(i)
		q := math.RoundToEven(divide(x, g.scales[k])) + g.zeros[k]
		if !(q > lo) {
			return lo
		}
		return min(q, hi)
	})
}

// integerRange is the least and the most that an integer type of at most 32 bits holds.
func integerRange(d tensor.DType) (lo, hi float64) {
	if d.IsSigned() {
		half := math.Ldexp(1, d.Bits()-1)
		return -half, half - 1
	}
	return 0, math.Ldexp(1, d.Bits()) - 1
}

// mapNumbers makes output 0 of the shape of input 0 and converts f of each number of that and its
// place to type d, a few at a time: weights of few bits would take many times their size as
// float64.
func (c *Eval) mapNumbers(d tensor.DType, f func(i int, x float64) float64) error {
	by, err := narrowingOf(c.Call)
	if err != nil {
		return err
	}
	x := c.In[0]
	out, err := c.Output(0, d, x.Shape)
	if err != nil {
		return err
	}
	var buf [castChunk]float64
	for at, n := 0, x.Len(); at < n; at += castChunk {
		chunk := buf[:min(castChunk, n-at)]
		if !widenNumbers(chunk, x, at) {
			return c.Errorf(ErrInput, "has %v, wants numbers", x.DType)
		}
		for i, v := range chunk {
			chunk[i] = f(at+i, v)
		}
		if !by.floats(out, at, chunk) {
			return c.Errorf(ErrUnsupported, "result of %v", d)
		}
	}
	return nil
}

// widenNumbers reads numbers of any type; of 64-bit integers float64 holds the nearest.
func widenNumbers(buf []float64, x *tensor.Tensor, at int) bool {
	if x.DType.IsFloat() {
		return widenFloats(buf, x, at)
	}
	var ints [castChunk]int64
	if !widenInts(ints[:len(buf)], x, at) {
		return false
	}
	for i := range buf {
		buf[i] = float64(ints[i])
	}
	return true
}

// putFloats makes output 0 of the shape of input 0 from values, converted to type d, with
// saturation unless attribute saturate (opset 19) says otherwise of 8-bit floats.
func (c *Eval) putFloats(d tensor.DType, v []float64) error {
	by, err := narrowingOf(c.Call)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, c.In[0].Shape)
	if err != nil {
		return err
	}
	if !by.floats(out, 0, v) {
		return c.Errorf(ErrUnsupported, "result of %v", d)
	}
	return nil
}

// evalDequantize is (x − zero point) · scale, the product in float32.
func evalDequantize(c *Eval) error {
	d, err := dequantizedType(c.Call, c.In[1].DType)
	if err != nil {
		return err
	}
	g, err := gridOf(c)
	if err != nil {
		return err
	}
	value := func(k int, x float64) float32 { return float32(x-g.zeros[k]) * float32(g.scales[k]) }
	if t := c.In[0].DType; len(g.scales) == 1 && g.n == 0 && d == tensor.Float32 &&
		(t == tensor.Uint8 || t == tensor.Int8) {
		return dequantizeBytes(c, func(x float64) float32 { return value(0, x) })
	}
	return c.mapNumbers(d, func(i int, x float64) float64 { return float64(value(g.at(i), x)) })
}

// dequantizeBytes computes the value of each byte that there is and looks up those of the input:
// embeddings, of which models have millions of elements, are dequantized when a model is loaded.
func dequantizeBytes(c *Eval, value func(x float64) float32) error {
	x := c.In[0]
	out, err := c.Output(0, tensor.Float32, x.Shape)
	if err != nil {
		return err
	}
	var values [256]float32
	for b := range values {
		values[b] = value(float64(b))
		if x.DType == tensor.Int8 {
			values[b] = value(float64(int8(b)))
		}
	}
	y := tensor.As[float32](out)
	for i, b := range x.Data {
		y[i] = values[b]
	}
	return nil
}

func inferDynamicQuantize(c *Infer) error {
	c.Out[0] = Type{DType: tensor.Uint8, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	c.Out[1], c.Out[2] = Ranked(tensor.Float32), Ranked(tensor.Uint8)
	return nil
}

// DynamicGrid returns the scale on which 256 steps just hold the range of x and zero, and the step
// that is zero.
func DynamicGrid(x []float32) (scale float32, zero float64) {
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
	scale, zero := DynamicGrid(tensor.As[float32](c.In[0]))
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
