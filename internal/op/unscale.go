package op

import "math"

// Unscale is the operator that takes the scale of a loss out of the gradient of a weight, as
// torch.amp.GradScaler.unscale_ does:
//
//	y, largest = weir:Unscale(g, scale)    y = g / scale
//
// The scale is a number of the type of g. Result largest, optional, is the greatest magnitude in g,
// before it is unscaled: infinite or NaN where an element of g is, NaN of the two, and 0 without
// elements. In a step of training it is the mark between gradients, which mixed precision may
// round, and optimizers, which it leaves alone.
const Unscale = "Unscale"

var unscaleOps = []Op{{Domain: FusedDomain, Name: Unscale, Since: []int{1}, MinIn: 2, MaxIn: 2,
	MinOut: 1, MaxOut: 2, Infer: inferUnscale, Eval: InFloat32(evalUnscale), grad: gradUnscale}}

func inferUnscale(c *Infer) error {
	d, err := c.SameDType(floatTypes, c.In[0].DType, c.In[1].DType)
	if err != nil {
		return err
	}
	if s := c.In[1]; s.Ranked && len(s.Shape) > 0 {
		return c.Errorf(ErrInput, "the scale is %v, must be a number", s)
	}
	c.Out[0] = c.In[0].withoutContents()
	c.Out[0].DType = d
	if len(c.Out) > 1 {
		c.Out[1] = Ranked(d)
	}
	return nil
}

func evalUnscale(c *Eval) error {
	g := c.In[0]
	scale, err := c.unscaling()
	if err != nil {
		return err
	}
	y, err := c.Output(0, g.DType, g.Shape)
	if err != nil {
		return err
	}
	var most float64
	unaryFuncs{f: func(v float64) float64 {
		most = max(most, math.Abs(v))
		return v / scale
	}}.apply(y, g)
	if !c.Want(1) {
		return nil
	}
	if most != most {
		most = math.NaN() // whichever of several it was
	}
	largest, err := c.Output(1, g.DType, nil)
	if err == nil {
		setFloat(largest, 0, most)
	}
	return err
}

// unscaling is the scale, a number of the type of the gradient.
func (c *Eval) unscaling() (float64, error) {
	s := c.In[1]
	if _, err := c.SameDType(floatTypes, c.In[0].DType, s.DType); err != nil {
		return 0, err
	}
	if s.Rank() != 0 {
		return 0, c.Errorf(ErrInput, "the scale is %v%v, must be a number", s.DType, s.Shape)
	}
	v, err := c.Floats(1)
	if err != nil {
		return 0, err
	}
	return v[0], nil
}

// gradUnscale: the scale and the greatest magnitude count as constants.
func gradUnscale(x *gradient) {
	x.set(0, x.div(x.d(0), x.Input(1)))
	x.refuse(1, "scales are not differentiated by")
}
