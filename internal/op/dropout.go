package op

import (
	"math/rand/v2"

	"github.com/weirgpu/weir/tensor"
)

// dropoutOps is Dropout (Srivastava et al. 2014).
var dropoutOps = []Op{
	{Name: "Dropout", Since: []int{7, 10, 12, 13, 22}, MinIn: 1, MaxIn: 3, MinOut: 1, MaxOut: 2,
		Infer: inferDropout,
		Eval:  evalDropout, Draws: func(c *Call) bool {
			return c.NumIn > 2 && !c.Attrs.Has("seed")
		}, grad: gradDropout},
}

// inferDropout gives the data its type and the mask the same shape; the mask is of the data's type
// before version 10.
func inferDropout(c *Infer) error {
	if err := SameAsInput(floatTypes | float8Types)(c); err != nil {
		return err
	}
	if len(c.Out) > 1 {
		c.Out[1] = c.Out[0]
		if c.Version >= 10 {
			c.Out[1].DType = tensor.Bool
		}
	}
	return nil
}

// evalDropout lets the data through in inference. In training it drops each element with
// probability ratio and scales the others by 1/(1-ratio).
func evalDropout(c *Eval) error {
	ratio, err := c.dropRatio()
	if err != nil {
		return err
	}
	if ratio > 0 {
		return c.drop(ratio)
	}
	x, out, err := c.OutputLike(floatTypes | float8Types)
	if err != nil {
		return err
	}
	copy(out.Data, x.Data)
	if c.Want(1) {
		return c.keepAll(x)
	}
	return nil
}

// keepAll makes output 1, the mask of Dropout, which keeps every element of x; it is of the type of
// x before version 10.
func (c *Eval) keepAll(x *tensor.Tensor) error {
	d := tensor.Bool
	if c.Version < 10 {
		d = x.DType
	}
	mask, err := c.Output(1, d, x.Shape)
	if err != nil {
		return err
	}
	for i := range mask.Len() {
		setOne(mask, i)
	}
	return nil
}

func setOne(t *tensor.Tensor, i int) {
	switch t.DType {
	case tensor.Bool:
		t.Data[i] = 1
	case tensor.Float16:
		tensor.As[tensor.Half](t)[i] = tensor.HalfOf(1)
	case tensor.BFloat16:
		tensor.As[tensor.BHalf](t)[i] = tensor.BHalfOf(1)
	default:
		setFloat(t, i, 1)
	}
}

// dropRatio is the probability by which elements are dropped: 0 unless input training_mode (since
// version 12) is true, else input ratio, 0.5 without it.
func (c *Eval) dropRatio() (float64, error) {
	if c.Version < 12 || !c.Has(2) {
		return 0, nil
	}
	if training, err := c.condition(2); err != nil || !training {
		return 0, err
	}
	if !c.Has(1) {
		return 0.5, nil
	}
	ratio, err := c.Floats(1)
	if err != nil {
		return 0, err
	}
	if len(ratio) != 1 || !(ratio[0] >= 0 && ratio[0] < 1) {
		return 0, c.Errorf(ErrInput, "ratio is %v, must be one number in [0, 1)", ratio)
	}
	return ratio[0], nil
}

// drop is training. With attribute seed the draws are those of NumPy's RandomState, as in ONNX's
// own implementation; ONNX names no generator.
func (c *Eval) drop(ratio float64) error {
	v, out, err := c.normInput(0)
	if err != nil {
		return err
	}
	mask := make([]bool, len(v))
	draw := newTwister(uint32(c.seed()))
	for i := range v {
		if mask[i] = draw.float64() >= ratio; !mask[i] {
			v[i] = 0
		}
		v[i] *= 1 / (1 - ratio)
	}
	if err := c.round(out, v); err != nil || !c.Want(1) {
		return err
	}
	keep, err := c.Output(1, tensor.Bool, out.Shape)
	if err == nil {
		copy(tensor.As[bool](keep), mask)
	}
	return err
}

// seed is attribute seed, an integer, else one at random.
func (c *Call) seed() int64 {
	if c.Attrs.Has("seed") {
		return c.Attrs.Int("seed", 0)
	}
	return rand.Int64()
}
