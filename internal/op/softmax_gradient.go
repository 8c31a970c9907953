package op

import "slices"

// SoftmaxGradient is the operator that gives the gradient of Softmax's operand, by its result y:
//
//	dx = weir:SoftmaxGradient(dy, y)
//
// It is y·(dy - Σ dy·y), the sum over the axes from attribute axis on. y may be in 16 bits beside a
// gradient of float32, as it is where it has waited for that.
const SoftmaxGradient = "SoftmaxGradient"

var softmaxGradientOps = []Op{{Domain: FusedDomain, Name: SoftmaxGradient, Since: []int{1},
	MinIn: 2, MaxIn: 2, Infer: inferSoftmaxGradient, Eval: InFloat32(evalSoftmaxGradient),
	Flops: FlopsPerElement(4), parts: partsOfSoftmaxGradient}}

func inferSoftmaxGradient(c *Infer) error {
	if err := inferAlike(c); err != nil {
		return err
	}
	if y := c.Out[0]; y.Ranked {
		_, err := c.Axis(c.Attrs.Int("axis", -1), len(y.Shape))
		return err
	}
	return nil
}

func evalSoftmaxGradient(c *Eval) error {
	g, out, axis, err := c.normRows()
	if err != nil {
		return err
	}
	if _, err := c.SameDType(floatTypes, out.DType, c.In[1].DType); err != nil {
		return err
	}
	if !slices.Equal(c.In[1].Shape, out.Shape) {
		return c.Errorf(ErrInput, "the gradient has shape %v, y %v", out.Shape, c.In[1].Shape)
	}
	y, err := c.Floats(1)
	if err != nil {
		return err
	}
	size := count(out.Shape[axis:])
	for at := 0; at < len(g); at += size {
		sum := 0.0
		for i := at; i < at+size; i++ {
			sum += g[i] * y[i]
		}
		for i := at; i < at+size; i++ {
			g[i] = y[i] * (g[i] - sum)
		}
	}
	return c.round(out, g)
}

// partsOfSoftmaxGradient is the definition.
func partsOfSoftmaxGradient(x *Expander) {
	g, y := x.Input(0), x.Input(1)
	axes := axesBetween(int(x.axisOf(y, -1)), x.Rank(y))
	x.Give(0, x.mul(y, x.sub(g, x.sumOver(x.mul(g, y), true, axes...))))
}

// gradSoftmax is y·(g - Σ g·y): by one operator where the axes are the last ones.
var gradSoftmax = unary(func(x *gradient, g Var) Var {
	y, axes := x.out(0), x.softmaxAxes()
	rank := x.Rank(y)
	if n := len(axes); n > 0 && axes[n-1] == int64(rank)-1 {
		attrs := Attrs{IntAttr("axis", axes[0]-int64(rank))}
		return x.Ops(FusedDomain, SoftmaxGradient, 1, 1, attrs, g, y)[0]
	}
	return x.mul(y, x.sub(g, x.sumOver(x.mul(g, y), true, axes...)))
})
