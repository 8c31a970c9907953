package op

import (
	"math"
	"slices"
)

// GeluGradient is the operator that gives the gradient of Gelu's operand:
//
//	dx = weir:GeluGradient(dy, x)
//
// It is of the exact form, x·Φ(x) of the normal distribution, and is dy·(Φ(x) + x·φ(x)). x may be
// in 16 bits beside a gradient of float32, as it is where it has waited for that.
const GeluGradient = "GeluGradient"

var geluGradientOps = []Op{{Domain: FusedDomain, Name: GeluGradient, Since: []int{1}, MinIn: 2,
	MaxIn: 2, Infer: inferAlike, Eval: InFloat32(evalGeluGradient),
	Flops: FlopsPerElement(40), grad: gradGeluGradient}}

// density is that of the normal distribution.
func density(v float64) float64 { return math.Exp(-v*v/2) / math.Sqrt(2*math.Pi) }

func evalGeluGradient(c *Eval) error {
	g, x := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, g.DType, x.DType); err != nil {
		return err
	}
	if !slices.Equal(g.Shape, x.Shape) {
		return c.Errorf(ErrInput, "the gradient has shape %v, x %v", g.Shape, x.Shape)
	}
	out, err := c.Output(0, g.DType, g.Shape)
	if err != nil {
		return err
	}
	for i := range out.Len() {
		v := floatAt(x, i)
		slope := math.Erfc(-v/math.Sqrt2)/2 + v*density(v)
		if math.IsInf(v, 0) {
			slope = max(0, math.Copysign(1, v)) // its limit
		}
		setFloat(out, i, floatAt(g, i)*slope)
	}
	return nil
}

// gradGelu: the approximation by tanh is differentiated by parts.
func gradGelu(x *gradient) {
	switch {
	case !x.needs(0):
	case x.Attrs.String("approximate", "none") == "none":
		x.set(0, x.Ops(FusedDomain, GeluGradient, 1, 1, nil, x.d(0), x.Input(0))[0])
	default:
		x.set(0, x.mul(x.d(0), slopeGeluTanh(x, x.Input(0))))
	}
}

// gradGeluGradient: the second derivative is φ(v)·(2 - v²).
func gradGeluGradient(x *gradient) {
	g, v := x.Input(0), x.Input(1)
	if x.needs(0) {
		x.set(0, x.Ops(FusedDomain, GeluGradient, 1, 1, nil, x.d(0), v)[0])
	}
	if x.needs(1) {
		pdf := x.Scale(x.Op("Exp", nil, x.Scale(x.square(v), -0.5)), 1/math.Sqrt(2*math.Pi))
		x.set(1, x.mul(x.mul(x.d(0), g), x.mul(pdf, x.from(2, x.square(v)))))
	}
}
