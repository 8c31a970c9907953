package op

import (
	"cmp"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// search holds the operators that find the largest or smallest elements along an axis.
var search = []Op{
	{Name: "ArgMax", Since: []int{1, 11, 12, 13}, MinIn: 1, MaxIn: 1, Infer: inferArg,
		Eval: InFloat32(func(c *Eval) error { return c.evalArg(1) }), flat: true},
	{Name: "ArgMin", Since: []int{1, 11, 12, 13}, MinIn: 1, MaxIn: 1, Infer: inferArg,
		Eval: InFloat32(func(c *Eval) error { return c.evalArg(-1) }), flat: true},
	{Name: "TopK", Since: []int{1, 10, 11, 24}, MinIn: 1, MaxIn: 2, MinOut: 2, MaxOut: 2,
		Infer: inferTopK,
		Eval:  InFloat32(evalTopK), grad: gradTopK},
}

func inferArg(c *Infer) error {
	x, ranked, err := c.PropagateDType(numberTypes)
	c.Out[0] = Unranked(tensor.Int64)
	if !ranked {
		return err
	}
	reduced, err := c.oneAxis(len(x.Shape), 0)
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(tensor.Int64,
		reducedShape(x.Shape, reduced, c.Attrs.Bool("keepdims", true), Known(1))...)
	return nil
}

// oneAxis marks attribute axis among rank axes.
func (c *Call) oneAxis(rank int, def int64) ([]bool, error) {
	return c.marked([]int64{c.Attrs.Int("axis", def)}, rank)
}

// evalArg finds the index of the largest element (sign 1) or smallest (-1) along the axis: the
// first of equals, or the last with select_last_index. A NaN counts as more extreme than every
// number, as it does to NumPy, by which the ONNX project defines the operators
// (onnx/reference/ops/op_argmax.py).
func (c *Eval) evalArg(sign int) error {
	x := c.In[0]
	if _, err := c.SameDType(numberTypes, x.DType); err != nil {
		return err
	}
	reduced, err := c.oneAxis(x.Rank(), 0)
	if err != nil {
		return err
	}
	axis := slices.Index(reduced, true)
	out, err := c.Output(0, tensor.Int64,
		reducedShape(x.Shape, reduced, c.Attrs.Bool("keepdims", true), 1))
	if err != nil || out.Len() == 0 {
		return err
	}
	if x.Shape[axis] == 0 {
		return c.Errorf(ErrInput, "axis %d of %v has no elements to choose from", axis, x.Shape)
	}
	o, n, inner := tensor.As[int64](out), x.Shape[axis], count(x.Shape[axis+1:])
	last := c.Attrs.Bool("select_last_index", false)
	compare := loopsOf[x.DType].extreme(x, sign)
	for i := range o {
		first := i/inner*n*inner + i%inner
		o[i] = int64(bestOf(n, last, func(k, best int) int {
			return compare(first+k*inner, first+best*inner)
		}))
	}
	return nil
}

// bestOf returns the greatest of the indices below n by their order, of equals the first or the
// last.
func bestOf(n int, last bool, order func(a, b int) int) int {
	best := 0
	for k := 1; k < n; k++ {
		if o := order(k, best); o > 0 || o == 0 && last {
			best = k
		}
	}
	return best
}

// order returns a function that orders two elements of t by their offsets.
func (*loopsOn[T, W]) order(t *tensor.Tensor) func(i, j int) int {
	v := tensor.As[T](t)
	return func(i, j int) int { return cmp.Compare(v[i], v[j]) }
}

// extreme is order, backwards when sign is -1, but that NaNs come last both ways.
func (*loopsOn[T, W]) extreme(t *tensor.Tensor, sign int) func(i, j int) int {
	v := tensor.As[T](t)
	return func(i, j int) int {
		a, b := v[i], v[j]
		switch {
		case a != a && b != b:
			return 0
		case a != a:
			return 1
		case b != b:
			return -1
		}
		return sign * cmp.Compare(a, b)
	}
}

// topK is k as far as it is known.
func (c *Infer) topK() Dim {
	if c.Version < 10 {
		return Known(int(c.Attrs.Int("k", 0)))
	}
	if k := c.Dims(1); len(k) == 1 {
		return k[0]
	}
	return Unknown()
}

func inferTopK(c *Infer) error {
	x, ranked, err := c.PropagateDType(numberTypes)
	c.Out[1] = Unranked(tensor.Int64)
	if !ranked {
		return err
	}
	axis, err := c.Axis(c.Attrs.Int("axis", -1), len(x.Shape))
	if err != nil {
		return err
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = c.topK()
	if n, ok := x.Shape[axis].Int(); ok {
		if k, known := shape[axis].Int(); known && (k < 0 || k > n) {
			return c.Errorf(ErrInput, "k is %d, axis %d of %v has %d elements", k, axis, x, n)
		}
	}
	c.Out[0], c.Out[1] = Ranked(x.DType, shape...), Ranked(tensor.Int64, shape...)
	return nil
}

// topK returns k: an attribute before version 10, an input from then on.
func (c *Eval) topK(axis int) (k int, err error) {
	n, shape := c.Attrs.Int("k", 0), c.In[0].Shape
	if c.Version >= 10 {
		if !c.Has(1) {
			return 0, c.Errorf(ErrInput, "input K is required")
		}
		if n, err = c.Int(1); err != nil {
			return 0, err
		}
	}
	if n < 0 || n > int64(shape[axis]) {
		return 0, c.Errorf(ErrInput, "k is %d, axis %d of %v has %d elements", n, axis, shape,
			shape[axis])
	}
	return int(n), nil
}

// evalTopK gives the k largest elements along the axis (smallest when largest is 0), best first,
// equal ones by index, whether sorted is set or not.
func evalTopK(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(numberTypes, x.DType); err != nil {
		return err
	}
	axis, err := c.Axis(c.Attrs.Int("axis", -1), x.Rank())
	if err != nil {
		return err
	}
	k, err := c.topK(axis)
	if err != nil {
		return err
	}
	shape := slices.Clone(x.Shape)
	shape[axis] = k
	values, err := c.Output(0, x.DType, shape)
	if err != nil {
		return err
	}
	indices, err := c.Output(1, tensor.Int64, shape)
	if err != nil || values.Len() == 0 {
		return err
	}
	c.takeBest(values, indices, axis, k)
	return nil
}

// takeBest sorts each vector along the axis and keeps the first k elements and where they were.
func (c *Eval) takeBest(values, indices *tensor.Tensor, axis, k int) {
	x, sign := c.In[0], 1
	if c.Attrs.Bool("largest", true) {
		sign = -1
	}
	n, inner := x.Shape[axis], count(x.Shape[axis+1:])
	compare, order := loopsOf[x.DType].order(x), make([]int, n)
	for v := range count(x.Shape[:axis]) * inner {
		first, to := v/inner*n*inner+v%inner, v/inner*k*inner+v%inner
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			return sign * compare(first+i*inner, first+j*inner)
		})
		for i := range k {
			copyElems(values, to+i*inner, x, first+order[i]*inner, 1)
			tensor.As[int64](indices)[to+i*inner] = int64(order[i])
		}
	}
}
