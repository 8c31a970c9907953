package op

import "github.com/weirgpu/weir/tensor"

// ConvWeightsGradient is the operator that gives the gradient of a convolution's weights:
//
//	dw = weir:ConvWeightsGradient(x, dy)
//
// It takes attributes group, strides, dilations and pads of Conv, kernel_shape, which must be
// given, and precision, as weir:Conv does. dy may have fewer places than the window has on x: those
// that it lacks count for nothing. x may be in 16 bits beside a gradient of float32, as it is where
// it has waited for that.
const ConvWeightsGradient = "ConvWeightsGradient"

var convGradientOps = []Op{{Domain: FusedDomain, Name: ConvWeightsGradient, Since: []int{1},
	MinIn: 2, MaxIn: 2, Infer: inferConvWeightsGradient,
	Eval: evalConvWeightsGradient, Flops: convWeightsFlops,
	grad: gradConvWeightsGradient}}

// WeightsWindow reads the window of a call of [ConvWeightsGradient] over an image of so many axes
// of space, and the number of groups.
func (c *Call) WeightsWindow(rank int) (w Window, group int, err error) {
	if !c.Attrs.Has("kernel_shape") {
		return w, 0, c.Errorf(ErrAttr, "kernel_shape is missing")
	}
	kernel, err := c.sizesAttr("kernel_shape", rank, 1, 1)
	if err != nil {
		return w, 0, err
	}
	if w, err = c.Window(kernel); err != nil {
		return w, 0, err
	}
	if w.Auto != "NOTSET" {
		return w, 0, c.Errorf(ErrAttr, "auto_pad is %s: want pads", w.Auto)
	}
	group, err = c.Group()
	return w, group, err
}

func inferConvWeightsGradient(c *Infer) error {
	d, err := c.besideSaved(c.In[1].DType, c.In[0].DType)
	if err != nil {
		return err
	}
	if _, err := c.multiplyInBF16(d); err != nil {
		return err
	}
	x, g := c.In[0], c.In[1]
	if c.Out[0] = Unranked(d); !x.Ranked {
		return nil
	}
	rank, err := c.convSpatial()
	if err != nil {
		return err
	}
	w, group, err := c.WeightsWindow(rank)
	if err != nil {
		return err
	}
	shape := unknownDims(rank + 2)
	if n, ok := x.Shape[1].Int(); ok && n%group != 0 {
		return c.Errorf(ErrInput, "x is %v, whose channels are no multiple of group %d", x, group)
	} else if ok {
		shape[1] = Known(n / group)
	}
	for i, k := range w.Kernel {
		shape[i+2] = Known(k)
	}
	if c.Out[0] = Ranked(d, shape...); !g.Ranked {
		return nil
	}
	if len(g.Shape) != rank+2 || !g.Shape[0].MayEqual(x.Shape[0]) {
		return c.Errorf(ErrInput, "the gradient is %v, x %v", g, x)
	}
	if m, ok := g.Shape[1].Int(); ok && m%group != 0 {
		return c.Errorf(ErrInput, "the gradient is %v, whose channels are no multiple of group %d",
			g, group)
	}
	shape[0] = g.Shape[1]
	c.Out[0] = Ranked(d, shape...)
	return c.placesFit(&w, x.Shape[2:], g.Shape[2:])
}

// placesFit checks that a window has the places of a gradient, as far as sizes are known.
func (c *Infer) placesFit(w *Window, image, places []Dim) error {
	for i := range places {
		most, err := w.outDim(c.Call, i, image[i])
		if err != nil {
			return err
		}
		n, ok := places[i].Int()
		if m, known := most.Int(); ok && known && n > m {
			return c.Errorf(ErrInput, "the gradient has %d places on spatial axis %d, the window "+
				"only %d", n, i, m)
		}
	}
	return nil
}

// convWeightsFlops: each place multiplies every filter with what it sees.
func convWeightsFlops(_ *Call, in, out []Type) int64 {
	g := in[1].Shape
	if len(g) < 3 || len(out[0].Shape) == 0 {
		return 0
	}
	return 2 * out[0].Elements() * Ranked(tensor.Float32, g[0]).Elements() *
		Ranked(tensor.Float32, g[2:]...).Elements()
}

func evalConvWeightsGradient(c *Eval) error {
	return c.widening(convWeightsOf, func(int) tensor.DType {
		if isHalf(c.In[1]) {
			return c.In[1].DType
		}
		return tensor.Float32
	})
}

func convWeightsOf(c *Eval) error {
	x, g := c.In[0], c.In[1]
	d, err := c.SameDType(floatTypes, x.DType, g.DType)
	if err != nil {
		return err
	}
	if yes, err := c.multiplyInBF16(d); err != nil {
		return err
	} else if yes {
		x, g = roundedToBF16(x), roundedToBF16(g)
	}
	in := &Infer{Call: c.Call, In: []Type{TypeOf(x), TypeOf(g)}, Present: []bool{true, true},
		Out: make([]Type, 1)}
	if err := inferConvWeightsGradient(in); err != nil {
		return err
	}
	shape, _ := in.Out[0].Ints()
	out, sums, err := c.outputFloats(d, shape)
	if err != nil {
		return err
	}
	xs, err := x.Floats()
	if err != nil {
		return c.Errorf(ErrInput, "x: %v", err)
	}
	gs, err := g.Floats()
	if err != nil {
		return c.Errorf(ErrInput, "the gradient: %v", err)
	}
	w, group, err := c.WeightsWindow(len(shape) - 2)
	if err != nil {
		return err
	}
	addWeights(sums, xs, gs, &w, x.Shape, g.Shape, group)
	return c.round(out, sums)
}

// addWeights adds up the gradient of weights place by place.
func addWeights(sums, xs, gs []float64, w *Window, image, places []int, group int) {
	plane, taps := count(image[2:]), count(w.Kernel)
	positions, depth, filters := count(places[2:]), image[1]/group, places[1]/group
	place := make([]int, len(places)-2)
	for n := range image[0] {
		clear(place)
		for at := range positions {
			w.inside(place, image[2:], func(tap, offset int) {
				for m := range places[1] {
					v := gs[(n*places[1]+m)*positions+at]
					from := xs[(n*image[1]+m/filters*depth)*plane:]
					for ch := range depth {
						sums[(m*depth+ch)*taps+tap] += v * from[ch*plane+offset]
					}
				}
			})
			increment(place, places[2:])
		}
	}
}

// gradConvWeightsGradient: the product of weights' gradient with seeds is that of dy with the
// convolution of x by the seeds, so that it is linear in both.
func gradConvWeightsGradient(x *gradient) {
	image, dy, weights := x.Input(0), x.Input(1), x.d(0)
	w, group, err := x.WeightsWindow(max(x.Rank(image)-2, 0))
	if x.Err = firstError(x.Err, err); x.Err != nil {
		return
	}
	if x.needs(0) {
		x.set(0, x.spread(x.everyPlace(dy, image, &w), weights, image, w, group))
	}
	if x.needs(1) {
		x.set(1, x.cropped(x.Op("Conv", w.attrs(group), image, weights), dy))
	}
}

// everyPlace adds zeros to a gradient for the places of a window that it lacks.
func (x *gradient) everyPlace(dy, image Var, w *Window) Var {
	ends, lacks := make([]int64, 2*x.Rank(dy)), false
	sizes, ok := knownInts(x.Shape(image)[min(2, x.Rank(image)):])
	have, ok2 := knownInts(x.Shape(dy)[min(2, x.Rank(dy)):])
	if !ok || !ok2 {
		x.Later()
		return dy
	}
	places, err := w.Place(x.Call, sizes)
	if x.Err = firstError(x.Err, err); x.Err != nil {
		return dy
	}
	for i, n := range places {
		ends[len(ends)-len(places)+i] = int64(n - have[i])
		lacks = lacks || n > have[i]
	}
	if !lacks {
		return dy
	}
	return x.Op("Pad", nil, dy, x.Ints(ends...))
}
