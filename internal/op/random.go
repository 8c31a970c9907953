package op

import (
	"math"
	"math/rand/v2"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// randomOps draw numbers: RandomNormal, RandomUniform and their Like forms, Bernoulli and
// Multinomial. With the attribute seed every call draws the same numbers. They differ from those of
// other implementations, since ONNX prescribes no generator.
var randomOps = []Op{
	{Name: "RandomNormal", Since: []int{1, 22}, Traits: Impure, Infer: inferRandom,
		Eval: evalRandom(normal)},
	{Name: "RandomUniform", Since: []int{1, 22}, Traits: Impure, Infer: inferRandom,
		Eval: evalRandom(uniform)},
	{Name: "RandomNormalLike", Since: []int{1, 22}, MinIn: 1, MaxIn: 1, Traits: Impure | ShapeOnly,
		Infer: inferRandom, Eval: evalRandom(normal), flat: true},
	{Name: "RandomUniformLike", Since: []int{1, 22}, MinIn: 1, MaxIn: 1, Traits: Impure | ShapeOnly,
		Infer: inferRandom, Eval: evalRandom(uniform), flat: true},
	{Name: "Bernoulli", Since: []int{15, 22}, MinIn: 1, MaxIn: 1, Traits: Impure,
		Infer: inferBernoulli, Eval: evalBernoulli},
	{Name: "Multinomial", Since: []int{7, 22}, MinIn: 1, MaxIn: 1, Traits: Impure,
		Infer: inferMultinomial, Eval: evalMultinomial},
}

// normal draws from mean and scale, the standard deviation.
func normal(c *Call, r *rand.Rand) float64 {
	return r.NormFloat64()*float64(c.Attrs.Float("scale", 1)) + float64(c.Attrs.Float("mean", 0))
}

// uniform draws from low up to, not including, high.
func uniform(c *Call, r *rand.Rand) float64 {
	low, high := float64(c.Attrs.Float("low", 0)), float64(c.Attrs.Float("high", 1))
	return low + r.Float64()*(high-low)
}

// randomType is the attribute dtype, else a floating-point type of the input, else float32.
func randomType(c *Call, like tensor.DType) (tensor.DType, error) {
	def := tensor.Float32
	if like.IsFloat() {
		def = like
	}
	d := tensor.DType(c.Attrs.Int("dtype", int64(def)))
	if !d.IsFloat() {
		return 0, c.Errorf(ErrUnsupported, "random numbers of %v", d)
	}
	return d, nil
}

func inferRandom(c *Infer) error {
	if len(c.In) == 0 {
		shape, err := c.sizes(c.Attrs.Ints("shape"))
		if err != nil {
			return err
		}
		d, err := randomType(c.Call, tensor.Undefined)
		c.Out[0] = Concrete(d, shape...)
		return err
	}
	d, err := randomType(c.Call, c.In[0].DType)
	c.Out[0] = Type{DType: d, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return err
}

// randomOutput makes output 0 of the shape and type of attributes or of the input.
func (c *Eval) randomOutput() (*tensor.Tensor, error) {
	var like tensor.DType
	shape, err := c.sizes(c.Attrs.Ints("shape"))
	if err != nil {
		return nil, err
	}
	if len(c.In) > 0 {
		like, shape = c.In[0].DType, c.In[0].Shape
	}
	d, err := randomType(c.Call, like)
	if err != nil {
		return nil, err
	}
	return c.Output(0, d, shape)
}

// generator is seeded by attribute seed, else anew.
func (c *Call) generator() *rand.Rand {
	if c.Attrs.Has("seed") {
		return rand.New(rand.NewPCG(uint64(math.Float32bits(c.Attrs.Float("seed", 0))), 0))
	}
	return rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
}

func evalRandom(draw func(*Call, *rand.Rand) float64) func(*Eval) error {
	return func(c *Eval) error {
		out, err := c.randomOutput()
		if err != nil {
			return err
		}
		r := c.generator()
		for i, n := 0, out.Len(); i < n; i++ {
			v := [1]float64{draw(c.Call, r)}
			narrowFloats(out, i, v[:])
		}
		return nil
	}
}

// bernoulliType is the attribute dtype, else the type of the input.
func bernoulliType(c *Call, like tensor.DType) (tensor.DType, error) {
	if _, err := c.SameDType(floatTypes, like); err != nil {
		return 0, err
	}
	d := tensor.DType(c.Attrs.Int("dtype", int64(like)))
	if !(numberTypes | boolTypes).Has(d) && d != tensor.Undefined {
		return 0, c.Errorf(ErrAttr, "dtype %v is no type of number", d)
	}
	return d, nil
}

func inferBernoulli(c *Infer) error {
	d, err := bernoulliType(c.Call, c.In[0].DType)
	c.Out[0] = Type{DType: d, Ranked: c.In[0].Ranked, Shape: c.In[0].Shape}
	return err
}

// evalBernoulli draws 1 with the probability that the input says, else 0.
func evalBernoulli(c *Eval) error {
	d, err := bernoulliType(c.Call, c.In[0].DType)
	if err != nil {
		return err
	}
	p, err := c.Floats(0)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, c.In[0].Shape)
	if err != nil {
		return err
	}
	r := c.generator()
	for i, v := range p {
		if !(v >= 0 && v <= 1) {
			return c.Errorf(ErrInput, "element %d is %v, no probability", i, v)
		}
		p[i] = 0
		if r.Float64() < v {
			p[i] = 1
		}
	}
	return castInto(c.Call, out, tensor.From(p, out.Shape...))
}

// multinomialSize reads the attributes of Multinomial.
func multinomialSize(c *Call) (tensor.DType, int, error) {
	d, n := tensor.DType(c.Attrs.Int("dtype", int64(tensor.Int32))), c.Attrs.Int("sample_size", 1)
	if d != tensor.Int32 && d != tensor.Int64 {
		return d, 0, c.Errorf(ErrAttr, "dtype %v, must be int32 or int64", d)
	}
	if n < 1 || n > math.MaxInt32 {
		return d, 0, c.Errorf(ErrAttr, "sample_size is %d, must be positive", n)
	}
	return d, int(n), nil
}

func inferMultinomial(c *Infer) error {
	x, _, err := c.PropagateDType(floatTypes)
	if err != nil {
		return err
	}
	d, n, err := multinomialSize(c.Call)
	if err != nil {
		return err
	}
	c.Out[0] = Ranked(d, Unknown(), Known(n))
	if x.Ranked {
		if len(x.Shape) != 2 {
			return c.Errorf(ErrInput, "input %v must be batch × classes", x)
		}
		c.Out[0].Shape[0] = x.Shape[0]
	}
	return nil
}

// evalMultinomial draws classes by the logarithms of their weights, which need not add up to
// anything.
func evalMultinomial(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	d, n, err := multinomialSize(c.Call)
	if err != nil {
		return err
	}
	if x.Rank() != 2 || x.Shape[1] == 0 {
		return c.Errorf(ErrInput, "input %v must be batch × classes", x.Shape)
	}
	logs, err := c.Floats(0)
	if err != nil {
		return err
	}
	out, err := c.Output(0, d, []int{x.Shape[0], n})
	if err != nil {
		return err
	}
	r, classes := c.generator(), x.Shape[1]
	for b := range x.Shape[0] {
		weights := logs[b*classes:][:classes]
		refmath.Softmax(weights, weights)
		for s := range n {
			setInt(out, b*n+s, int64(choose(weights, r.Float64())))
		}
	}
	return nil
}

// choose returns the class whose part of [0, 1) holds u.
func choose(weights []float64, u float64) int {
	for i, w := range weights {
		if u -= w; u < 0 {
			return i
		}
	}
	return len(weights) - 1
}
