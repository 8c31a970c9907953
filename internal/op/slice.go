package op

import (
	"math"

	"github.com/weirgpu/weir/internal/strided"
)

// sliceOps cut regular parts out of tensors.
var sliceOps = []Op{
	{Name: "Slice", Since: []int{1, 10, 11, 13}, MinIn: 1, MaxIn: 5, Infer: inferSlice,
		Eval: evalSlice, grad: gradSlice},
}

// sliceArgs are the four lists of Slice, one entry an axis that is cut.
type sliceArgs struct{ starts, ends, axes, steps []int64 }

// complete checks the lengths and fills in the defaults: the first axes, steps of 1.
func (a *sliceArgs) complete(c *Call) error {
	n := len(a.starts)
	if a.axes == nil {
		a.axes = AllAxes(n)
	}
	if a.steps == nil {
		a.steps = make([]int64, n)
		for i := range a.steps {
			a.steps[i] = 1
		}
	}
	if len(a.ends) != n || len(a.axes) != n || len(a.steps) != n {
		return c.Errorf(ErrInput, "%d starts, %d ends, %d axes, %d steps", n, len(a.ends),
			len(a.axes), len(a.steps))
	}
	for _, s := range a.steps {
		if s == 0 {
			return c.Errorf(ErrInput, "step 0")
		}
	}
	return nil
}

// sliceSpan clamps start and end of a cut to an axis of the given size, as ONNX says for either
// sign of the step, and returns the first index and how many there are.
func sliceSpan(size int, start, end, step int64) (first, n int) {
	d := int64(size)
	lo, hi := int64(0), d
	if step < 0 {
		lo, hi = -1, d-1
	}
	clamp := func(v int64) int64 {
		if v < 0 {
			v += d
		}
		return min(max(v, lo), hi)
	}
	start, end = clamp(start), clamp(end)
	dist := end - start
	if step < 0 {
		dist, step = -dist, negate(step)
	}
	if dist <= 0 {
		return 0, 0
	}
	return int(start), int((dist-1)/step) + 1
}

// negate is -v without overflow: no axis tells the two largest steps apart.
func negate(v int64) int64 { return -max(v, -math.MaxInt64) }

func evalSlice(c *Eval) error {
	a, err := c.sliceArgs()
	if err != nil {
		return err
	}
	in := c.In[0]
	axes, err := c.axes(a.axes, in.Rank())
	if err != nil {
		return err
	}
	shape := append([]int{}, in.Shape...)
	from := strided.RowMajor(in.Shape)
	for i, k := range axes {
		first, n := sliceSpan(in.Shape[k], a.starts[i], a.ends[i], a.steps[i])
		shape[k] = n
		from.Offset += first * from.Strides[k]
		if n > 1 {
			from.Strides[k] *= int(a.steps[i])
		}
	}
	out, err := c.Output(0, in.DType, shape)
	if err != nil {
		return err
	}
	return strided.Copy(out, strided.RowMajor(shape), in, from, shape)
}

// sliceArgs reads the lists, which are attributes before opset 10.
func (c *Eval) sliceArgs() (a sliceArgs, err error) {
	if c.Version < 10 {
		a = sliceArgs{starts: c.Attrs.Ints("starts"), ends: c.Attrs.Ints("ends"),
			axes: c.Attrs.Ints("axes")}
		return a, a.complete(c.Call)
	}
	for i, p := range []*[]int64{&a.starts, &a.ends, &a.axes, &a.steps} {
		if !c.Has(i + 1) {
			if i < 2 {
				return a, c.Errorf(ErrInput, "input %d is required", i+1)
			}
			continue
		}
		if *p, err = c.Ints(i + 1); err != nil {
			return a, err
		}
	}
	return a, a.complete(c.Call)
}

func inferSlice(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Unranked(in.DType)
	if !in.Ranked {
		return nil
	}
	a, ok := c.sliceDims()
	if !ok {
		c.Out[0] = Ranked(in.DType, unknownDims(len(in.Shape))...)
		c.keepUncut(in)
		return nil
	}
	whole := sliceArgs{starts: make([]int64, len(a.starts)), ends: make([]int64, len(a.ends)),
		axes: a.axes, steps: a.steps}
	if err := whole.complete(c.Call); err != nil {
		return err
	}
	axes, err := c.axes(whole.axes, len(in.Shape))
	if err != nil {
		return err
	}
	shape := append([]Dim{}, in.Shape...)
	for i, k := range axes {
		shape[k] = sliceDim(in.Shape[k], a.starts[i], a.ends[i], whole.steps[i])
	}
	c.Out[0] = Ranked(in.DType, shape...)
	if len(shape) == 1 && in.Elems != nil {
		c.Out[0].Elems = sliceElems(in.Elems, a, whole.steps)
	}
	return nil
}

// keepUncut keeps the axes that a slice of unknown bounds is known not to touch.
func (c *Infer) keepUncut(in Type) {
	if c.Version < 10 || !c.Has(3) {
		return
	}
	as, known := c.Ints(3)
	if !known {
		return
	}
	axes, err := c.axes(as, len(in.Shape))
	if err != nil {
		return
	}
	cut := make([]bool, len(in.Shape))
	for _, k := range axes {
		cut[k] = true
	}
	for k, d := range in.Shape {
		if !cut[k] {
			c.Out[0].Shape[k] = d
		}
	}
}

// sliceExprs are the lists of Slice as far as they are known: bounds as expressions, axes and steps
// as integers.
type sliceExprs struct {
	starts, ends []Dim
	axes, steps  []int64
}

func (c *Infer) sliceDims() (a sliceExprs, ok bool) {
	if c.Version < 10 {
		a.starts, a.ends, a.axes = exprs(c.Attrs.Ints("starts")), exprs(c.Attrs.Ints("ends")),
			c.Attrs.Ints("axes")
		return a, true
	}
	a.starts, a.ends = c.Dims(1), c.Dims(2)
	ok = a.starts != nil && a.ends != nil
	for i, p := range []*[]int64{&a.axes, &a.steps} {
		if c.Has(i + 3) {
			v, known := c.Ints(i + 3)
			*p, ok = v, ok && known
		}
	}
	return a, ok
}

func exprs(v []int64) []Dim {
	out := make([]Dim, len(v))
	for i, n := range v {
		out[i] = Known(int(n))
	}
	return out
}

// farEnd is the smallest end that means "to the end" in exported models, which write the largest
// int32 or int64.
const farEnd = math.MaxInt32

// sliceDim is the size of an axis after a cut: exact when all of it is known, an expression that
// holds for every size of the symbols otherwise. An axis is taken to be no longer than farEnd.
func sliceDim(d, start, end Dim, step int64) Dim {
	size, dk := d.Int()
	s, sk := start.Int()
	e, ek := end.Int()
	if dk && sk && ek {
		_, n := sliceSpan(size, int64(s), int64(e), step)
		return Known(n)
	}
	if step < 0 {
		if sk && ek && (s == -1 || s >= farEnd) && e <= -farEnd {
			return d.CeilDiv(int(negate(step)))
		}
		return Unknown()
	}
	return sliceLength(d, start, end).CeilDiv(int(step))
}

// sliceLength is how many places a slice with steps forward spans.
func sliceLength(d, start, end Dim) Dim {
	s, sk := start.Int()
	e, ek := end.Int()
	switch far := ek && e >= farEnd; {
	case far && sk && s < 0:
		return d.least(Known(int(negate(int64(s)))))
	case far && sk && s < farEnd:
		return d.AddInt(-s).orZero()
	case ek && e < 0 && sk && s >= 0 && s < farEnd:
		return d.AddInt(e).AddInt(-s).orZero()
	}
	return sliceBound(d, end).Sub(sliceBound(d, start)).orZero()
}

// sliceBound is where a bound of a cut lies on an axis of size d: within [0, d], counted from the
// end when it is negative.
func sliceBound(d, bound Dim) Dim {
	n, known := bound.Int()
	switch {
	case known && n >= farEnd:
		return d
	case known && n < 0:
		return d.AddInt(n).orZero()
	case bound.nonNegative():
		return d.least(bound)
	case d.IsUnknown() || bound.IsUnknown():
		return Unknown()
	}
	return opaque("bound(%v, %v)", d, bound)
}

func sliceElems(in []Dim, a sliceExprs, steps []int64) []Dim {
	out := in
	for i := range steps {
		s, ok := a.starts[i].Int()
		e, ok2 := a.ends[i].Int()
		if !ok || !ok2 {
			return nil
		}
		first, n := sliceSpan(len(in), int64(s), int64(e), steps[i])
		out = make([]Dim, n)
		for j := range out {
			out[j] = in[first+j*int(steps[i])]
		}
	}
	return out
}
