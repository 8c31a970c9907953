package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// scatterOps write elements to computed indices of a copy: ScatterElements, its old name Scatter,
// ScatterND, and TensorScatter, which writes the slices of new tokens into a cache. Sums of float32
// are within 2^-23 of the exact ones, relative to the sum of magnitudes, for up to 2^29 updates of
// one element; those of 16-bit floats are rounded once from as good ones. See [Eval.scatter].
var scatterOps = []Op{
	{Name: "Scatter", Since: []int{9}, MinIn: 3, MaxIn: 3, Infer: inferScatter,
		Eval: evalScatterElements, grad: gradScatterElements},
	{Name: "ScatterElements", Since: []int{11, 13, 16, 18}, MinIn: 3, MaxIn: 3, Infer: inferScatter,
		Eval: evalScatterElements, grad: gradScatterElements},
	{Name: "ScatterND", Since: []int{11, 13, 16, 18}, MinIn: 3, MaxIn: 3, Infer: inferScatter,
		Eval: evalScatterND, grad: gradScatterND},
	{Name: "TensorScatter", Since: []int{24}, MinIn: 2, MaxIn: 3, Infer: inferTensorScatter,
		Eval: evalTensorScatter},
}

func inferScatter(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Type{DType: in.DType, Ranked: in.Ranked, Shape: in.Shape}
	if u := c.In[2].DType; !mayBeSame(u, in.DType) {
		return c.Errorf(ErrInput, "data %v and updates %v differ in type", in, c.In[2])
	}
	return nil
}

// combiner merges n elements of src into dst, each from its own first element on.
type combiner func(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int)

// scatterCombiner is the attribute reduction (opset 16: none, add, mul; 18: max, min) for an
// element type.
func scatterCombiner(c *Call, d tensor.DType) (combiner, error) {
	how := c.Attrs.String("reduction", "none")
	if how == "none" {
		return copyElems, nil
	}
	if !slices.Contains([]string{"add", "mul", "max", "min"}, how) {
		return nil, c.Errorf(ErrAttr, "reduction %q", how)
	}
	switch d {
	case tensor.Float16:
		return combineHalf(how, tensor.Half.Float32, tensor.HalfOf), nil
	case tensor.BFloat16:
		return combineHalf(how, tensor.BHalf.Float32, tensor.BHalfOf), nil
	}
	if l := loopsOf[d]; l != nil {
		return l.combiner(how), nil
	}
	return nil, c.Errorf(ErrUnsupported, "reduction %q of %v", how, d)
}

func (*loopsOn[T, W]) combiner(how string) combiner {
	f := merge[T](how)
	return func(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int) {
		a, b := tensor.As[T](dst)[di:di+n], tensor.As[T](src)[si:si+n]
		for i, v := range b {
			a[i] = f(a[i], v)
		}
	}
}

func combineHalf[T tensor.Half | tensor.BHalf](how string, wide func(T) float32,
	narrow func(float32) T) combiner {
	f := merge[float32](how)
	return func(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int) {
		a, b := tensor.As[T](dst)[di:di+n], tensor.As[T](src)[si:si+n]
		for i, v := range b {
			a[i] = narrow(f(wide(a[i]), wide(v)))
		}
	}
}

func merge[T number](how string) func(a, b T) T {
	switch how {
	case "add":
		return func(a, b T) T { return a + b }
	case "mul":
		return func(a, b T) T { return a * b }
	case "max":
		return func(a, b T) T { return max(a, b) }
	}
	return func(a, b T) T { return min(a, b) }
}

func evalScatterElements(c *Eval) error {
	indices, updates := c.In[1], c.In[2]
	if !slices.Equal(indices.Shape, updates.Shape) {
		return c.Errorf(ErrInput, "indices %v and updates %v differ in shape", indices.Shape,
			updates.Shape)
	}
	places, err := c.placesAlong(c.In[0], indices, 1)
	if err != nil {
		return err
	}
	return c.scatter(places, 1)
}

func evalScatterND(c *Eval) error {
	data, indices, updates := c.In[0], c.In[1], c.In[2]
	r, q := data.Rank(), indices.Rank()
	if q < 1 || indices.Shape[q-1] > r || indices.Shape[q-1] < 1 {
		return c.Errorf(ErrInput, "indices %v into %v", indices.Shape, data.Shape)
	}
	n := indices.Shape[q-1]
	if !slices.Equal(updates.Shape, slices.Concat(indices.Shape[:q-1], data.Shape[n:])) {
		return c.Errorf(ErrInput, "updates %v do not fit indices %v into %v", updates.Shape,
			indices.Shape, data.Shape)
	}
	blocks, err := c.tuples(data.Shape[:n])
	if err != nil {
		return err
	}
	return c.scatter(blocks, count(data.Shape[n:]))
}

// cacheAxis is attribute axis of TensorScatter, which must not be the batch.
func (c *Call) cacheAxis(rank int) (int, error) {
	axis, err := c.Axis(c.Attrs.Int("axis", -2), rank)
	if err == nil && axis == 0 {
		err = c.Errorf(ErrAttr, "axis is 0, the batch")
	}
	return axis, err
}

// circular is attribute mode of TensorScatter: whether positions beyond the end of the cache begin
// again.
func (c *Call) circular() (bool, error) {
	mode := c.Attrs.String("mode", "linear")
	if mode != "linear" && mode != "circular" {
		return false, c.Errorf(ErrAttr, "mode %q, must be linear or circular", mode)
	}
	return mode == "circular", nil
}

func inferTensorScatter(c *Infer) error {
	in, u := c.In[0], c.In[1]
	c.Out[0] = Type{DType: in.DType, Ranked: in.Ranked, Shape: in.Shape}
	if !mayBeSame(u.DType, in.DType) {
		return c.Errorf(ErrInput, "past_cache %v and update %v differ in type", in, u)
	}
	if _, err := c.circular(); err != nil || !in.Ranked {
		return err
	}
	axis, err := c.cacheAxis(len(in.Shape))
	if err != nil || !u.Ranked {
		return err
	}
	if len(u.Shape) != len(in.Shape) {
		return c.Errorf(ErrInput, "update %v does not fit past_cache %v", u, in)
	}
	for k, d := range in.Shape {
		if k != axis && !d.MayEqual(u.Shape[k]) {
			return c.Errorf(ErrInput, "update %v does not fit past_cache %v", u, in)
		}
	}
	return nil
}

// evalTensorScatter writes the update of each batch entry from its write index on.
func evalTensorScatter(c *Eval) error {
	in, u := c.In[0], c.In[1]
	circular, err := c.circular()
	if err != nil {
		return err
	}
	axis, err := c.cacheAxis(in.Rank())
	if err != nil {
		return err
	}
	if u.DType != in.DType || !equalBut(axis, u.Shape, in.Shape) ||
		u.Shape[axis] > in.Shape[axis] {
		return c.Errorf(ErrInput, "update %v%v does not fit past_cache %v%v", u.DType, u.Shape,
			in.DType, in.Shape)
	}
	from, err := c.writeIndices(circular, in.Shape[axis]-u.Shape[axis])
	if err != nil {
		return err
	}
	if err := c.view(in.Shape); err != nil || u.Len() == 0 {
		return err
	}
	writeFrom(c.Out[0], u, axis, from)
	return nil
}

// equalBut reports whether two shapes are the same but for one axis.
func equalBut(axis int, a, b []int) bool {
	return len(a) == len(b) && slices.Equal(a[:axis], b[:axis]) &&
		slices.Equal(a[axis+1:], b[axis+1:])
}

// writeFrom writes an update into a cache along an axis, each batch entry's from its place in from
// on, and beyond the end from the beginning.
func writeFrom(cache, u *tensor.Tensor, axis int, from []int64) {
	most, length, block := cache.Shape[axis], u.Shape[axis], count(cache.Shape[axis+1:])
	rows := count(cache.Shape[:axis])
	for row := range rows {
		at := int(from[row/(rows/cache.Shape[0])])
		for t := range length {
			to := ((at+t)%most + most) % most
			copyElems(cache, (row*most+to)*block, u, (row*length+t)*block, block)
		}
	}
}

// writeIndices returns where each batch entry is written, at most last places from the start unless
// the cache is circular.
func (c *Eval) writeIndices(circular bool, last int) ([]int64, error) {
	batch, size := c.In[0].Shape[0], int64(max(c.In[0].Len(), 1))
	if !c.Has(2) {
		return make([]int64, batch), nil
	}
	v, err := c.Ints(2)
	if err != nil {
		return nil, err
	}
	if len(v) != batch {
		return nil, c.Errorf(ErrInput, "%d write_indices for a batch of %d", len(v), batch)
	}
	for i, at := range v {
		if !circular && (at < 0 || at > int64(last)) {
			return nil, c.Errorf(ErrInput, "write_indices[%d] is %d, must be in [0, %d]", i, at,
				last)
		}
		v[i] = at % size
	}
	return v, nil
}
