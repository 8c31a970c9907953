package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// gatherOps pick elements by computed indices: Gather, GatherElements, GatherND.
var gatherOps = []Op{
	{Name: "Gather", Since: []int{1, 11, 13}, MinIn: 2, MaxIn: 2, Infer: inferGather,
		Eval: evalGather, grad: gradGather},
	{Name: "GatherElements", Since: []int{11, 13}, MinIn: 2, MaxIn: 2, Infer: inferGatherElements,
		Eval: evalGatherElements, grad: gradGatherElements},
	{Name: "GatherND", Since: []int{11, 12, 13}, MinIn: 2, MaxIn: 2, Infer: inferGatherND,
		Eval: evalGatherND, grad: gradGatherND},
}

// index brings an index of an axis of n elements into [0, n); a negative one counts from the end.
func (c *Call) index(v int64, n int) (int, error) {
	if v < -int64(n) || v >= int64(n) {
		return 0, c.Errorf(ErrInput, "index %d is outside an axis of %d", v, n)
	}
	if v < 0 {
		v += int64(n)
	}
	return int(v), nil
}

// indices returns input i as indices into an axis of n elements.
func (c *Eval) indices(i, n int) ([]int, error) {
	v, err := c.Ints(i)
	if err != nil {
		return nil, err
	}
	out := make([]int, len(v))
	for k := range v {
		if out[k], err = c.index(v[k], n); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func inferGather(c *Infer) error {
	data, indices := c.In[0], c.In[1]
	c.Out[0] = Unranked(data.DType)
	if !data.Ranked {
		return nil
	}
	axis, err := c.Axis(c.Attrs.Int("axis", 0), len(data.Shape))
	if err != nil || !indices.Ranked {
		return err
	}
	c.Out[0] = Ranked(data.DType,
		slices.Concat(data.Shape[:axis], indices.Shape, data.Shape[axis+1:])...)
	if data.Elems == nil || len(c.Out[0].Shape) > 1 {
		return nil
	}
	c.Out[0].Elems, err = c.gatheredElems(data.Elems)
	return err
}

// gatheredElems are the elements that input 1 names, nil when that is not known.
func (c *Infer) gatheredElems(from []Dim) ([]Dim, error) {
	at, ok := c.Ints(1)
	if !ok {
		return nil, nil
	}
	elems := make([]Dim, len(at))
	for i, v := range at {
		k, err := c.index(v, len(from))
		if err != nil {
			return nil, err
		}
		elems[i] = from[k]
	}
	return elems, nil
}

func evalGather(c *Eval) error {
	data, indices := c.In[0], c.In[1]
	axis, err := c.Axis(c.Attrs.Int("axis", 0), data.Rank())
	if err != nil {
		return err
	}
	at, err := c.indices(1, data.Shape[axis])
	if err != nil {
		return err
	}
	out, err := c.Output(0, data.DType,
		slices.Concat(data.Shape[:axis], indices.Shape, data.Shape[axis+1:]))
	if err != nil || out.Len() == 0 {
		return err
	}
	outer, inner, n := count(data.Shape[:axis]), count(data.Shape[axis+1:]), data.Shape[axis]
	to := 0
	for o := range outer {
		for _, i := range at {
			copyElems(out, to, data, (o*n+i)*inner, inner)
			to += inner
		}
	}
	return nil
}

func inferGatherElements(c *Infer) error {
	c.Out[0] = Type{DType: c.In[0].DType, Ranked: c.In[1].Ranked, Shape: c.In[1].Shape}
	r, q := c.rank(0), c.rank(1)
	if r < 0 {
		return nil
	}
	if q >= 0 && r != q {
		return c.Errorf(ErrInput, "data %v and indices %v differ in rank", c.In[0], c.In[1])
	}
	_, err := c.Axis(c.Attrs.Int("axis", 0), r)
	return err
}

// alongAxis checks that indices index data elementwise along the axis: same rank, no other axis
// longer.
func (c *Eval) alongAxis(data, indices *tensor.Tensor) (axis int, err error) {
	if data.Rank() != indices.Rank() {
		return 0, c.Errorf(ErrInput, "data %v and indices %v differ in rank", data.Shape,
			indices.Shape)
	}
	if axis, err = c.Axis(c.Attrs.Int("axis", 0), data.Rank()); err != nil {
		return 0, err
	}
	for k, n := range indices.Shape {
		if k != axis && n > data.Shape[k] {
			return 0, c.Errorf(ErrInput, "indices %v are longer than data %v at axis %d",
				indices.Shape, data.Shape, k)
		}
	}
	return axis, nil
}

// placesAlong returns the number of the element of data that each element of indices, which is the
// given input, names.
func (c *Eval) placesAlong(data, indices *tensor.Tensor, input int) ([]int, error) {
	axis, err := c.alongAxis(data, indices)
	if err != nil {
		return nil, err
	}
	places, err := c.indices(input, data.Shape[axis])
	if err != nil {
		return nil, err
	}
	rows := rowMajor(data.Shape)
	idx := make([]int, data.Rank())
	for i, v := range places {
		e := (v - idx[axis]) * rows[axis]
		for k, j := range idx {
			e += j * rows[k]
		}
		places[i] = e
		increment(idx, indices.Shape)
	}
	return places, nil
}

func evalGatherElements(c *Eval) error {
	data, indices := c.In[0], c.In[1]
	places, err := c.placesAlong(data, indices, 1)
	if err != nil {
		return err
	}
	out, err := c.Output(0, data.DType, indices.Shape)
	if err != nil {
		return err
	}
	for i, at := range places {
		copyElems(out, i, data, at, 1)
	}
	return nil
}

// batchDims is the attribute batch_dims of GatherND (opset 12), checked against both ranks.
func batchDims(c *Call, r, q int) (int, error) {
	b := c.Attrs.Int("batch_dims", 0)
	if b < 0 || b >= int64(min(r, q)) {
		return 0, c.Errorf(ErrAttr, "batch_dims %d for ranks %d and %d", b, r, q)
	}
	return int(b), nil
}

func inferGatherND(c *Infer) error {
	data, indices := c.In[0], c.In[1]
	c.Out[0] = Unranked(data.DType)
	if !data.Ranked || !indices.Ranked {
		return nil
	}
	r, q := len(data.Shape), len(indices.Shape)
	b, err := batchDims(c.Call, r, q)
	if err != nil {
		return err
	}
	n, ok := indices.Shape[q-1].Int()
	if !ok {
		return nil
	}
	if n < 1 || n > r-b {
		return c.Errorf(ErrInput, "indices %v into %v", indices, data)
	}
	c.Out[0] = Ranked(data.DType, slices.Concat(indices.Shape[:q-1], data.Shape[b+n:])...)
	return nil
}

// tuples reads input 1, indices of shape [..., n], as numbers of blocks: each tuple of n indices
// names a position in axes of the given sizes.
func (c *Eval) tuples(shape []int) ([]int, error) {
	v, err := c.Ints(1)
	if err != nil {
		return nil, err
	}
	n := len(shape)
	out := make([]int, len(v)/n)
	for i := range out {
		for k, size := range shape {
			j, err := c.index(v[i*n+k], size)
			if err != nil {
				return nil, err
			}
			out[i] = out[i]*size + j
		}
	}
	return out, nil
}

func evalGatherND(c *Eval) error {
	data, indices := c.In[0], c.In[1]
	r, q := data.Rank(), indices.Rank()
	b, err := batchDims(c.Call, r, q)
	if err != nil {
		return err
	}
	n := indices.Shape[q-1]
	if n < 1 || b+n > r || !slices.Equal(data.Shape[:b], indices.Shape[:b]) {
		return c.Errorf(ErrInput, "indices %v into %v", indices.Shape, data.Shape)
	}
	blocks, err := c.tuples(data.Shape[b : b+n])
	if err != nil {
		return err
	}
	out, err := c.Output(0, data.DType, slices.Concat(indices.Shape[:q-1], data.Shape[b+n:]))
	if err != nil || out.Len() == 0 {
		return err
	}
	block, batch := count(data.Shape[b+n:]), count(data.Shape[b:])
	perBatch := len(blocks) / count(data.Shape[:b])
	for i, at := range blocks {
		copyElems(out, i*block, data, i/perBatch*batch+at*block, block)
	}
	return nil
}
