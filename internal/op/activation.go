package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// activation holds the element-wise non-linear functions of neural networks. Softmax and its kin
// are in softmax.go.
var activation = []Op{
	unaryOp("Relu", unaryFuncs{i: func(x int64) int64 { return max(x, 0) }, f: relu}, 1, 6, 13,
		14).derived(gradRelu),
	attrMap("LeakyRelu", func(c *Call) (func(float64) float64, error) {
		return leakyRelu(c.alpha(0.01)), nil
	}, 1, 6, 16).derived(gradLeakyRelu),
	{Name: "PRelu", Since: []int{7, 9, 16}, MinIn: 2, MaxIn: 2, Traits: Elementwise,
		Infer: inferPRelu,
		Eval:  InFloat32(evalPRelu), grad: gradPRelu},
	attrMap("Elu", func(c *Call) (func(float64) float64, error) {
		return elu(c.alpha(1)), nil
	}, 1, 6, 22).derived(gradElu),
	attrMap("Selu", func(c *Call) (func(float64) float64, error) {
		return selu(c.alpha(1.67326319217681884765625), c.attr("gamma", 1.05070102214813232421875)),
			nil
	}, 6, 22).derived(gradSelu),
	attrMap("Celu", func(c *Call) (func(float64) float64, error) {
		a := c.alpha(1)
		if a == 0 {
			return nil, c.Errorf(ErrAttr, "alpha is 0")
		}
		return func(x float64) float64 { return relu(x) + math.Min(0, a*math.Expm1(x/a)) }, nil
	}, 12, 28).derived(gradCelu),
	attrMap("ThresholdedRelu", func(c *Call) (func(float64) float64, error) {
		return thresholdedRelu(c.alpha(1)), nil
	}, 10, 22).derived(gradThresholdedRelu),
	floatMap("Sigmoid", sigmoid, 1, 6, 13).derived(slope(slopeSigmoid)),
	attrMap("HardSigmoid", func(c *Call) (func(float64) float64, error) {
		return hardSigmoid(c.alpha(0.2), c.attr("beta", 0.5)), nil
	}, 1, 6, 22).derived(gradHardSigmoid),
	floatMap("HardSwish", hardSwish, 14, 22).derived(gradHardSwish),
	floatMap("Tanh", math.Tanh, 1, 6, 13).derived(slope(slopeTanh)),
	floatMap("Softplus", softplus, 1, 22).derived(slope(slopeSoftplus)),
	floatMap("Softsign", softsign, 1, 22).derived(slope(slopeSoftsign)),
	attrMap("Gelu", gelu, 20).derived(gradGelu),
	floatMap("Mish", func(x float64) float64 {
		return x * math.Tanh(softplus(x))
	}, 18, 22).derived(slope(slopeMish)),
	attrMap("Swish", func(c *Call) (func(float64) float64, error) {
		return swish(c.alpha(1)), nil
	}, 24).derived(slope(slopeSwish)),
	{Name: "SwiGLU", Since: []int{28}, MinIn: 2, MaxIn: 2, Traits: Elementwise, Infer: inferSwiGLU,
		Eval: InFloat32(evalSwiGLU), grad: gradSwiGLU},
	{Name: "Shrink", Since: []int{9}, MinIn: 1, MaxIn: 1, Traits: Elementwise,
		Infer: SameAsInput(numberTypes),
		Eval:  InFloat32(evalShrink), grad: gradShrink},
	{Name: "Clip", Since: []int{1, 6, 11, 12, 13}, MinIn: 1, MaxIn: 3, Traits: Elementwise,
		Infer: inferClip,
		Eval:  evalClip, grad: gradClip},
}

// attr returns a float attribute in the type that functions compute in.
//
//go:noinline
func (c *Call) attr(name string, def float32) float64 { return float64(c.Attrs.Float(name, def)) }

//go:noinline
func (c *Call) alpha(def float32) float64 { return c.attr("alpha", def) }

// relu keeps NaN, as max(0, x) of numpy does.
func relu(x float64) float64 {
	if x < 0 {
		return 0
	}
	return x
}

func leakyRelu(alpha float64) func(float64) float64 {
	return func(x float64) float64 {
		if x < 0 {
			return alpha * x
		}
		return x
	}
}

func elu(alpha float64) func(float64) float64 {
	return func(x float64) float64 {
		if x < 0 {
			return alpha * math.Expm1(x)
		}
		return x
	}
}

func selu(alpha, gamma float64) func(float64) float64 {
	return func(x float64) float64 {
		if x <= 0 {
			return gamma * alpha * math.Expm1(x)
		}
		return gamma * x
	}
}

func thresholdedRelu(alpha float64) func(float64) float64 {
	return func(x float64) float64 {
		if x > alpha {
			return x
		}
		return 0
	}
}

func sigmoid(x float64) float64 { return 1 / (1 + math.Exp(-x)) }

func hardSigmoid(alpha, beta float64) func(float64) float64 {
	return func(x float64) float64 { return math.Max(0, math.Min(1, alpha*x+beta)) }
}

func hardSwish(x float64) float64 { return x * math.Max(0, math.Min(1, x/6+0.5)) }

// softplus is log(1 + exp(x)), written so that exp does not overflow.
func softplus(x float64) float64 { return math.Max(x, 0) + math.Log1p(math.Exp(-math.Abs(x))) }

func softsign(x float64) float64 { return x / (1 + math.Abs(x)) }

func swish(alpha float64) func(float64) float64 {
	return func(x float64) float64 { return x * sigmoid(alpha*x) }
}

// gelu is the Gaussian error linear unit (Hendrycks and Gimpel 2016): exact by erf, or the paper's
// tanh approximation.
func gelu(c *Call) (func(float64) float64, error) {
	switch mode := c.Attrs.String("approximate", "none"); mode {
	case "none":
		return geluExact, nil
	case "tanh":
		return geluTanh, nil
	default:
		return nil, c.Errorf(ErrAttr, "approximate is %q, must be none or tanh", mode)
	}
}

func geluExact(x float64) float64 { return 0.5 * x * (1 + math.Erf(x/math.Sqrt2)) }

func geluTanh(x float64) float64 {
	return 0.5 * x * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
}

// inferPRelu gives the shape of X: the slope broadcasts to it, never the other way round.
func inferPRelu(c *Infer) error {
	if _, err := c.SameDType(numberTypes, c.DTypes()...); err != nil {
		return err
	}
	x, slope := c.In[0], c.In[1]
	if x.Ranked && slope.Ranked {
		for i := range slope.Shape {
			k := len(x.Shape) - len(slope.Shape) + i
			s, known := slope.Shape[i].Int()
			if k < 0 {
				return c.Errorf(ErrInput, "slope %v does not broadcast to X %v", slope, x)
			}
			if n, ok := x.Shape[k].Int(); known && ok && s != 1 && s != n {
				return c.Errorf(ErrInput, "slope %v does not broadcast to X %v", slope, x)
			}
		}
	}
	return SameAsInput(numberTypes)(c)
}

// sloped is x, times s below zero.
var sloped = binaryFuncs{
	i: func(x, s int64) int64 {
		if x < 0 {
			return x * s
		}
		return x
	},
	u: func(x, _ uint64) uint64 { return x },
	f: func(x, s float64) float64 { return leakyRelu(s)(x) },
}

func evalPRelu(c *Eval) error {
	d, err := c.SameDType(numberTypes, c.DTypes()...)
	if err != nil {
		return err
	}
	x, slope := c.In[0], c.In[1]
	if to, err := BroadcastShapes(x.Shape, slope.Shape); err != nil || !slices.Equal(to, x.Shape) {
		return c.Errorf(ErrInput, "slope %v does not broadcast to X %v", slope.Shape, x.Shape)
	}
	out, err := c.Output(0, d, x.Shape)
	if err != nil {
		return err
	}
	sloped.fold(out, c.In, broadcastWalk(x.Shape, x.Shape, slope.Shape))
	return nil
}

// evalShrink: x + bias below -lambd, x - bias above lambd, 0 between.
func evalShrink(c *Eval) error {
	x, out, err := c.OutputLike(numberTypes)
	if err != nil {
		return err
	}
	bias, lambd := c.attr("bias", 0), c.attr("lambd", 0.5)
	v, err := x.Floats()
	if err != nil {
		return err
	}
	for i, a := range v {
		switch {
		case a < -lambd:
			setFloat(out, i, a+bias)
		case a > lambd:
			setFloat(out, i, a-bias)
		default:
			setFloat(out, i, 0)
		}
	}
	return nil
}

func inferClip(c *Infer) error {
	if _, err := c.SameDType(numberTypes, c.DTypes()...); err != nil {
		return err
	}
	return SameAsInput(numberTypes)(c)
}

// evalClip bounds each element from below, then from above, so that max wins where min exceeds it.
// A bound that is left out is the least or the greatest number of the type, so that infinities
// become those.
func evalClip(c *Eval) error {
	greatest := greatestOf(c.In[0].DType)
	return InFloat32(func(c *Eval) error { return c.evalClip(greatest) })(c)
}

// greatestOf is the greatest finite number of a float type.
func greatestOf(d tensor.DType) float64 {
	switch d {
	case tensor.Float16:
		return 65504
	case tensor.BFloat16:
		return 0x1.fep127
	case tensor.Float32:
		return math.MaxFloat32
	}
	return math.MaxFloat64
}

func (c *Eval) evalClip(greatest float64) error {
	x := c.In[0]
	if _, err := c.SameDType(numberTypes, c.DTypes()...); err != nil {
		return err
	}
	lo, err := c.clipBound("min", 1)
	if err != nil {
		return err
	}
	hi, err := c.clipBound("max", 2)
	if err != nil {
		return err
	}
	fs := clip(lo, hi, greatest)
	out, err := c.Output(0, x.DType, x.Shape)
	if err != nil {
		return err
	}
	fs.apply(out, x)
	return nil
}

// clip bounds numbers by scalars of their type, either of which may be nil. It reads them once,
// since the output may take the place of any operand of its size.
func clip(lo, hi *tensor.Tensor, greatest float64) unaryFuncs {
	iLo, iHi := int64(math.MinInt64), int64(math.MaxInt64)
	uLo, uHi := uint64(0), uint64(math.MaxUint64)
	fLo, fHi := -greatest, greatest
	if lo != nil {
		iLo, uLo, fLo = scalarOf(lo)
	}
	if hi != nil {
		iHi, uHi, fHi = scalarOf(hi)
	}
	return unaryFuncs{
		i: func(x int64) int64 { return min(max(x, iLo), iHi) },
		u: func(x uint64) uint64 { return min(max(x, uLo), uHi) },
		f: func(x float64) float64 { return minOf(maxOf(x, fLo), fHi) },
	}
}

// scalarOf returns the only element of a number tensor as each kind of number.
func scalarOf(t *tensor.Tensor) (i int64, u uint64, f float64) {
	if fs, err := t.Floats(); err == nil {
		f = fs[0]
	}
	if is, err := t.Ints(); err == nil {
		i, u = is[0], uint64(is[0])
	}
	return i, u, f
}

// clipBound returns a bound, an attribute before version 11 and an input from then on; nil when
// there is none.
func (c *Eval) clipBound(name string, input int) (*tensor.Tensor, error) {
	if c.Version >= 11 {
		if !c.Has(input) {
			return nil, nil
		}
		if n := c.In[input].Len(); n != 1 {
			return nil, c.Errorf(ErrInput, "%s has shape %v, must be a scalar", name,
				c.In[input].Shape)
		}
		return c.In[input], nil
	}
	if !c.Attrs.Has(name) {
		return nil, nil
	}
	b, err := tensor.New(c.In[0].DType)
	if err == nil {
		setFloat(b, 0, c.attr(name, 0))
	}
	return b, err
}

func inferSwiGLU(c *Infer) error {
	a, b := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, a.DType, b.DType); err != nil {
		return err
	}
	if a.Ranked && b.Ranked && !slices.EqualFunc(a.Shape, b.Shape, Dim.MayEqual) {
		return c.Errorf(ErrInput, "A %v and B %v differ in shape", a, b)
	}
	return SameAsInput(floatTypes)(c)
}

// evalSwiGLU is Swish of the gate A, times B (Shazeer 2020, §2).
func evalSwiGLU(c *Eval) error {
	a, b := c.In[0], c.In[1]
	d, err := c.SameDType(floatTypes, a.DType, b.DType)
	if err != nil {
		return err
	}
	if !slices.Equal(a.Shape, b.Shape) {
		return c.Errorf(ErrInput, "A %v and B %v differ in shape", a.Shape, b.Shape)
	}
	out, err := c.Output(0, d, a.Shape)
	if err != nil {
		return err
	}
	f := swish(c.alpha(1))
	binaryFuncs{f: func(x, y float64) float64 {
		return f(x) * y
	}}.fold(out, c.In, broadcastWalk(a.Shape, a.Shape, b.Shape))
	return nil
}
