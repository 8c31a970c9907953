package op

import (
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// LayerNormGradient is the operator that gives the gradients of LayerNormalization's operands, of
// the gradient of its result 0, by what its results 1 and 2 are:
//
//	dx, dscale, dbias = weir:LayerNormalizationGradient(dy, x, scale, mean, inverse)
//
// Attribute axis is that of the normalisation; scale has the shape of the axes from it on, and so
// have dscale and dbias; mean and inverse have one element for each of the axes before. With
// n = (x - mean)·inverse and g = dy·scale it gives dx = inverse·(g - mean of g - n·(mean of g·n)),
// the means over the axes normalised, and dscale and dbias, the sums of dy·n and of dy over the
// others (Ba, Kiros and Hinton, "Layer Normalization", 2016, section 3). x may be in 16 bits
// beside a gradient of float32, as it is where it has waited for that.
const LayerNormGradient = "LayerNormalizationGradient"

var layerNormGradientOps = []Op{{Domain: FusedDomain, Name: LayerNormGradient, Since: []int{1},
	MinIn: 5, MaxIn: 5, MinOut: 1, MaxOut: 3, Infer: inferLayerNormGradient,
	Eval: InFloat32(evalLayerNormGradient), Flops: FlopsPerElement(12),
	parts: partsOfLayerNormGradient}}

func inferLayerNormGradient(c *Infer) error {
	if err := SameAsInput(floatTypes)(c); err != nil {
		return err
	}
	x, scale := c.In[1], c.In[2]
	if g := c.In[0]; g.Ranked && x.Ranked && !sameSizes(g.Shape, x.Shape) {
		return c.Errorf(ErrInput, "the gradient is %v, x %v", g, x)
	}
	if x.Ranked {
		axis, err := c.Axis(c.Attrs.Int("axis", -1), len(x.Shape))
		if err != nil {
			return err
		}
		if scale.Ranked && !sameSizes(scale.Shape, x.Shape[axis:]) {
			return c.Errorf(ErrInput, "scale is %v, must be of axes %d and on of %v", scale, axis,
				x)
		}
	}
	for i := 1; i < len(c.Out); i++ {
		c.Out[i] = scale.withoutContents()
		c.Out[i].DType = c.In[0].DType
	}
	return nil
}

func evalLayerNormGradient(c *Eval) error {
	g, out, axis, err := c.normRows()
	if err != nil {
		return err
	}
	if !slices.Equal(c.In[1].Shape, out.Shape) {
		return c.Errorf(ErrInput, "the gradient has shape %v, x %v", out.Shape, c.In[1].Shape)
	}
	x, err := c.Floats(1)
	if err != nil {
		return err
	}
	scale, err := c.FloatsOf(2, out.Shape[axis:]...)
	if err != nil {
		return err
	}
	rows := onesFrom(out.Shape, axis, 1)
	mean, inverse, err := c.FloatsPairOf(3, 4, rows...)
	if err != nil {
		return err
	}
	dscale, dbias := make([]float64, len(scale)), make([]float64, len(scale))
	for i := range mean {
		at := i * len(scale)
		layerNormRow(g[at:][:len(scale)], x[at:][:len(scale)], scale, mean[i], inverse[i], dscale,
			dbias)
	}
	if err := c.round(out, g); err != nil {
		return err
	}
	for i, v := range [][]float64{dscale, dbias} {
		if !c.Want(1 + i) {
			continue
		}
		t, err := c.Output(1+i, out.DType, out.Shape[axis:])
		if err != nil {
			return err
		}
		if err := c.round(t, v); err != nil {
			return err
		}
	}
	return nil
}

// layerNormRow replaces the gradient of a row by that of its operand, and adds to those of scale
// and bias.
func layerNormRow(g, x, scale []float64, mean, inverse float64, dscale, dbias []float64) {
	var sum, dot float64
	for k, v := range x {
		v = (v - mean) * inverse
		dscale[k] += g[k] * v
		dbias[k] += g[k]
		g[k] *= scale[k]
		sum += g[k]
		dot += g[k] * v
	}
	n := float64(len(x))
	for k, v := range x {
		g[k] = inverse * (g[k] - sum/n - (v-mean)*inverse*dot/n)
	}
}

// partsOfLayerNormGradient is the definition.
func partsOfLayerNormGradient(x *Expander) {
	dy, v := x.Input(0), x.Input(1)
	rank := x.Rank(v)
	axis := x.axisOf(v, -1)
	axes := axesBetween(int(axis), rank)
	inverse := x.Input(4)
	n := x.mul(x.sub(v, x.Input(3)), inverse)
	g := x.mul(dy, x.Input(2))
	centred := x.sub(x.sub(g, x.meanOver(g, axes...)), x.mul(n, x.meanOver(x.mul(g, n), axes...)))
	x.Give(0, x.mul(inverse, centred))
	for i, d := range []Var{x.mul(dy, n), dy} {
		if x.Wants(1 + i) {
			x.Give(1+i, x.sumOver(d, false, axesBetween(0, int(axis))...))
		}
	}
}

// gradLayerNorm reads the moments that the call gives on request, where they are as exact as x is,
// scale and bias have an element for each that is normalised, and no moment has a gradient. Other
// calls are differentiated by parts.
func gradLayerNorm(x *gradient) {
	if !x.layerNormWhole() {
		x.byParts()
		return
	}
	v := x.Input(0)
	attrs := Attrs{IntAttr("axis", x.axisOf(v, -1)-int64(x.Rank(v)))}
	ds := x.Ops(FusedDomain, LayerNormGradient, 1, 3, attrs, x.d(0), v, x.Input(1), x.out(1),
		x.out(2))
	for i := range x.b.In {
		x.set(i, ds[i])
	}
}

func (x *gradient) layerNormWhole() bool {
	v := x.TypeOf(x.Input(0))
	if !v.Ranked || !wideFloats.Has(v.DType) || len(x.b.Out) < 3 ||
		slices.Contains(x.b.Given[1:], true) ||
		x.Attrs.Int("stash_type", int64(tensor.Float32)) != int64(v.DType) {
		return false
	}
	axis := x.axisOf(x.Input(0), -1)
	if x.Err != nil {
		return false
	}
	for _, of := range []Var{x.Input(1), x.Input(2)} {
		t := x.TypeOf(of)
		if of != Absent && (t.DType != v.DType || !t.Ranked ||
			!slices.EqualFunc(t.Shape, v.Shape[axis:], Dim.Equal)) {
			return false
		}
	}
	n := Type{Ranked: true, Shape: v.Shape[axis:]}.Elements()
	return n <= longestLayer
}

// longestLayer is how many elements are normalised together, at most, where the gradient is one
// operator: what computes rows one by one cannot give the device back within one.
const longestLayer = 1 << 18
