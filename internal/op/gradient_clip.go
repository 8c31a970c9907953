package op

import "slices"

// ReluGradient is the operator that lets the gradient of Relu through where its result is above 0:
//
//	dx = weir:ReluGradient(dy, y)
const ReluGradient = "ReluGradient"

var clipGradientOps = []Op{{Domain: FusedDomain, Name: ReluGradient, Since: []int{1}, MinIn: 2,
	MaxIn: 2, Infer: inferAlike, Eval: InFloat32(evalReluGradient), grad: gradReluGradient}}

// inferAlike is the rule of operators whose two operands have one shape, which is the result's.
func inferAlike(c *Infer) error {
	d, err := c.SameDType(floatTypes, c.In[0].DType, c.In[1].DType)
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
