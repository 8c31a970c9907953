package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// scatterOps write elements to computed indices of a copy: ScatterElements, its old name Scatter, and ScatterND.
var scatterOps = []Op{
	{Name: "Scatter", Since: []int{9}, MinIn: 3, MaxIn: 3, Infer: inferScatter, Eval: evalScatterElements},
	{Name: "ScatterElements", Since: []int{11, 13, 16, 18}, MinIn: 3, MaxIn: 3, Infer: inferScatter, Eval: evalScatterElements},
	{Name: "ScatterND", Since: []int{11, 13, 16, 18}, MinIn: 3, MaxIn: 3, Infer: inferScatter, Eval: evalScatterND},
}

func inferScatter(c *Infer) error {
	in := c.In[0]
	c.Out[0] = Type{DType: in.DType, Ranked: in.Ranked, Shape: in.Shape}
	if u := c.In[2].DType; u != in.DType && u != tensor.Undefined && in.DType != tensor.Undefined {
		return c.Errorf(ErrInput, "data %v and updates %v differ in type", in, c.In[2])
	}
	return nil
}

// combiner merges n elements of src into dst, each from its own first element on.
type combiner func(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int)

// scatterCombiner is the attribute reduction (opset 16: none, add, mul; 18: max, min) for an element type.
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

func (loopsOn[T, W]) combiner(how string) combiner {
	f := merge[T](how)
	return func(dst *tensor.Tensor, di int, src *tensor.Tensor, si, n int) {
		a, b := tensor.As[T](dst)[di:di+n], tensor.As[T](src)[si:si+n]
		for i, v := range b {
			a[i] = f(a[i], v)
		}
	}
}

func combineHalf[T tensor.Half | tensor.BHalf](how string, wide func(T) float32, narrow func(float32) T) combiner {
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

// scatterInto makes output 0 a copy of input 0 and returns how updates go into it.
func (c *Eval) scatterInto() (combiner, error) {
	data := c.In[0]
	if c.In[2].DType != data.DType {
		return nil, c.Errorf(ErrInput, "data %v and updates %v differ in type", data.DType, c.In[2].DType)
	}
	put, err := scatterCombiner(c.Call, data.DType)
	if err != nil {
		return nil, err
	}
	return put, c.view(data.Shape)
}

func evalScatterElements(c *Eval) error {
	indices, updates := c.In[1], c.In[2]
	if !slices.Equal(indices.Shape, updates.Shape) {
		return c.Errorf(ErrInput, "indices %v and updates %v differ in shape", indices.Shape, updates.Shape)
	}
	put, err := c.scatterInto()
	if err != nil {
		return err
	}
	out := c.Out[0]
	return c.eachAlong(out, indices, 1, func(i, at int) error {
		put(out, at, updates, i, 1)
		return nil
	})
}

func evalScatterND(c *Eval) error {
	data, indices, updates := c.In[0], c.In[1], c.In[2]
	r, q := data.Rank(), indices.Rank()
	if q < 1 || indices.Shape[q-1] > r || indices.Shape[q-1] < 1 {
		return c.Errorf(ErrInput, "indices %v into %v", indices.Shape, data.Shape)
	}
	n := indices.Shape[q-1]
	if !slices.Equal(updates.Shape, slices.Concat(indices.Shape[:q-1], data.Shape[n:])) {
		return c.Errorf(ErrInput, "updates %v do not fit indices %v into %v", updates.Shape, indices.Shape, data.Shape)
	}
	blocks, err := c.tuples(data.Shape[:n])
	if err != nil {
		return err
	}
	put, err := c.scatterInto()
	if err != nil || updates.Len() == 0 {
		return err
	}
	block := count(data.Shape[n:])
	for i, at := range blocks {
		put(c.Out[0], at*block, updates, i*block, block)
	}
	return nil
}
