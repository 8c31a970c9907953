package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Operators of weir's domain by which batch normalisation is trained. The first is ONNX's
// BatchNormalization in training mode, with an activation, and says by which moments it normalised:
//
//	y, running mean, running variance, mean, inverse =
//		weir:BatchNormalization(x, scale, bias, running mean, running variance)
//
// It takes ONNX's attributes epsilon and momentum; inverse is 1/√(variance + epsilon) of the batch.
// Attribute activation is Relu or Clip, with bounds activation_alpha and activation_beta, or is
// absent. The second gives the gradients of x, scale and bias, of the gradient of y:
//
//	dx, dscale, dbias = weir:BatchNormalizationGradient(dy, x, scale, bias, mean, inverse)
//
// Where what the activation takes is not above its lower bound and at most its upper one, its
// gradient is 0. x may be in 16 bits beside a gradient of float32, as it is where it has waited for
// that; so may the vectors, and dscale and dbias are of the gradient's type.
const BatchNormGradient = "BatchNormalizationGradient"

var trainedBatchNorm = []Op{
	{Domain: FusedDomain, Name: "BatchNormalization", Since: []int{1}, MinIn: 5, MaxIn: 5,
		MinOut: 1, MaxOut: 5, Infer: inferTrainedBatchNorm, Eval: InFloat32(evalTrainedBatchNorm),
		Flops: FlopsPerElement(8), grad: gradTrainedBatchNorm},
	{Domain: FusedDomain, Name: BatchNormGradient, Since: []int{1}, MinIn: 6, MaxIn: 6, MinOut: 1,
		MaxOut: 3, Infer: inferBatchNormGradient, Eval: InFloat32(evalBatchNormGradient),
		Flops: FlopsPerElement(10)},
}

// ClipBounds are the bounds of a call's fused activation that clips, infinite where there is none:
// attribute activation is Relu, Clip or absent. Others are an error of kind [ErrAttr].
func ClipBounds(c *Call) (lo, hi float32, err error) {
	inf := float32(math.Inf(1))
	switch name := c.Attrs.String("activation", ""); name {
	case "":
		return -inf, inf, nil
	case "Relu":
		return 0, inf, nil
	case "Clip":
		lo, hi = c.Attrs.Float("activation_alpha", -inf), c.Attrs.Float("activation_beta", inf)
		if !(lo <= hi) {
			return 0, 0, c.Errorf(ErrAttr, "bounds %v and %v of Clip do not follow each other", lo,
				hi)
		}
		return lo, hi, nil
	default:
		return 0, 0, c.Errorf(ErrAttr, "activation %q, want Relu or Clip", name)
	}
}

// channelInputs checks that the inputs from number i on are vectors of the channels of x.
func (c *Infer) channelInputs(x Type, i int) error {
	if !x.Ranked {
		return nil
	}
	if len(x.Shape) < 2 {
		return c.Errorf(ErrInput, "x is %v, must have an axis of samples and one of channels", x)
	}
	for k, t := range c.In[i:] {
		if t.Ranked && !slices.EqualFunc(t.Shape, x.Shape[1:2], Dim.MayEqual) {
			return c.Errorf(ErrInput, "input %d is %v, must be a vector of the channels of %v",
				i+k, t, x)
		}
	}
	return nil
}

// channelOutputs makes the outputs from number i on vectors of the channels of x.
func (c *Infer) channelOutputs(x Type, i int) {
	for k := i; k < len(c.Out); k++ {
		if c.Out[k] = Unranked(x.DType); x.Ranked {
			c.Out[k] = Ranked(x.DType, x.Shape[1])
		}
	}
}

func inferTrainedBatchNorm(c *Infer) error {
	if _, _, err := ClipBounds(c.Call); err != nil {
		return err
	}
	if err := SameAsInput(floatTypes)(c); err != nil {
		return err
	}
	if err := c.channelInputs(c.In[0], 1); err != nil {
		return err
	}
	c.channelOutputs(c.In[0], 1)
	return nil
}

func inferBatchNormGradient(c *Infer) error {
	if _, _, err := ClipBounds(c.Call); err != nil {
		return err
	}
	if err := SameAsInput(floatTypes)(c); err != nil {
		return err
	}
	g, x := c.In[0], c.In[1]
	if x.Ranked && g.Ranked && !sameSizes(g.Shape, x.Shape) {
		return c.Errorf(ErrInput, "the gradient is %v, x %v", g, x)
	}
	for _, t := range c.In[1:] {
		if _, err := c.besideSaved(g.DType, t.DType); err != nil {
			return err
		}
	}
	if err := c.channelInputs(x, 2); err != nil {
		return err
	}
	x.DType = g.DType
	c.channelOutputs(x, 1)
	return nil
}

// channels are the operands of an evaluation: x, cut into channels, and vectors of these.
type channels struct {
	x       []float64
	inner   int // neighbours of one channel
	vectors [][]float64
}

// channelOperands reads x, input at, and the vectors behind it.
func (c *Eval) channelOperands(at int) (*channels, error) {
	x := c.In[at]
	if x.Rank() < 2 {
		return nil, c.Errorf(ErrInput, "x has shape %v, must have 2 axes or more", x.Shape)
	}
	k := &channels{inner: count(x.Shape[2:])}
	var err error
	if k.x, err = c.Floats(at); err != nil {
		return nil, err
	}
	for i := at + 1; i < len(c.In); i++ {
		v, err := c.FloatsOf(i, x.Shape[1])
		if err != nil {
			return nil, err
		}
		k.vectors = append(k.vectors, v)
	}
	return k, nil
}

// of is the channel of element i.
func (k *channels) of(i int) int { return i / k.inner % len(k.vectors[0]) }

// giveVectors makes the outputs from number i on that are asked for.
func (c *Eval) giveVectors(i int, d tensor.DType, vectors ...[]float64) error {
	for k, v := range vectors {
		if !c.Want(i + k) {
			continue
		}
		out, err := c.Output(i+k, d, []int{len(v)})
		if err != nil {
			return err
		}
		if err := c.round(out, v); err != nil {
			return err
		}
	}
	return nil
}

func evalTrainedBatchNorm(c *Eval) error {
	lo, hi, err := ClipBounds(c.Call)
	if err != nil {
		return err
	}
	_, out, err := c.normInput(2)
	if err != nil {
		return err
	}
	k, err := c.channelOperands(0)
	if err != nil {
		return err
	}
	scale, bias, running, runningVariance := k.vectors[0], k.vectors[1], k.vectors[2], k.vectors[3]
	mean, variance := momentsOf(k.x, k.inner, len(scale))
	momentum, epsilon := c.attr("momentum", 0.9), c.attr("epsilon", 1e-5)
	inverse := make([]float64, len(mean))
	for i := range mean {
		running[i] = running[i]*momentum + mean[i]*(1-momentum)
		runningVariance[i] = runningVariance[i]*momentum + variance[i]*(1-momentum)
		inverse[i] = 1 / math.Sqrt(variance[i]+epsilon)
	}
	for i, v := range k.x {
		at := k.of(i)
		v = (v-mean[at])*inverse[at]*scale[at] + bias[at]
		k.x[i] = minOf(maxOf(v, float64(lo)), float64(hi))
	}
	if err := c.round(out, k.x); err != nil {
		return err
	}
	return c.giveVectors(1, out.DType, running, runningVariance, mean, inverse)
}

func evalBatchNormGradient(c *Eval) error {
	lo, hi, err := ClipBounds(c.Call)
	if err != nil {
		return err
	}
	g, out, err := c.normInput(2)
	if err != nil {
		return err
	}
	if !slices.Equal(c.In[1].Shape, out.Shape) {
		return c.Errorf(ErrInput, "the gradient has shape %v, x %v", out.Shape, c.In[1].Shape)
	}
	k, err := c.channelOperands(1)
	if err != nil {
		return err
	}
	scale, bias, mean, inverse := k.vectors[0], k.vectors[1], k.vectors[2], k.vectors[3]
	dscale, dbias := make([]float64, len(scale)), make([]float64, len(scale))
	for i, v := range k.x {
		at := k.of(i)
		k.x[i] = (v - mean[at]) * inverse[at]
		if y := k.x[i]*scale[at] + bias[at]; !(y > float64(lo) && y <= float64(hi)) {
			g[i] = 0
		}
		dscale[at] += g[i] * k.x[i]
		dbias[at] += g[i]
	}
	n := float64(len(g) / max(len(scale), 1))
	for i, v := range k.x {
		at := k.of(i)
		g[i] = scale[at] * inverse[at] * (g[i] - dbias[at]/n - v*dscale[at]/n)
	}
	if err := c.round(out, g); err != nil {
		return err
	}
	return c.giveVectors(1, out.DType, dscale, dbias)
}

// gradTrainedBatchNorm: the running moments have no gradient, and nothing but y passes one on.
func gradTrainedBatchNorm(x *gradient) {
	for i := 1; i < len(x.b.Given); i++ {
		if x.b.Given[i] {
			x.Fail(ErrNoGradient, "of result %d, a statistic", i)
			return
		}
	}
	if len(x.b.Out) < 5 {
		x.Fail(ErrNoGradient, "without the moments of the batch, its results 3 and 4")
		return
	}
	x.zero(3)
	x.zero(4)
	var attrs Attrs
	for _, name := range []string{"activation", "activation_alpha", "activation_beta"} {
		if a := x.Attrs.Find(name); a != nil {
			attrs = append(attrs, *a)
		}
	}
	ds := x.Ops(FusedDomain, BatchNormGradient, 1, 3, attrs, x.d(0), x.Input(0), x.Input(1),
		x.Input(2), x.out(3), x.out(4))
	for i, d := range ds {
		x.set(i, d)
	}
}
