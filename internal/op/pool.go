package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// pool holds the operators that reduce a sliding window, or the whole plane, of each channel. X is
// N × C × spatial.
var pool = []Op{
	{Name: "MaxPool", Since: []int{1, 8, 10, 11, 12, 22}, MinIn: 1, MaxIn: 1, MinOut: 1, MaxOut: 2,
		Infer: inferPool,
		Eval:  InFloat32(evalMaxPool), Flops: poolFlops, grad: gradMaxPool},
	{Name: "AveragePool", Since: []int{7, 10, 11, 19, 22}, MinIn: 1, MaxIn: 1, Infer: inferPool,
		Eval: InFloat32(evalAveragePool), Flops: poolFlops, grad: gradAveragePool},
	{Name: "LpPool", Since: []int{1, 2, 11, 18, 22}, MinIn: 1, MaxIn: 1, Infer: inferPool,
		Eval:  InFloat32(evalLpPool),
		Flops: poolFlops},
	{Name: "MaxUnpool", Since: []int{9, 11, 22}, MinIn: 2, MaxIn: 3, Infer: inferUnpool,
		Eval: InFloat32(evalUnpool)},
	globalPool("GlobalMaxPool", func(*Call) (func([]float64) float64, error) {
		return refmath.Max, nil
	}, 1, 22).derived(gradGlobalMaxPool),
	globalPool("GlobalAveragePool", func(*Call) (func([]float64) float64, error) {
		return mean, nil
	}, 1, 22).derived(gradGlobalAveragePool),
	globalPool("GlobalLpPool", func(c *Call) (func([]float64) float64, error) {
		p, err := c.normOrder()
		return func(v []float64) float64 { return lpNorm(v, p) }, err
	}, 1, 2, 22),
}

// inferPool shapes Y, and Indices (int64) where asked for. MaxPool takes 8-bit integers since
// version 12.
func inferPool(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes | byteTypes)
	if err != nil {
		return err
	}
	if ranked {
		out, err := c.pooled()
		if err != nil {
			return err
		}
		c.Out[0] = Ranked(x.DType, out...)
	}
	if len(c.Out) > 1 {
		c.Out[1] = c.Out[0]
		c.Out[1].DType = tensor.Int64
	}
	return nil
}

// windowOfX is the window over the spatial axes of X, whose rank is known.
func (c *Infer) windowOfX() (Window, error) {
	rank, err := c.convSpatial()
	if err != nil {
		return Window{}, err
	}
	return c.PoolWindow(rank)
}

// pooled is the shape of a pooled input of known rank.
func (c *Infer) pooled() ([]Dim, error) {
	w, err := c.windowOfX()
	if err != nil {
		return nil, err
	}
	return w.outDims(c.Call, c.In[0].Shape)
}

// PoolWindow reads the window of a pooling over rank spatial axes (MaxPool, AveragePool, LpPool and
// MaxUnpool of ONNX): kernel_shape, which is required, ceil_mode, which counts only where auto_pad
// is NOTSET, and the attributes that [Call.Window] reads. Errors are of kind [ErrAttr].
func (c *Call) PoolWindow(rank int) (Window, error) {
	if !c.Attrs.Has("kernel_shape") {
		return Window{}, c.Errorf(ErrAttr, "kernel_shape is required")
	}
	kernel, err := c.sizesAttr("kernel_shape", rank, 1, 1)
	if err != nil {
		return Window{}, err
	}
	w, err := c.Window(kernel)
	// VALID keeps whole windows only; SAME rounds up whatever ceil_mode says.
	w.Ceil = w.Auto == "NOTSET" && c.Attrs.Bool("ceil_mode", false)
	return w, err
}

// pooling is one checked pooling on concrete shapes.
type pooling struct {
	Window
	in, out []int // spatial
	planes  int   // N·C
	y       *tensor.Tensor
}

func newPooling(c *Eval, types TypeSet) (p pooling, err error) {
	x := c.In[0]
	if _, err := c.SameDType(types, x.DType); err != nil {
		return p, err
	}
	if x.Rank() < 3 {
		return p, c.Errorf(ErrInput, "X %v must be N × C × at least one spatial axis", x.Shape)
	}
	p.in = x.Shape[2:]
	if p.Window, err = c.PoolWindow(len(p.in)); err != nil {
		return p, err
	}
	if p.out, err = p.Place(c.Call, p.in); err != nil {
		return p, err
	}
	p.planes = x.Shape[0] * x.Shape[1]
	p.y, err = c.Output(0, x.DType, append(slices.Clone(x.Shape[:2]), p.out...))
	return p, err
}

// each calls f once for each output position of a plane, with the offsets in the plane that its
// window reads.
func (p *pooling) each(f func(at int, place, taps []int)) {
	if p.y.Len() == 0 {
		return
	}
	place := make([]int, len(p.out))
	var taps []int
	for at := range count(p.out) {
		taps = taps[:0]
		p.inside(place, p.in, func(_, offset int) { taps = append(taps, offset) })
		f(at, place, taps)
		increment(place, p.out)
	}
}

// poolIndices makes output 1, nil when it is not asked for.
func (c *Eval) poolIndices(shape []int) ([]int64, error) {
	if !c.Want(1) {
		return nil, nil
	}
	t, err := c.Output(1, tensor.Int64, shape)
	if err != nil {
		return nil, err
	}
	return tensor.As[int64](t), nil
}

func evalMaxPool(c *Eval) error {
	p, err := newPooling(c, floatTypes|byteTypes)
	if err != nil {
		return err
	}
	indices, err := c.poolIndices(p.y.Shape)
	if err != nil {
		return err
	}
	column := c.Attrs.Int("storage_order", 0) == 1
	switch c.In[0].DType {
	case tensor.Float32:
		maxPool(&p, tensor.As[float32](p.y), tensor.As[float32](c.In[0]), float32(math.Inf(-1)),
			indices, column)
	case tensor.Float64:
		maxPool(&p, tensor.As[float64](p.y), tensor.As[float64](c.In[0]), math.Inf(-1), indices,
			column)
	case tensor.Int8:
		maxPool(&p, tensor.As[int8](p.y), tensor.As[int8](c.In[0]), math.MinInt8, indices, column)
	case tensor.Uint8:
		maxPool(&p, p.y.Data, c.In[0].Data, 0, indices, column)
	}
	return nil
}

// maxPool takes the largest element under each window, the first of equals. indices, when not nil,
// receives its position in the whole tensor, the plane counted in column-major order when column is
// set.
func maxPool[T number](p *pooling, y, x []T, least T, indices []int64, column bool) {
	plane, places := count(p.in), count(p.out)
	p.each(func(at int, _, taps []int) {
		for c := range p.planes {
			v := x[c*plane:]
			best, found := least, -1
			for _, t := range taps {
				if a := v[t]; a > best || found < 0 || a != a {
					best, found = a, t
				}
			}
			y[c*places+at] = best
			if indices != nil {
				indices[c*places+at] = int64(c*plane + order(found, p.in, column))
			}
		}
	})
}

// order converts a row-major offset to a column-major one when asked to.
func order(offset int, shape []int, column bool) int {
	if !column || offset < 0 {
		return offset
	}
	index := make([]int, len(shape))
	unravel(index, shape, offset)
	at := 0
	for i := len(shape) - 1; i >= 0; i-- {
		at = at*shape[i] + index[i]
	}
	return at
}

// poolFloats computes each output element from the elements under its window and the number of taps
// that count: those inside the input, or, with count_include_pad, inside the padded input.
func (c *Eval) poolFloats(p *pooling, f func(v []float64, taps int) float64) {
	includePad := c.Attrs.Bool("count_include_pad", false)
	plane, places := count(p.in), count(p.out)
	var v []float64
	p.each(func(at int, place, taps []int) {
		n := len(taps)
		if includePad {
			n = p.padded(place, p.in)
		}
		for ch := range p.planes {
			v = v[:0]
			for _, t := range taps {
				v = append(v, floatAt(c.In[0], ch*plane+t))
			}
			setFloat(p.y, ch*places+at, f(v, n))
		}
	})
}

// floatAt returns element i of a float32 or float64 tensor.
func floatAt(t *tensor.Tensor, i int) float64 {
	if t.DType == tensor.Float64 {
		return tensor.As[float64](t)[i]
	}
	return float64(tensor.As[float32](t)[i])
}

// evalAveragePool divides by the taps inside the input, or, with count_include_pad, inside the
// padded input.
func evalAveragePool(c *Eval) error {
	p, err := newPooling(c, floatTypes)
	if err != nil {
		return err
	}
	c.poolFloats(&p, func(v []float64, taps int) float64 { return sumOf(v) / float64(taps) })
	return nil
}

func evalLpPool(c *Eval) error {
	p, err := newPooling(c, floatTypes)
	if err != nil {
		return err
	}
	order, err := c.normOrder()
	if err != nil {
		return err
	}
	c.poolFloats(&p, func(v []float64, _ int) float64 { return lpNorm(v, order) })
	return nil
}

// normOrder reads attribute p of the Lp operators, which was no integer in version 1.
func (c *Call) normOrder() (float64, error) {
	p := float64(c.Attrs.Int("p", 2))
	if c.Version < 2 {
		p = c.attr("p", 2)
	}
	if !(p >= 1) {
		return 0, c.Errorf(ErrAttr, "p is %v, must be at least 1", p)
	}
	return p, nil
}

func lpNorm(v []float64, p float64) float64 {
	s := 0.0
	for _, x := range v {
		s += math.Pow(math.Abs(x), p)
	}
	return math.Pow(s, 1/p)
}

func sumOf(v []float64) float64 {
	s := 0.0
	for _, x := range v {
		s += x
	}
	return s
}

func mean(v []float64) float64 { return sumOf(v) / float64(len(v)) }

// poolFlops counts one operation a tap.
func poolFlops(c *Call, _, out []Type) int64 {
	w, err := c.PoolWindow(max(len(out[0].Shape)-2, 0))
	if err != nil {
		return 0
	}
	taps, err := tensor.Count(w.Kernel)
	if err != nil {
		return 0
	}
	return int64(taps) * out[0].Elements()
}

// globalPool is the row of an operator that reduces each plane to one element.
func globalPool(name string, of func(*Call) (func([]float64) float64, error), since ...int) Op {
	return Op{Name: name, Since: since, MinIn: 1, MaxIn: 1, Infer: inferGlobalPool,
		Eval: InFloat32(func(c *Eval) error {
			f, err := of(c.Call)
			if err != nil {
				return err
			}
			return c.evalGlobalPool(f)
		}),
		Flops: func(_ *Call, in, _ []Type) int64 { return in[0].Elements() }}
}

func inferGlobalPool(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes)
	if !ranked {
		return err
	}
	if len(x.Shape) < 2 {
		return c.Errorf(ErrInput, "X %v must be N × C × spatial", x)
	}
	out := slices.Repeat([]Dim{Known(1)}, len(x.Shape))
	copy(out, x.Shape[:2])
	c.Out[0] = Ranked(x.DType, out...)
	return nil
}

func (c *Eval) evalGlobalPool(f func([]float64) float64) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	if x.Rank() < 2 {
		return c.Errorf(ErrInput, "X %v must be N × C × spatial", x.Shape)
	}
	shape := slices.Repeat([]int{1}, x.Rank())
	copy(shape, x.Shape[:2])
	out, err := c.Output(0, x.DType, shape)
	if err != nil || out.Len() == 0 {
		return err
	}
	plane := make([]float64, count(x.Shape[2:]))
	for i := range out.Len() {
		for k := range plane {
			plane[k] = floatAt(x, i*len(plane)+k)
		}
		setFloat(out, i, f(plane))
	}
	return nil
}

// unpooled is the shape of a tensor from which MaxPool, with the attributes of this call, makes one
// of the shape of X.
func (c *Infer) unpooled() ([]Dim, error) {
	w, err := c.windowOfX()
	if err != nil {
		return nil, err
	}
	out := slices.Clone(c.In[0].Shape)
	for i := range w.Kernel {
		out[i+2] = out[i+2].AddInt(-1).MulInt(w.Stride[i]).
			AddInt(w.extent(i) - w.Begin[i] - w.End[i])
	}
	return out, c.checkDims(out)
}

// inferUnpool shapes Y as input output_shape says, else as [Infer.unpooled].
func inferUnpool(c *Infer) error {
	x, ranked, err := c.PropagateDType(floatTypes)
	if !ranked {
		return err
	}
	out, err := c.unpooled()
	if err != nil {
		return err
	}
	if c.Has(2) {
		given := c.Dims(2)
		if given != nil && len(given) != len(out) {
			return c.Errorf(ErrInput, "output_shape has %d elements, must have %d", len(given),
				len(out))
		}
		if out = given; out == nil {
			out = unknownDims(len(x.Shape))
		}
	}
	c.Out[0] = Ranked(x.DType, out...)
	return c.checkDims(out)
}

// evalUnpool puts each element where input 1, the Indices of MaxPool, says, and 0 elsewhere. The
// indices count in the unpooled shape; a larger output_shape adds zeros at the end of each axis.
func evalUnpool(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	inner, err := c.unpooled()
	if err != nil {
		return err
	}
	shape, err := c.unpoolShape(inner)
	if err != nil {
		return err
	}
	at, err := c.Ints(1)
	if err != nil {
		return err
	}
	if len(at) != x.Len() {
		return c.Errorf(ErrInput, "%d indices for X %v", len(at), x.Shape)
	}
	return c.spread(at, inner, shape)
}

// unpooled is [Infer.unpooled] for the shape of X.
func (c *Eval) unpooled() ([]int, error) {
	x := Concrete(c.In[0].DType, c.In[0].Shape...)
	dims, err := (&Infer{Call: c.Call, In: []Type{x}, Present: []bool{true}}).unpooled()
	if err != nil {
		return nil, err
	}
	inner, ok := Ranked(x.DType, dims...).Ints()
	if !ok {
		return nil, c.Errorf(ErrInput, "unpooled size of X %v overflows", x)
	}
	return inner, nil
}

// unpoolShape is input output_shape, which must hold the unpooled shape, or that shape.
func (c *Eval) unpoolShape(inner []int) ([]int, error) {
	if !c.Has(2) {
		return inner, nil
	}
	shape, err := c.sizesInput(2)
	if err != nil {
		return nil, err
	}
	larger := len(shape) == len(inner)
	for i := range inner {
		larger = larger && shape[i] >= inner[i]
	}
	if !larger {
		return nil, c.Errorf(ErrInput, "output_shape %v does not hold the unpooled shape %v", shape,
			inner)
	}
	return shape, nil
}

// spread makes output 0, zeros of the given shape, and puts element i of input 0 into the corner of
// it that has shape inner, at position at[i] of that corner, counted row by row. A position outside
// the corner is an error of kind [ErrInput].
func (c *Eval) spread(at []int64, inner, shape []int) error {
	out, err := c.ZeroOutput(0, c.In[0].DType, shape)
	if err != nil {
		return err
	}
	limit, err := tensor.Count(inner)
	if err != nil {
		return err
	}
	index, stride := make([]int, len(inner)), rowMajor(shape)
	for i, k := range at {
		if k < 0 || k >= int64(limit) {
			return c.Errorf(ErrInput, "index %d is outside %v", k, inner)
		}
		unravel(index, inner, int(k))
		to := 0
		for a, x := range index {
			to += x * stride[a]
		}
		setFloat(out, to, floatAt(c.In[0], i))
	}
	return nil
}
