package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/strided"
	"github.com/weirgpu/weir/tensor"
)

// constantOps are the sources of constants: Constant, ConstantOfShape, EyeLike and Range.
var constantOps = []Op{
	{Name: "Constant", Since: []int{1, 9, 11, 12, 13, 19, 21, 23, 24, 25}, Infer: inferConstant,
		Eval: evalConstant},
	{Name: "ConstantOfShape", Since: []int{9, 20, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1,
		Infer: inferConstantOfShape, Eval: evalConstantOfShape, flat: true},
	{Name: "EyeLike", Since: []int{9, 22}, MinIn: 1, MaxIn: 1, Traits: ShapeOnly,
		Infer: inferEyeLike, Eval: evalEyeLike, flat: true},
	{Name: "Range", Since: []int{11, 27}, MinIn: 3, MaxIn: 3, Infer: inferRange, Eval: evalRange},
}

// constantValue reads whichever of the value attributes the call has.
func constantValue(c *Call) (*tensor.Tensor, error) {
	for i := range c.Attrs {
		switch a := &c.Attrs[i]; a.Name {
		case "value":
			if a.Tensor == nil {
				return nil, c.Errorf(ErrAttr, "value is not a tensor")
			}
			return a.Tensor, nil
		case "value_float", "value_floats":
			return tensor.From(a.Floats, listShape(a, len(a.Floats))...), nil
		case "value_int", "value_ints":
			return tensor.From(a.Ints, listShape(a, len(a.Ints))...), nil
		case "value_string", "value_strings":
			return tensor.FromStrings(a.Strings, listShape(a, len(a.Strings))...), nil
		case "sparse_value":
			return nil, c.Errorf(ErrUnsupported, "sparse_value")
		}
	}
	return nil, c.Errorf(ErrAttr, "has no value")
}

// listShape is rank 0 for a single attribute and rank 1 for a list.
func listShape(a *Attr, n int) []int {
	if n == 1 && (a.Kind == AttrFloat || a.Kind == AttrInt || a.Kind == AttrString) {
		return nil
	}
	return []int{n}
}

func inferConstant(c *Infer) error {
	t, err := constantValue(c.Call)
	if err != nil {
		return err
	}
	c.Out[0] = TypeOf(t)
	return nil
}

func evalConstant(c *Eval) error {
	t, err := constantValue(c.Call)
	c.Out[0] = t
	return err
}

// fillValue is the one-element value attribute of ConstantOfShape, by default float32 0.
func fillValue(c *Call) (*tensor.Tensor, error) {
	v := c.Attrs.Tensor("value")
	if v == nil {
		return tensor.Scalar[float32](0), nil
	}
	if v.Len() != 1 {
		return nil, c.Errorf(ErrAttr, "value has %d elements, wants one", v.Len())
	}
	return v, nil
}

func inferConstantOfShape(c *Infer) error {
	v, err := fillValue(c.Call)
	if err != nil {
		return err
	}
	dims := c.Dims(0)
	if dims == nil {
		c.Out[0] = Unranked(v.DType)
		if n := c.length(0); n >= 0 && n <= MaxElems {
			c.Out[0] = Ranked(v.DType, unknownDims(n)...)
		}
		return nil
	}
	if err := c.checkDims(dims); err != nil {
		return err
	}
	c.Out[0] = Ranked(v.DType, dims...)
	if e := TypeOf(v).Elems; e != nil && len(dims) <= 1 {
		if n, ok := c.Out[0].Count().Int(); ok && n <= MaxElems {
			c.Out[0].Elems = slices.Repeat(e[:1], n)
		}
	}
	return nil
}

func evalConstantOfShape(c *Eval) error {
	v, err := fillValue(c.Call)
	if err != nil {
		return err
	}
	shape, err := c.sizesInput(0)
	if err != nil {
		return err
	}
	out, err := c.Output(0, v.DType, shape)
	if err != nil {
		return err
	}
	return fillWith(out, v)
}

// fillWith sets every element of dst to the first element of v.
func fillWith(dst, v *tensor.Tensor) error {
	return strided.Copy(dst, strided.RowMajor(dst.Shape), v,
		strided.Steps{Strides: make([]int, dst.Rank())}, dst.Shape)
}

func inferEyeLike(c *Infer) error {
	if r := c.rank(0); r >= 0 && r != 2 {
		return c.Errorf(ErrInput, "wants rank 2, has %v", c.In[0])
	}
	c.Out[0] = c.In[0]
	c.Out[0].Elems, c.Out[0].Const = nil, nil
	c.Out[0].DType = tensor.DType(c.Attrs.Int("dtype", int64(c.In[0].DType)))
	return nil
}

func evalEyeLike(c *Eval) error {
	in := c.In[0]
	if in.Rank() != 2 {
		return c.Errorf(ErrInput, "wants rank 2, has %v", in.Shape)
	}
	out, err := c.ZeroOutput(0, tensor.DType(c.Attrs.Int("dtype", int64(in.DType))), in.Shape)
	if err != nil {
		return err
	}
	one, err := convertScalar(c.Call, 1, out.DType)
	if err != nil {
		return err
	}
	rows, cols, k := in.Shape[0], in.Shape[1], c.Attrs.Int("k", 0)
	if k <= -int64(rows) || k >= int64(cols) {
		return nil
	}
	r, col := max(0, -int(k)), max(0, int(k))
	for ; r < rows && col < cols; r, col = r+1, col+1 {
		copyElems(out, r*cols+col, one, 0, 1)
	}
	return nil
}

// convertScalar makes a rank-0 tensor of type d that holds v.
func convertScalar(c *Call, v int64, d tensor.DType) (*tensor.Tensor, error) {
	if !d.IsFloat() && !d.IsInteger() && d != tensor.Bool {
		return nil, c.Errorf(ErrAttr, "cannot make numbers of %v", d)
	}
	out, err := tensor.New(d)
	if err != nil {
		return nil, err
	}
	return out, castInto(c, out, tensor.Scalar(v))
}

// rangeCount is the number of elements of Range, max(⌈(limit − start) / delta⌉, 0), saturating.
func rangeCount(c *Call, start, limit, delta float64) (int, error) {
	n := math.Ceil((limit - start) / delta)
	if delta == 0 || math.IsNaN(n) {
		return 0, c.Errorf(ErrInput, "start %v, limit %v, delta %v make no sequence", start, limit,
			delta)
	}
	if n > math.MaxInt64/2 {
		return math.MaxInt, nil
	}
	return max(int(n), 0), nil
}

// intRangeCount is rangeCount without rounding.
func intRangeCount(c *Call, start, limit, delta int64) (int, error) {
	if delta == 0 || delta == math.MinInt64 {
		return 0, c.Errorf(ErrInput, "delta %d makes no sequence", delta)
	}
	if delta < 0 {
		start, limit, delta = limit, start, -delta
	}
	if start >= limit {
		return 0, nil
	}
	n := (uint64(limit)-uint64(start)-1)/uint64(delta) + 1
	return int(min(n, math.MaxInt)), nil
}

func inferRange(c *Infer) error {
	d := c.In[0].DType
	c.Out[0] = Ranked(d, Unknown())
	if s, l, t := c.Const(0), c.Const(1), c.Const(2); s != nil && l != nil && t != nil {
		n, err := rangeSize(c.Call, s, l, t)
		if err != nil {
			return err
		}
		c.Out[0].Shape[0] = Known(n)
	}
	s, l, t := c.Dims(0), c.Dims(1), c.Dims(2)
	if len(s) != 1 || len(l) != 1 || len(t) != 1 {
		return nil
	}
	n := rangeDim(s[0], l[0], t[0])
	if n.IsUnknown() {
		return nil
	}
	c.Out[0].Shape[0] = n
	c.Out[0].Elems = rangeElems(s[0], t[0], n)
	return nil
}

// rangeElems are the elements of an integer Range of n as expressions, nil when there may be too
// many.
func rangeElems(start, delta, n Dim) []Dim {
	v, ok := n.Int()
	if !ok || v > MaxElems {
		return nil
	}
	out := make([]Dim, v)
	for i := range out {
		out[i] = start.Add(delta.MulInt(i))
	}
	return out
}

// rangeDim is the number of elements of an integer Range as an expression.
func rangeDim(start, limit, delta Dim) Dim {
	step, ok := delta.Int()
	if !ok || step == 0 || step == math.MinInt {
		return Unknown()
	}
	dist := limit.Sub(start)
	if step < 0 {
		dist, step = start.Sub(limit), -step
	}
	return dist.orZero().CeilDiv(step)
}

func rangeSize(c *Call, s, l, t *tensor.Tensor) (int, error) {
	var n [3]int64
	whole := true
	for i, x := range []*tensor.Tensor{s, l, t} {
		v, err := x.Ints()
		if whole = whole && err == nil && len(v) == 1 && x.DType != tensor.Uint64; whole {
			n[i] = v[0]
		}
	}
	if whole {
		return intRangeCount(c, n[0], n[1], n[2])
	}
	var v [3]float64
	for i, x := range []*tensor.Tensor{s, l, t} {
		f, err := x.Floats()
		if err != nil || len(f) != 1 {
			return 0, c.Errorf(ErrInput, "input %d is %v, wants a number", i, x)
		}
		v[i] = f[0]
	}
	return rangeCount(c, v[0], v[1], v[2])
}

// rangeTypes are the element types of Range, besides those of 16 bits.
var rangeTypes = SetOf(tensor.Float32, tensor.Float64, tensor.Int16, tensor.Int32, tensor.Int64)

func evalRange(c *Eval) error {
	d := c.In[0].DType
	if c.In[1].DType != d || c.In[2].DType != d {
		return c.Errorf(ErrInput, "types %v, %v and %v differ", d, c.In[1].DType, c.In[2].DType)
	}
	n, err := rangeSize(c.Call, c.In[0], c.In[1], c.In[2])
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, []int{n})
	if err != nil {
		return err
	}
	switch {
	case isHalf(out):
		return c.fillHalfRange(out)
	case !rangeTypes.Has(d):
		return c.Errorf(ErrUnsupported, "elements of %v", d)
	}
	loopsOf[d].count(out, c.In[0], c.In[2])
	return nil
}

// fillHalfRange counts in a wider type and rounds each element once (16-bit types since opset 27).
func (c *Eval) fillHalfRange(out *tensor.Tensor) error {
	start, err := c.In[0].Floats()
	if err != nil {
		return err
	}
	delta, err := c.In[2].Floats()
	if err != nil {
		return err
	}
	v := make([]float64, out.Len())
	for i := range v {
		v[i] = start[0] + float64(i)*delta[0]
	}
	narrowFloats(out, 0, v)
	return nil
}

// count fills out with start, start + delta and so on.
func (*loopsOn[T, W]) count(out *tensor.Tensor, start, delta *tensor.Tensor) {
	o, first, step := tensor.As[T](out), tensor.As[T](start)[0], tensor.As[T](delta)[0]
	for i := range o {
		o[i] = first + T(i)*step
	}
}
