package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// shapeOps read shapes and change them without moving an element.
var shapeOps = []Op{
	{Name: "Identity", Since: []int{1, 13, 14, 16, 19, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1,
		Traits: View | Elementwise | Containers,
		Infer:  inferIdentity, Eval: evalIdentity, grad: gradIdentity},
	{Name: "Shape", Since: []int{1, 13, 15, 19, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1,
		Traits: ShapeOnly,
		Infer:  inferShape, Eval: evalShape, flat: true},
	{Name: "Size", Since: []int{1, 13, 19, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1, Traits: ShapeOnly,
		Infer: inferSize, Eval: evalSize, flat: true},
	{Name: "Reshape", Since: []int{5, 13, 14, 19, 21, 23, 24, 25}, MinIn: 2, MaxIn: 2, Traits: View,
		Infer: inferReshape, Eval: evalReshape, grad: gradView},
	{Name: "Flatten", Since: []int{1, 9, 11, 13, 21, 23, 24, 25}, MinIn: 1, MaxIn: 1, Traits: View,
		Infer: inferFlatten, Eval: evalFlatten, grad: gradView},
	{Name: "Squeeze", Since: []int{1, 11, 13, 21, 23, 24, 25}, MinIn: 1, MaxIn: 2, Traits: View,
		Infer: inferSqueeze, Eval: evalSqueeze, grad: gradView},
	{Name: "Unsqueeze", Since: []int{1, 11, 13, 21, 23, 24, 25}, MinIn: 1, MaxIn: 2, Traits: View,
		Infer: inferUnsqueeze, Eval: evalUnsqueeze, grad: gradView},
}

// viewed is the type of in's elements under another shape.
func viewed(in Type, shape []Dim) Type {
	t := Ranked(in.DType, shape...)
	if len(shape) <= 1 {
		t.Elems = in.Elems
	}
	return t
}

// view makes output 0 with the elements of input 0 under another shape.
func (c *Eval) view(shape []int) error {
	in := c.In[0]
	out, err := c.Output(0, in.DType, shape)
	if err != nil {
		return err
	}
	copyElems(out, 0, in, 0, in.Len())
	return nil
}

func inferIdentity(c *Infer) error {
	c.Out[0] = c.In[0]
	return nil
}

func evalIdentity(c *Eval) error {
	if c.In[0].DType.IsContainer() {
		c.Out[0] = c.In[0]
		return nil
	}
	return c.view(c.In[0].Shape)
}

// shapeRange gives the axes that Shape returns: [start, end) clamped into [0, rank] (attributes
// since opset 15).
func shapeRange(c *Call, rank int) (start, end int) {
	clamp := func(a int64) int {
		if a < 0 {
			a += int64(rank)
		}
		return int(min(max(a, 0), int64(rank)))
	}
	if c.Version < 15 {
		return 0, rank
	}
	start, end = clamp(c.Attrs.Int("start", 0)), clamp(c.Attrs.Int("end", int64(rank)))
	return start, max(start, end)
}

func inferShape(c *Infer) error {
	if !c.In[0].Ranked {
		c.Out[0] = Ranked(tensor.Int64, Unknown())
		return nil
	}
	start, end := shapeRange(c.Call, len(c.In[0].Shape))
	c.Out[0] = Concrete(tensor.Int64, end-start)
	if end-start <= MaxElems {
		c.Out[0].Elems = append([]Dim{}, c.In[0].Shape[start:end]...)
	}
	return nil
}

func evalShape(c *Eval) error {
	start, end := shapeRange(c.Call, c.In[0].Rank())
	out, err := c.Output(0, tensor.Int64, []int{end - start})
	if err != nil {
		return err
	}
	for i, n := range c.In[0].Shape[start:end] {
		tensor.As[int64](out)[i] = int64(n)
	}
	return nil
}

func inferSize(c *Infer) error {
	c.Out[0] = Ranked(tensor.Int64)
	c.Out[0].Elems = []Dim{c.In[0].Count()}
	return nil
}

func evalSize(c *Eval) error {
	out, err := c.Output(0, tensor.Int64, nil)
	if err != nil {
		return err
	}
	tensor.As[int64](out)[0] = int64(c.In[0].Len())
	return nil
}

// allowZero tells whether a 0 in Reshape's shape is a size (attribute since opset 14) or copies the
// input's.
func allowZero(c *Call) bool { return c.Version >= 14 && c.Attrs.Bool("allowzero", false) }

func inferReshape(c *Infer) error {
	in, want := c.In[0], c.Dims(1)
	if want == nil {
		c.Out[0] = Unranked(in.DType)
		if n := c.length(1); n >= 0 && n <= MaxElems {
			c.Out[0] = Ranked(in.DType, unknownDims(n)...)
		}
		return c.checkCount()
	}
	shape, rest, err := reshapeDims(c, want)
	if err != nil {
		return err
	}
	if rest >= 0 {
		if shape[rest], err = c.remainder(in, shape, rest); err != nil {
			return err
		}
	}
	c.Out[0] = viewed(in, shape)
	return c.checkCount()
}

// checkCount holds that the output has as many elements as the input, as far as both are known.
func (c *Infer) checkCount() error {
	in, out := c.In[0], c.Out[0]
	have, ok := in.Count().Int()
	if n, ok2 := out.Count().Int(); in.Ranked && out.Ranked && ok && ok2 && n != have {
		return c.Errorf(ErrInput, "cannot reshape %v to %v", in, out)
	}
	return nil
}

// reshapeDims resolves the zeros of Reshape's shape. rest is the dimension that takes what remains,
// -1 when none does: the one written as -1 or, when there is none, a single one whose value is not
// known beside others that are more than 0, since the count is kept.
func reshapeDims(c *Infer, want []Dim) (shape []Dim, rest int, err error) {
	shape, rest = slices.Clone(want), -1
	unknown := -1
	for i, d := range want {
		n, known := d.Int()
		switch {
		case d.IsUnknown() && unknown < 0:
			unknown = i
		case d.IsUnknown():
			unknown = len(want)
		case known && n == -1 && rest >= 0:
			return nil, 0, c.Errorf(ErrInput, "shape %v has two -1", want)
		case known && n == -1:
			rest = i
		case known && n < 0:
			return nil, 0, c.Errorf(ErrInput, "shape %v has a negative size", want)
		case known && n == 0 && !allowZero(c.Call):
			if shape[i], err = c.copiedDim(want, i); err != nil {
				return nil, 0, err
			}
		case !known:
			shape[i] = c.symbolicSize(want, i)
		}
	}
	if rest < 0 && unknown >= 0 && unknown < len(want) && positiveBut(shape, unknown) {
		rest = unknown
	}
	return shape, rest, nil
}

// copiedDim is dimension i of the input, which a zero in Reshape's shape stands for.
func (c *Infer) copiedDim(want []Dim, i int) (Dim, error) {
	in := c.In[0]
	switch {
	case !in.Ranked:
		return Unknown(), nil
	case i >= len(in.Shape):
		return Dim{}, c.Errorf(ErrInput, "shape %v copies dimension %d of %v", want, i, in)
	}
	return in.Shape[i], nil
}

// symbolicSize is the dimension that Reshape makes of an expression, which may turn out to be 0 and
// then copies the input's dimension, or -1.
func (c *Infer) symbolicSize(want []Dim, i int) Dim {
	in, d := c.In[0], want[i]
	switch {
	case !d.nonNegative() || !in.Ranked:
		return Unknown()
	case allowZero(c.Call) || i >= len(in.Shape) || d.positive():
		return d
	case !in.Shape[i].Quotient(d).IsUnknown(): // 0 where d is
		return d
	case Ranked(in.DType, want...).Count().Equal(in.Count()):
		// The input is empty where d is 0, so that what is copied must be 0, too, or the counts
		// differ. They do not when another size is 0 as well, which this leaves out: every
		// exporter's [batch·sequence, n] to [batch, sequence, n] rests on it.
		return d
	case in.Shape[i].IsUnknown():
		return Unknown()
	}
	return opaque("copy(%v, %v)", d, in.Shape[i])
}

// positiveBut reports whether all dimensions but one are seen to be more than 0.
func positiveBut(shape []Dim, but int) bool {
	for i, d := range shape {
		if i != but && !d.positive() {
			return false
		}
	}
	return true
}

// remainder is the size that dimension rest of shape takes so that the count of in is kept. Equal
// factors cancel first, so that a division of polynomials is seldom needed.
func (c *Infer) remainder(in Type, shape []Dim, rest int) (Dim, error) {
	if !in.Ranked {
		return Unknown(), nil
	}
	above, below := slices.Clone(in.Shape), Known(1)
	for i, d := range shape {
		if i == rest {
			continue
		}
		if k := slices.IndexFunc(above, d.Equal); k >= 0 && !d.Is(0) {
			above = slices.Delete(above, k, k+1)
			continue
		}
		below = below.Mul(d)
	}
	n := Ranked(in.DType, above...).Count()
	if below.Is(0) {
		return Unknown(), nil
	}
	v, ok := n.Int()
	if w, ok2 := below.Int(); ok && ok2 && v%w != 0 {
		return Dim{}, c.Errorf(ErrInput, "cannot reshape %v to %v", in, shape)
	}
	return n.Quotient(below), nil
}

func evalReshape(c *Eval) error {
	want, err := c.Ints(1)
	if err != nil {
		return err
	}
	in := c.In[0]
	shape, rest, err := reshapeSizes(c.Call, in.Shape, want)
	if err != nil {
		return err
	}
	n, err := tensor.Count(shape)
	if err != nil {
		return err
	}
	if rest >= 0 && n == 0 { // any size would do; ONNX Runtime refuses it, too
		return c.Errorf(ErrInput, "shape %v of %v has a -1 beside a size 0", want, in.Shape)
	}
	if rest >= 0 {
		shape[rest] = in.Len() / n
		n *= shape[rest]
	}
	if n != in.Len() {
		return c.Errorf(ErrInput, "cannot reshape %v to %v", in.Shape, want)
	}
	return c.view(shape)
}

// reshapeSizes resolves the zeros of Reshape's shape. rest is the place of the -1, which stands as
// 1, or -1.
func reshapeSizes(c *Call, in []int, want []int64) (shape []int, rest int, err error) {
	shape, rest = make([]int, len(want)), -1
	for i, n := range want {
		switch {
		case n == -1 && rest >= 0:
			return nil, 0, c.Errorf(ErrInput, "shape %v has two -1", want)
		case n == -1:
			rest, shape[i] = i, 1
		case n == 0 && !allowZero(c) && i >= len(in):
			return nil, 0, c.Errorf(ErrInput, "shape %v copies dimension %d of %v", want, i, in)
		case n == 0 && !allowZero(c):
			shape[i] = in[i]
		default:
			if shape[i], err = c.size(n); err != nil {
				return nil, 0, err
			}
		}
	}
	return shape, rest, nil
}

// flattenAxis is where Flatten cuts the shape in two; unlike other axes it may equal the rank.
func flattenAxis(c *Call, rank int) (int, error) {
	a := c.Attrs.Int("axis", 1)
	if a == int64(rank) {
		return rank, nil
	}
	return c.Axis(a, rank)
}

func inferFlatten(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Ranked(in.DType, unknownDims(2)...)
	if !in.Ranked {
		return nil
	}
	axis, err := flattenAxis(c.Call, len(in.Shape))
	if err != nil {
		return err
	}
	c.Out[0].Shape[0] = Ranked(in.DType, in.Shape[:axis]...).Count()
	c.Out[0].Shape[1] = Ranked(in.DType, in.Shape[axis:]...).Count()
	return nil
}

func evalFlatten(c *Eval) error {
	axis, err := flattenAxis(c.Call, c.In[0].Rank())
	if err != nil {
		return err
	}
	outer, err := tensor.Count(c.In[0].Shape[:axis])
	if err != nil {
		return err
	}
	inner, err := tensor.Count(c.In[0].Shape[axis:])
	if err != nil {
		return err
	}
	return c.view([]int{outer, inner})
}

func inferSqueeze(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Unranked(in.DType)
	as, given, known := c.intsArg("axes", 1, 13)
	if !in.Ranked {
		return nil
	}
	if !known {
		if n := c.length(1); n >= 0 && n <= len(in.Shape) {
			c.Out[0] = viewed(in, unknownDims(len(in.Shape)-n))
		}
		return nil
	}
	shape, err := c.squeezeDims(in, as, given)
	if shape != nil {
		c.Out[0] = viewed(in, shape)
	}
	return err
}

// squeezeDims drops the given axes, or every axis of size 1; nil when a size that is not known
// decides about the rank.
func (c *Infer) squeezeDims(in Type, as []int64, given bool) ([]Dim, error) {
	axes, err := c.axes(as, len(in.Shape))
	if err != nil {
		return nil, err
	}
	shape := []Dim{}
	for k, d := range in.Shape {
		n, fixed := d.Int()
		switch drop := slices.Contains(axes, k); {
		case !given && !fixed:
			return nil, nil
		case drop && fixed && n != 1:
			return nil, c.Errorf(ErrInput, "axis %d of %v is not 1", k, in)
		case !drop && (given || n != 1):
			shape = append(shape, d)
		}
	}
	return shape, nil
}

func evalSqueeze(c *Eval) error {
	in := c.In[0]
	as, given, err := c.intsArg("axes", 1, 13)
	if err != nil {
		return err
	}
	axes, err := c.axes(as, in.Rank())
	if err != nil {
		return err
	}
	shape := []int{}
	for k, n := range in.Shape {
		switch drop := slices.Contains(axes, k); {
		case drop && n != 1:
			return c.Errorf(ErrInput, "axis %d of %v is not 1", k, in.Shape)
		case !drop && (given || n != 1):
			shape = append(shape, n)
		}
	}
	return c.view(shape)
}

func inferUnsqueeze(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Unranked(in.DType)
	as, given, known := c.intsArg("axes", 1, 13)
	if known && !given {
		return c.Errorf(ErrAttr, "has no axes")
	}
	if !in.Ranked {
		return nil
	}
	if !known {
		if n := c.length(1); n >= 0 && n <= MaxElems {
			c.Out[0] = viewed(in, unknownDims(len(in.Shape)+n))
		}
		return nil
	}
	shape, err := unsqueeze(c.Call, in.Shape, as, Known(1))
	if err != nil {
		return err
	}
	c.Out[0] = viewed(in, shape)
	return nil
}

func evalUnsqueeze(c *Eval) error {
	as, given, err := c.intsArg("axes", 1, 13)
	if err != nil {
		return err
	}
	if !given {
		return c.Errorf(ErrAttr, "has no axes")
	}
	shape, err := unsqueeze(c.Call, c.In[0].Shape, as, 1)
	if err != nil {
		return err
	}
	return c.view(shape)
}

// unsqueeze inserts a one at each of the axes, which count in the resulting shape.
func unsqueeze[D int | Dim](c *Call, shape []D, as []int64, one D) ([]D, error) {
	rank := len(shape) + len(as)
	axes, err := c.axes(as, rank)
	if err != nil {
		return nil, err
	}
	out := make([]D, 0, rank)
	for k := range rank {
		if slices.Contains(axes, k) {
			out = append(out, one)
			continue
		}
		out = append(out, shape[0])
		shape = shape[1:]
	}
	return out, nil
}
