package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// gradResize: along each axis a result is a weighted sum of elements, the same for all other axes:
// a product with a matrix. The gradient is the product with its transpose. What the operator makes
// up outside of the image does not depend on it.
func gradResize(x *gradient) {
	for i := 1; i < x.NumIn; i++ {
		x.refuse(i, "region, scales and sizes of a resize")
	}
	if !x.needs(0) {
		return
	}
	r, t, in := x.resizeTarget()
	g := x.wide(x.d(0))
	for a := range in {
		if x.Err == nil && !t.as(a, in[a], &r) {
			matrix := r.matrix(a, in[a], t)
			g = x.productAlong(g, int64(a), x.Cast(x.Constant(matrix), x.DType(g)))
		}
	}
	x.set(0, x.Cast(g, x.DType(x.Input(0))))
}

// resizeTarget is what a call resizes to, and the sizes of its operand. Axes that keep their size
// need not be known: they count as one element.
func (x *gradient) resizeTarget() (r resizing, t target, in []int) {
	r, err := newResizing(x.Call)
	shape, out := x.Shape(x.Input(0)), x.Shape(x.out(0))
	axes, err2 := x.resizeAxes(len(shape))
	if x.Err = firstError(x.Err, err, err2); x.Err != nil {
		return r, t, nil
	}
	scales, sizes := x.resizeGiven()
	in = x.inputSizes(shape, out, axes, sizes)
	for _, n := range sizes {
		if n < 0 {
			x.Later()
		}
	}
	if x.Err != nil {
		return r, t, in
	}
	t, err = x.resizeTo(r, in, axes, scales, sizes)
	x.Err = firstError(x.Err, err)
	if x.Err == nil {
		t.roi, x.Err = x.resizeROI(r, axes, len(in))
	}
	return r, t, in
}

// inputSizes are the sizes of the input. One that is not known and stays as it is counts as 1, as
// it then does in sizes, which are those of axes.
func (x *gradient) inputSizes(shape, out []Dim, axes []int, sizes []int64) []int {
	in := make([]int, len(shape))
	for a, d := range shape {
		n, ok := d.Int()
		if !ok && d.Equal(out[a]) {
			n, ok = 1, true
			if i := slices.Index(axes, a); i >= 0 && i < len(sizes) {
				sizes[i] = 1
			}
		}
		if in[a] = n; !ok {
			x.Later()
		}
	}
	return in
}

// resizeGiven are the scales or the sizes of the call, -1 for a size that is not known.
func (x *gradient) resizeGiven() (scales []float32, sizes []int64) {
	_, at, sizesAt := x.resizeInputs()
	if at < 0 {
		return x.Attrs.Floats("scales"), nil
	}
	if v := x.Input(at); v != Absent {
		c := x.contents(v)
		if c == nil {
			return nil, nil
		}
		scales, err := x.scalesOf(c)
		x.Err = firstError(x.Err, err)
		if len(scales) > 0 {
			return scales, nil
		}
	}
	if sizesAt < 0 || x.Input(sizesAt) == Absent {
		return nil, nil
	}
	infer := &Infer{Call: x.Call, In: x.b.In, Present: x.b.Present}
	return nil, knownOrNegative(infer.Dims(sizesAt))
}

// knownOrNegative gives dimensions as integers, -1 for one that is not known.
func knownOrNegative(dims []Dim) []int64 {
	out := make([]int64, len(dims))
	for i, d := range dims {
		out[i] = -1
		if n, ok := d.Int(); ok {
			out[i] = int64(n)
		}
	}
	return out
}

// contents is the constant that a value is; the rule has to wait when it is none.
func (x *gradient) contents(v Var) *tensor.Tensor {
	if c := x.TypeOf(v).Const; c != nil {
		return c
	}
	x.Later()
	return nil
}

// resizeROI is the region of interest, as [Eval.resizeROI] reads it.
func (x *gradient) resizeROI(r resizing, axes []int, rank int) ([][2]float64, error) {
	e := &Eval{Call: x.Call, In: make([]*tensor.Tensor, x.NumIn)}
	e.In[0] = &tensor.Tensor{Shape: make([]int, rank)}
	if at, _, _ := x.resizeInputs(); at > 0 && r.coordinate == "tf_crop_and_resize" &&
		x.Input(at) != Absent {
		if e.In[at] = x.contents(x.Input(at)); x.Err != nil {
			return nil, x.Err
		}
	}
	return e.resizeROI(r, axes)
}

// matrix is what a resize does along axis a of n elements: a row of weights a result.
func (r *resizing) matrix(a, n int, t target) *tensor.Tensor {
	size := t.size[a]
	w := make([]float64, size*n)
	if r.mode == "nearest" {
		for i, from := range r.nearestOn(a, n, t) {
			if from >= 0 {
				w[i*n+from] = 1
			}
		}
		return tensor.From(w, size, n)
	}
	for i, c := range r.contributions(n, size, t.scale[a], t.roi[a]) {
		if c.outside {
			continue
		}
		for k, from := range c.index {
			w[i*n+from] += c.weight[k]
		}
	}
	return tensor.From(w, size, n)
}

// productAlong multiplies v along one of its axes by a matrix, whose rows are as many as the axis
// has elements.
func (x *gradient) productAlong(v Var, axis int64, matrix Var) Var {
	perm := axesBetween(0, x.Rank(v))
	if x.Err != nil {
		return Absent
	}
	last := int64(len(perm)) - 1
	perm[axis], perm[last] = last, axis // its own inverse
	return x.Transpose(x.Op("MatMul", nil, x.Transpose(v, perm...), matrix), perm...)
}
