package op

import (
	"math"

	"github.com/weirgpu/weir/tensor"
)

// trainingDomain is where ONNX keeps the operators of training loops.
const trainingDomain = "ai.onnx.preview.training"

// trainingOps are the steps of optimisers on any number of tensors. Inputs are the learning rate R,
// the update count T, then the tensors X, their gradients G, and one or two kinds of history;
// outputs are the new X and the new histories.
var trainingOps = []Op{
	optimizer("Adagrad", 1, newAdagrad),
	optimizer("Adam", 2, newAdam),
	optimizer("Momentum", 1, newMomentum),
}

// update computes one element: its new value and histories.
type update func(x, g float64, history [2]float64) (float64, [2]float64)

func optimizer(name string, histories int,
	of func(c *Call, rate float64, count int64) (update, error)) Op {
	return Op{Domain: trainingDomain, Name: name, Since: []int{1}, MinIn: 4 + histories, MaxIn: -1,
		MinOut: 1, MaxOut: -1,
		Infer: func(c *Infer) error { return inferOptimizer(c, histories) },
		Eval:  func(c *Eval) error { return evalOptimizer(c, histories, of) }}
}

var wideFloats = SetOf(tensor.Float32, tensor.Float64)

// optimized is how many tensors a call optimises.
func (c *Call) optimized(histories int) (int, error) {
	n := (c.NumIn - 2) / (2 + histories)
	if (c.NumIn-2)%(2+histories) != 0 || c.NumOut > n*(1+histories) {
		return 0, c.Errorf(ErrInput,
			"%d inputs and %d outputs: wants R, T and %d for each tensor, gives %d", c.NumIn,
			c.NumOut, 2+histories, 1+histories)
	}
	return n, nil
}

func inferOptimizer(c *Infer, histories int) error {
	n, err := c.optimized(histories)
	if err != nil {
		return err
	}
	for i, t := range c.In[2:] {
		if _, err := c.SameDType(wideFloats, t.DType); err != nil {
			return err
		}
		if x := c.In[2+i%n]; t.Ranked && x.Ranked && len(t.Shape) != len(x.Shape) {
			return c.Errorf(ErrInput, "input %d is %v, its tensor %v", i+2, t, x)
		}
	}
	for i := range c.Out {
		from := c.In[2+i]
		if i >= n {
			from = c.In[2+n+i]
		}
		c.Out[i] = Type{DType: from.DType, Ranked: from.Ranked, Shape: from.Shape}
	}
	return nil
}

func evalOptimizer(c *Eval, histories int, of func(*Call, float64, int64) (update, error)) error {
	n, err := c.optimized(histories)
	if err != nil {
		return err
	}
	rate, err := c.Floats(0)
	if err != nil {
		return err
	}
	t, err := c.Int(1)
	if err != nil {
		return err
	}
	if len(rate) != 1 {
		return c.Errorf(ErrInput, "R has %d elements, wants one", len(rate))
	}
	step, err := of(c.Call, rate[0], t)
	if err != nil {
		return err
	}
	for i := range n {
		if err := c.optimize(i, n, histories, step); err != nil {
			return err
		}
	}
	return nil
}

// optimize updates tensor i of n.
func (c *Eval) optimize(i, n, histories int, step update) error {
	x := c.In[2+i]
	v, err := c.readOptimized(i, n, histories)
	if err != nil {
		return err
	}
	v.step(histories, step)
	for k := range 1 + histories {
		if !c.Want(i + k*n) {
			continue
		}
		source := 0 // the new x, or the new history from behind the gradient
		if k > 0 {
			source = k + 1
		}
		out, err := c.Output(i+k*n, c.In[2+i+source*n].DType, x.Shape)
		if err != nil {
			return err
		}
		SetFloats(out, v[source])
	}
	return nil
}

// readOptimized reads what belongs to tensor i of n: the tensor, its gradient and its histories.
func (c *Eval) readOptimized(i, n, histories int) (v optimized, err error) {
	for k := range 2 + histories {
		at := 2 + i + k*n
		if c.In[at] == nil {
			return v, c.Errorf(ErrInput, "input %d is missing", at)
		}
		if _, err := c.SameDType(wideFloats, c.In[at].DType); err != nil {
			return v, err
		}
		if v[k], err = c.FloatsOf(at, c.In[2+i].Shape...); err != nil {
			return v, err
		}
	}
	return v, nil
}

// optimized are x, its gradient and its histories.
type optimized [4][]float64

// step updates every element of x and of its histories in place.
func (v *optimized) step(histories int, step update) {
	for e := range v[0] {
		var history [2]float64
		for k := range histories {
			history[k] = v[2+k][e]
		}
		v[0][e], history = step(v[0][e], v[1][e], history)
		for k := range histories {
			v[2+k][e] = history[k]
		}
	}
}

// newAdagrad is the step of Duchi, Hazan and Singer (2011), figure 1, with a decaying rate and L2
// regularisation.
func newAdagrad(c *Call, rate float64, count int64) (update, error) {
	r := rate / (1 + float64(count)*c.attr("decay_factor", 0))
	norm, epsilon := c.attr("norm_coefficient", 0), c.attr("epsilon", 1e-6)
	return func(x, g float64, history [2]float64) (float64, [2]float64) {
		g += norm * x
		h := history[0] + g*g
		return x - r*g/(math.Sqrt(h)+epsilon), [2]float64{h}
	}, nil
}

// newAdam is the step of Kingma and Ba (2015), algorithm 1, with L2 regularisation before and after
// it.
func newAdam(c *Call, rate float64, count int64) (update, error) {
	alpha, beta := c.attr("alpha", 0.9), c.attr("beta", 0.999)
	norm, post, epsilon := c.attr("norm_coefficient", 0), c.attr("norm_coefficient_post", 0),
		c.attr("epsilon", 1e-6)
	if count > 0 {
		t := float64(count)
		rate *= math.Sqrt(1-math.Pow(beta, t)) / (1 - math.Pow(alpha, t))
	}
	return func(x, g float64, history [2]float64) (float64, [2]float64) {
		g += norm * x
		v := alpha*history[0] + (1-alpha)*g
		h := beta*history[1] + (1-beta)*g*g
		x -= rate * v / (math.Sqrt(h) + epsilon)
		return (1 - post) * x, [2]float64{v, h}
	}, nil
}

// newMomentum is gradient descent with momentum: standard, or Nesterov's (Sutskever et al. 2013,
// §2).
func newMomentum(c *Call, rate float64, count int64) (update, error) {
	for _, name := range []string{"alpha", "beta", "norm_coefficient", "mode"} {
		if !c.Attrs.Has(name) {
			return nil, c.Errorf(ErrAttr, "%s is required", name)
		}
	}
	alpha, beta, norm := c.attr("alpha", 0), c.attr("beta", 0), c.attr("norm_coefficient", 0)
	if count == 0 {
		beta = 1
	}
	mode := c.Attrs.String("mode", "")
	if mode != "standard" && mode != "nesterov" {
		return nil, c.Errorf(ErrAttr, "mode %q, must be standard or nesterov", mode)
	}
	return func(x, g float64, history [2]float64) (float64, [2]float64) {
		g += norm * x
		v := alpha*history[0] + beta*g
		if mode == "nesterov" {
			return x - rate*(g+alpha*v), [2]float64{v}
		}
		return x - rate*v, [2]float64{v}
	}, nil
}
