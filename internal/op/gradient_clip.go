package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// ReluGradient is the operator that lets the gradient of Relu through where its result is above 0:
//
//	dx = weir:ReluGradient(dy, y)
//
// y may be in 16 bits beside a gradient of float32, as it is where it has waited for that.
const ReluGradient = "ReluGradient"

var clipGradientOps = []Op{{Domain: FusedDomain, Name: ReluGradient, Since: []int{1}, MinIn: 2,
	MaxIn: 2, Infer: inferAlike, Eval: InFloat32(evalReluGradient), grad: gradReluGradient}}

// besideSaved is the type of what an operator makes of a gradient and of a value that the forward
// half has left: theirs, or float32 where the value has waited in 16 bits.
func (c *Infer) besideSaved(g, saved tensor.DType) (tensor.DType, error) {
	if g == tensor.Float32 && (saved == tensor.BFloat16 || saved == tensor.Float16) {
		return g, nil
	}
	return c.SameDType(floatTypes, g, saved)
}

// inferAlike is the rule of operators whose two operands have one shape, which is the result's.
func inferAlike(c *Infer) error {
	d, err := c.besideSaved(c.In[0].DType, c.In[1].DType)
	if err != nil {
		return err
	}
	a, b := c.In[0], c.In[1]
	if a.Ranked && b.Ranked && !sameSizes(a.Shape, b.Shape) {
		return c.Errorf(ErrInput, "the gradient is %v, the result %v", a, b)
	}
	if !a.Ranked {
		a = b
	}
	c.Out[0] = a.withoutContents()
	c.Out[0].DType = d
	return nil
}

func evalReluGradient(c *Eval) error {
	g, y := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, g.DType, y.DType); err != nil {
		return err
	}
	if !slices.Equal(g.Shape, y.Shape) {
		return c.Errorf(ErrInput, "the gradient has shape %v, the result %v", g.Shape, y.Shape)
	}
	out, err := c.Output(0, g.DType, g.Shape)
	if err != nil {
		return err
	}
	for i := range out.Len() {
		v := 0.0
		if floatAt(y, i) > 0 {
			v = floatAt(g, i)
		}
		setFloat(out, i, v)
	}
	return nil
}

// gradReluGradient: linear in the gradient, constant almost everywhere in the result.
func gradReluGradient(x *gradient) {
	x.zero(1)
	if x.needs(0) {
		x.set(0, x.Ops(FusedDomain, ReluGradient, 1, 1, nil, x.d(0), x.Input(1))[0])
	}
}
