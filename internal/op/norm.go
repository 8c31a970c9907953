package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// norm holds the normalisations. They compute in float64 and round once.
var norm = []Op{
	{Name: "InstanceNormalization", Since: []int{1, 6, 22}, MinIn: 3, MaxIn: 3,
		Infer: SameAsInput(floatTypes),
		Eval:  InFloat32(evalInstanceNorm), Flops: FlopsPerElement(6),
		parts: partsOfInstanceNorm},
	// ONNX Runtime's optimiser writes LayerNormalization in models of any opset, with the meaning
	// that ONNX has since 17.
	{Name: "LayerNormalization", Since: []int{1, 17}, MinIn: 2, MaxIn: 3, MinOut: 1, MaxOut: 3,
		Infer: inferLayerNorm,
		Eval:  inFloat32Except(1, evalLayerNorm), Flops: FlopsPerElement(6),
		parts: partsOfLayerNorm, grad: gradLayerNorm},
	{Name: "RMSNormalization", Since: []int{23}, MinIn: 2, MaxIn: 2, Infer: inferRMSNorm,
		Eval:  InFloat32(evalRMSNorm),
		Flops: FlopsPerElement(4), parts: partsOfRMSNorm},
	{Name: "GroupNormalization", Since: []int{18, 21}, MinIn: 3, MaxIn: 3,
		Infer: SameAsInput(floatTypes),
		Eval:  InFloat32(evalGroupNorm), Flops: FlopsPerElement(6),
		parts: partsOfGroupNorm},
	{Name: "MeanVarianceNormalization", Since: []int{9, 13}, MinIn: 1, MaxIn: 1,
		Infer: SameAsInput(floatTypes),
		Eval:  InFloat32(evalMeanVariance), Flops: FlopsPerElement(6),
		parts: partsOfMeanVariance},
	{Name: "LpNormalization", Since: []int{1, 22}, MinIn: 1, MaxIn: 1,
		Infer: SameAsInput(floatTypes),
		Eval:  InFloat32(evalLpNorm), Flops: FlopsPerElement(3), parts: partsOfLpNorm},
	{Name: "LRN", Since: []int{1, 13}, MinIn: 1, MaxIn: 1, Infer: SameAsInput(floatTypes),
		Eval: InFloat32(evalLRN), parts: partsOfLRN,
		Flops: func(c *Call, in, _ []Type) int64 {
			return 2 * max(1, c.Attrs.Int("size", 1)) * in[0].Elements()
		}},
}

// FlopsPerElement returns an [Op.Flops] that counts n operations for each element of input 0.
//
//go:noinline
func FlopsPerElement(n int64) func(*Call, []Type, []Type) int64 {
	return func(_ *Call, in, _ []Type) int64 { return n * in[0].Elements() }
}

// moments returns the mean and the (population) variance.
func moments(v []float64) (m, variance float64) {
	m = mean(v)
	for _, x := range v {
		variance += (x - m) * (x - m)
	}
	return m, variance / float64(len(v))
}

// Floats returns the elements of input i as float64 in a new slice, nil when the input is absent.
// It fails with [ErrInput] when they are no numbers.
func (c *Eval) Floats(i int) ([]float64, error) {
	if !c.Has(i) {
		return nil, nil
	}
	v, err := c.In[i].Floats()
	if err != nil {
		return nil, c.Errorf(ErrInput, "input %d: %v", i, err)
	}
	return v, nil
}

// FloatsOf is [Eval.Floats] of an input that is there and must have the given shape: another one is
// an error of kind [ErrInput].
func (c *Eval) FloatsOf(i int, shape ...int) ([]float64, error) {
	if t := c.In[i]; !slices.Equal(t.Shape, shape) {
		return nil, c.Errorf(ErrInput, "input %d has shape %v, must have %v", i, t.Shape, shape)
	}
	return c.Floats(i)
}

// FloatsPair is [Eval.Floats] of two inputs.
func (c *Eval) FloatsPair(i, j int) (a, b []float64, err error) {
	if a, err = c.Floats(i); err == nil {
		b, err = c.Floats(j)
	}
	return a, b, err
}

// FloatsPairOf is [Eval.FloatsOf] of two inputs of one shape.
func (c *Eval) FloatsPairOf(i, j int, shape ...int) (a, b []float64, err error) {
	if a, err = c.FloatsOf(i, shape...); err == nil {
		b, err = c.FloatsOf(j, shape...)
	}
	return a, b, err
}

// floatsOrZeros is [Eval.FloatsOf] of an optional input, zeros when it is absent.
func (c *Eval) floatsOrZeros(i int, shape ...int) ([]float64, error) {
	if c.Has(i) {
		return c.FloatsOf(i, shape...)
	}
	return zeros(shape...)
}

// normInput checks that input 0 is float and has at least low dimensions, and makes output 0 like
// it.
func (c *Eval) normInput(low int) (x []float64, out *tensor.Tensor, err error) {
	t := c.In[0]
	if _, err := c.SameDType(floatTypes, t.DType); err != nil {
		return nil, nil, err
	}
	if t.Rank() < low {
		return nil, nil, c.Errorf(ErrInput, "X has shape %v, must have rank %d or more", t.Shape,
			low)
	}
	if x, err = c.Floats(0); err != nil {
		return nil, nil, err
	}
	out, err = c.Output(0, t.DType, t.Shape)
	return x, out, err
}

// evalInstanceNorm normalises each channel of each batch entry by its own moments.
func evalInstanceNorm(c *Eval) error {
	x, out, err := c.normInput(3)
	if err != nil || len(x) == 0 {
		return err
	}
	channels, plane := out.Shape[1], count(out.Shape[2:])
	scale, b, err := c.FloatsPairOf(1, 2, channels)
	if err != nil {
		return err
	}
	epsilon := c.attr("epsilon", 1e-5)
	for p := 0; p*plane < len(x); p++ {
		v := x[p*plane:][:plane]
		m, variance := moments(v)
		for i, a := range v {
			setFloat(out, p*plane+i,
				(a-m)/math.Sqrt(variance+epsilon)*scale[p%channels]+b[p%channels])
		}
	}
	return nil
}

// groups is attribute num_groups, which must divide the channels.
func (c *Call) groups(channels int) (int, error) {
	n := int(c.Attrs.Int("num_groups", 0))
	if n < 1 || channels%n != 0 {
		return 0, c.Errorf(ErrAttr, "num_groups is %d, must divide %d channels", n, channels)
	}
	return n, nil
}

// evalGroupNorm normalises groups of channels. Scale and bias are one a group before version 21 and
// one a channel from then on.
func evalGroupNorm(c *Eval) error {
	x, out, err := c.normInput(2)
	if err != nil || len(x) == 0 {
		return err
	}
	channels, plane := out.Shape[1], count(out.Shape[2:])
	groups, err := c.groups(channels)
	if err != nil {
		return err
	}
	per := channels
	if c.Version < 21 {
		per = groups
	}
	scale, b, err := c.FloatsPairOf(1, 2, per)
	if err != nil {
		return err
	}
	epsilon, size := c.attr("epsilon", 1e-5), channels/groups*plane
	for at := 0; at < len(x); at += size {
		v := x[at : at+size]
		m, variance := moments(v)
		for i, a := range v {
			k := (at + i) / plane % channels * per / channels
			setFloat(out, at+i, (a-m)/math.Sqrt(variance+epsilon)*scale[k]+b[k])
		}
	}
	return nil
}

// onesFrom returns a copy of shape in which all axes from axis on have size one.
func onesFrom[D any](shape []D, axis int, one D) []D {
	return append(slices.Clone(shape[:axis]), slices.Repeat([]D{one}, len(shape)-axis)...)
}

// inferLayerNorm shapes Y, and Mean and InvStdDev, which keep the normalised axes with size one.
func inferLayerNorm(c *Infer) error {
	if err := SameAsInput(floatTypes)(c); err != nil {
		return err
	}
	x := c.In[0]
	stash := tensor.DType(c.Attrs.Int("stash_type", int64(tensor.Float32)))
	for i := 1; i < len(c.Out); i++ {
		c.Out[i] = Unranked(stash)
	}
	if !x.Ranked {
		return nil
	}
	axis, err := c.Axis(c.Attrs.Int("axis", -1), len(x.Shape))
	if err != nil {
		return err
	}
	for i := 1; i < len(c.Out); i++ {
		c.Out[i] = Ranked(stash, onesFrom(x.Shape, axis, Known(1))...)
	}
	return nil
}

// evalLayerNorm normalises over all axes from axis on, then scales and shifts by operands that
// broadcast.
func evalLayerNorm(c *Eval) error {
	if s := tensor.DType(c.Attrs.Int("stash_type", int64(tensor.Float32))); s != tensor.Float32 &&
		s != tensor.Float64 {
		return c.Errorf(ErrUnsupported, "stash_type %v; weir has float32 and float64", s)
	}
	x, out, axis, err := c.normRows()
	if err != nil {
		return err
	}
	means, invs, err := c.layerMoments(out.Shape, axis)
	if err != nil {
		return err
	}
	size, epsilon := count(out.Shape[axis:]), c.attr("epsilon", 1e-5)
	for i := range count(out.Shape[:axis]) { // of no elements the mean is NaN
		m, inv := standardize(x[i*size:(i+1)*size], epsilon)
		if means != nil {
			setFloat(means, i, m)
		}
		if invs != nil {
			setFloat(invs, i, inv)
		}
	}
	return c.affine(out, x)
}

// normRows is normInput of operators that normalise over all axes from attribute axis on.
func (c *Eval) normRows() (x []float64, out *tensor.Tensor, axis int, err error) {
	if x, out, err = c.normInput(1); err != nil {
		return nil, nil, 0, err
	}
	axis, err = c.Axis(c.Attrs.Int("axis", -1), out.Rank())
	return x, out, axis, err
}

// standardize takes the mean out of v and divides by the standard deviation; it returns the mean
// and the inverse deviation.
func standardize(v []float64, epsilon float64) (m, inv float64) {
	m, variance := moments(v)
	inv = 1 / math.Sqrt(variance+epsilon)
	for i := range v {
		v[i] = (v[i] - m) * inv
	}
	return m, inv
}

// layerMoments makes the outputs Mean and InvStdDev where they are asked for.
func (c *Eval) layerMoments(shape []int, axis int) (means, invs *tensor.Tensor, err error) {
	shape = onesFrom(shape, axis, 1)
	d := tensor.DType(c.Attrs.Int("stash_type", int64(tensor.Float32)))
	if c.Want(1) {
		if means, err = c.Output(1, d, shape); err != nil {
			return nil, nil, err
		}
	}
	if c.Want(2) {
		invs, err = c.Output(2, d, shape)
	}
	return means, invs, err
}

// affine sets out to v · input 1 + input 2, both of which broadcast to out; input 2 is optional.
func (c *Eval) affine(out *tensor.Tensor, v []float64) error {
	scale, err := c.Floats(1)
	if err != nil {
		return err
	}
	shift, shiftShape := []float64{0}, []int{}
	if c.Has(2) {
		if shift, err = c.Floats(2); err != nil {
			return err
		}
		shiftShape = c.In[2].Shape
	}
	to, err := BroadcastShapes(out.Shape, c.In[1].Shape, shiftShape)
	if err != nil || !slices.Equal(to, out.Shape) {
		return c.Errorf(ErrInput, "scale %v or bias %v does not broadcast to %v", c.In[1].Shape,
			shiftShape, out.Shape)
	}
	broadcastWalk(to, c.In[1].Shape, shiftShape).runs(func(at, n int, off, step []int) {
		for i := range n {
			setFloat(out, at+i, v[at+i]*scale[off[0]+i*step[0]]+shift[off[1]+i*step[1]])
		}
	})
	return nil
}

func inferRMSNorm(c *Infer) error {
	if x := c.In[0]; x.Ranked {
		if _, err := c.Axis(c.Attrs.Int("axis", -1), len(x.Shape)); err != nil {
			return err
		}
	}
	return SameAsInput(floatTypes)(c)
}

// evalRMSNorm divides by the root of the mean square over all axes from axis on, then scales.
func evalRMSNorm(c *Eval) error {
	x, out, axis, err := c.normRows()
	if err != nil {
		return err
	}
	size, epsilon := count(out.Shape[axis:]), c.attr("epsilon", 1e-5)
	for at := 0; at < len(x); at += size {
		v, square := x[at:at+size], 0.0
		for _, a := range v {
			square += a * a
		}
		inv := 1 / math.Sqrt(square/float64(size)+epsilon)
		for i := range v {
			v[i] *= inv
		}
	}
	return c.affine(out, x)
}

// varianceShape is the shape of the statistics: the axes that attribute axes reduces have size 1.
func (c *Call) varianceShape(shape []int) ([]int, error) {
	given := c.Attrs.Ints("axes")
	if given == nil {
		given = []int64{0, 2, 3}
	}
	reduced, err := c.marked(given, len(shape))
	if err != nil {
		return nil, err
	}
	return reducedShape(shape, reduced, true, 1), nil
}

// evalMeanVariance is (X - E[X]) / sqrt(E[(X - E[X])²]) over the given axes; the ONNX function adds
// 1e-9 to the root.
func evalMeanVariance(c *Eval) error {
	x, out, err := c.normInput(0)
	if err != nil || len(x) == 0 {
		return err
	}
	kept, err := c.varianceShape(out.Shape)
	if err != nil {
		return err
	}
	w, groups := newWalk(out.Shape, broadcastStrides(kept, out.Shape)), count(kept)
	n := float64(len(x) / groups)
	sum := accumulate(x, w, make([]float64, groups), sums.f)
	w.runs(func(at, run int, off, step []int) {
		for i := range run {
			x[at+i] -= sum[off[0]+i*step[0]] / n
		}
	})
	squares := accumulate(x, w, make([]float64, groups), addSquare)
	w.runs(func(at, run int, off, step []int) {
		for i := range run {
			setFloat(out, at+i, x[at+i]/(math.Sqrt(squares[off[0]+i*step[0]]/n)+1e-9))
		}
	})
	return nil
}

// evalLpNorm divides each vector along the axis by its L1 or L2 norm; a zero vector stays zero.
func evalLpNorm(c *Eval) error {
	x, out, err := c.normInput(1)
	if err != nil || len(x) == 0 {
		return err
	}
	axis, err := c.Axis(c.Attrs.Int("axis", -1), out.Rank())
	if err != nil {
		return err
	}
	p := c.Attrs.Int("p", 2)
	if p != 1 && p != 2 {
		return c.Errorf(ErrAttr, "p is %d, must be 1 or 2", p)
	}
	mapVectors(x, slices.Clone(x), out.Shape[axis], count(out.Shape[axis+1:]),
		func(r, v []float64) {
			norm := lpNorm(v, float64(p))
			for i, a := range v {
				if r[i] = 0; norm != 0 {
					r[i] = a / norm
				}
			}
		})
	SetFloats(out, x)
	return nil
}

// evalLRN is local response normalisation across channels (Krizhevsky, Sutskever and Hinton 2012,
// §3.3): each element over (bias + alpha/size · sum of squares of the size channels around it) to
// the power beta.
func evalLRN(c *Eval) error {
	x, out, err := c.normInput(2)
	if err != nil || len(x) == 0 {
		return err
	}
	size := c.Attrs.Int("size", 0)
	if size < 1 {
		return c.Errorf(ErrAttr, "size is %d, must be positive", size)
	}
	alpha, beta, bias := c.attr("alpha", 1e-4), c.attr("beta", 0.75), c.attr("bias", 1)
	channels, plane := out.Shape[1], count(out.Shape[2:])
	below, above := (size-1)/2, size/2
	for i, v := range x {
		ch := i / plane % channels
		first, last := max(0, int64(ch)-below),
			min(int64(channels-1), int64(ch)+min(above, int64(channels)))
		square := 0.0
		for k := first; k <= last; k++ {
			a := x[i+(int(k)-ch)*plane]
			square += a * a
		}
		setFloat(out, i, v/math.Pow(bias+alpha/float64(size)*square, beta))
	}
	return nil
}
