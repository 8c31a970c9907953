package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// fusedGrid is numbers rounded as to integers, of which no integers are stored: weir:Grid(x, scale,
// zero) is DequantizeLinear(QuantizeLinear(x, scale, zero), scale, zero), both of ONNX 21, where x
// and scale are float32 and attribute axis is theirs.
var fusedGrid = []Op{{Domain: FusedDomain, Name: "Grid", Since: []int{1}, MinIn: 3, MaxIn: 3,
	Infer: inferGrid, Eval: evalGrid}}

// gridParts are the calls of both operators that Grid stands for.
//
//go:noinline
func (c *Call) gridParts() (there, back *Call) {
	there = &Call{Type: "QuantizeLinear", Version: 21, Attrs: c.Attrs, NumIn: 3, NumOut: 1}
	back = &Call{Type: "DequantizeLinear", Version: 21, Attrs: c.Attrs, NumIn: 3, NumOut: 1}
	return there, back
}

func inferGrid(c *Infer) error {
	if !mayBeSame(c.In[0].DType, tensor.Float32) || !mayBeSame(c.In[1].DType, tensor.Float32) {
		return c.Errorf(ErrInput, "inputs 0 and 1 are %v and %v, must be float32", c.In[0].DType,
			c.In[1].DType)
	}
	there, _ := c.gridParts()
	if err := inferQuantize(&Infer{Call: there, In: c.In, Present: c.Present,
		Out: c.Out}); err != nil {
		return err
	}
	c.Out[0] = Type{DType: tensor.Float32, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return nil
}

func evalGrid(c *Eval) error {
	if a, b := c.In[0].DType, c.In[1].DType; a != tensor.Float32 || b != tensor.Float32 {
		return c.Errorf(ErrInput, "inputs 0 and 1 are %v and %v, must be float32", a, b)
	}
	there, back := c.gridParts()
	q := &Eval{Call: there, Ctx: c.Ctx, In: c.In, Out: make([]*tensor.Tensor, 1)}
	if err := evalQuantize(q); err != nil {
		return err
	}
	d := &Eval{Call: back, Ctx: c.Ctx, In: []*tensor.Tensor{q.Out[0], c.In[1], c.In[2]},
		Out: c.Out, Alloc: c.Alloc}
	return evalDequantize(d)
}

// gridFunction is activation Grid: x divided by scale, limited to lo and hi and rounded to an
// integer, ties to even, times scale, all in float32; NaN becomes lo. With the least and the
// greatest integer of a type, less the zero point, for lo and hi it is weir:Grid on one scale.
func gridFunction(scale, lo, hi float64) FusedActivation {
	return func(x float64) float64 {
		q := float64(float32(x) / float32(scale))
		if !(q > lo) {
			q = lo
		}
		q = math.RoundToEven(min(q, hi)) + 0 // +0 of -0
		return float64(float32(q) * float32(scale))
	}
}
