package op

import (
	"math"
	"math/rand/v2"

	"github.com/weirgpu/weir/tensor"
)

// randomOps draw numbers: RandomNormal, RandomUniform and their Like forms. With the attribute seed they repeat
// themselves from call to call, and differ from other implementations, since ONNX names no generator.
var randomOps = []Op{
	{Name: "RandomNormal", Since: []int{1, 22}, Traits: Impure, Infer: inferRandom, Eval: evalRandom(normal)},
	{Name: "RandomUniform", Since: []int{1, 22}, Traits: Impure, Infer: inferRandom, Eval: evalRandom(uniform)},
	{Name: "RandomNormalLike", Since: []int{1, 22}, MinIn: 1, MaxIn: 1, Traits: Impure | ShapeOnly,
		Infer: inferRandom, Eval: evalRandom(normal)},
	{Name: "RandomUniformLike", Since: []int{1, 22}, MinIn: 1, MaxIn: 1, Traits: Impure | ShapeOnly,
		Infer: inferRandom, Eval: evalRandom(uniform)},
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
