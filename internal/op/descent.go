package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/tensor"
)

// Operators of weir's domain by which gradients change weights, each in one pass over a weight and
// what its optimizer keeps of it. Operands but the numbers have the shape and type of the weight.
//
//	w'              = weir:SGD(w, g, rate, ratio?, apply?)
//	w', v'          = weir:Momentum(w, g, v, rate, apply?)
//	w', s'          = weir:Adagrad(w, g, s, rate, apply?)
//	w', m', v'      = weir:Adam(w, g, m, v, rate, root, keep?, apply?)
//	step, m', v'    = weir:LAMB(w, g, m, v, first, root, apply?)
//
// The first is w - g·ratio·rate. weir:LAMB gives the step, which is scaled to the size of the
// weight before weir:SGD takes it. Operand apply is a condition: where it is not so, all results
// but the step are what they were. Attributes keep1 and keep2 are what moments keep of themselves,
// take1 and take2 what they take of the gradient and of its square; keep, an operand, is what Adam
// keeps of a weight (AdamW); decay is what is added to the gradient, or to LAMB's step, of a
// weight; root corrects the root of the second moment, first the first moment; epsilon is added to
// divisors. Papers: see the optimizers of package train/step. Each operation rounds to the type of
// the weight, in the order in which the definitions below write them, so that whoever computes them
// gives the same bits.
const (
	SGD      = "SGD"
	Momentum = "Momentum"
	Adagrad  = "Adagrad"
	Adam     = "Adam"
	LAMB     = "LAMB"
)

// Attributes of the operators above.
const (
	DescentKeep1    = "keep1"
	DescentTake1    = "take1"
	DescentKeep2    = "keep2"
	DescentTake2    = "take2"
	DescentDecay    = "decay"
	DescentEpsilon  = "epsilon"
	DescentMomentum = "momentum"
	DescentNesterov = "nesterov"
)

var descentOps = []Op{
	descent(SGD, descentShape{0, 1, 2}, 3, stepSGD[float32], stepSGD[float64]),
	descent(Momentum, descentShape{1, 1, 1}, 6, stepMomentum[float32], stepMomentum[float64]),
	descent(Adagrad, descentShape{1, 1, 1}, 7, stepAdagrad[float32], stepAdagrad[float64]),
	descent(Adam, descentShape{2, 2, 2}, 14, stepAdam[float32], stepAdam[float64]),
	descent(LAMB, descentShape{2, 2, 1}, 13, stepLAMB[float32], stepLAMB[float64]),
}

// descentShape says what operands an optimizer has behind a weight and its gradient: histories,
// then numbers that it must be given, then those that may be left out, the last of which is the
// condition.
type descentShape struct{ histories, numbers, optional int }

func (d descentShape) least() int     { return 2 + d.histories + d.numbers }
func (d descentShape) most() int      { return d.least() + d.optional }
func (d descentShape) condition() int { return d.most() - 1 }

// descent is the row of an optimizer. Derivatives do not go through it.
func descent(name string, d descentShape, flops int64, narrow descentStep[float32],
	wide descentStep[float64]) Op {
	return Op{Domain: FusedDomain, Name: name, Since: []int{1}, MinIn: d.least(), MaxIn: d.most(),
		MinOut: 1, MaxOut: 1 + d.histories,
		Infer: func(c *Infer) error { return inferDescent(c, d) },
		Eval: func(c *Eval) error {
			w, err := c.SameDType(wideFloats, c.In[0].DType)
			if err != nil {
				return err
			}
			if w == tensor.Float32 {
				return evalDescent(c, d, narrow)
			}
			return evalDescent(c, d, wide)
		},
		Flops: FlopsPerElement(flops)}
}

// inferDescent is the rule of an optimizer: its first operands are alike, those that follow are
// numbers, and the last is a condition.
func inferDescent(c *Infer, d descentShape) error {
	w, alike := c.In[0], 2+d.histories
	for i, t := range c.In {
		switch {
		case !c.Present[i]:
			continue
		case i == d.condition():
			if _, err := c.SameDType(SetOf(tensor.Bool), t.DType); err != nil {
				return err
			}
		default:
			if _, err := c.SameDType(wideFloats, w.DType, t.DType); err != nil {
				return err
			}
		}
		if i >= alike && t.Ranked && len(t.Shape) > 0 {
			return c.Errorf(ErrInput, "input %d is %v, must be a number", i, t)
		}
		if i < alike && t.Ranked && w.Ranked && !sameSizes(t.Shape, w.Shape) {
			return c.Errorf(ErrInput, "input %d is %v, the weight %v", i, t, w)
		}
	}
	for i := range c.Out {
		from := c.In[0]
		if i > 0 {
			from = c.In[1+i]
		}
		c.Out[i] = from.withoutContents()
	}
	return nil
}

// trained are the types of weights.
type trained interface{ float32 | float64 }

// descentStep is what one element of a weight and of its histories becomes; numbers are operands,
// has says which of them are given.
type descentStep[T trained] func(k *descentRule[T], w, g T, was [2]T) (to T, next [2]T)

// descentRule is a call's numbers. Products are rounded before they are added to: a conversion
// keeps Go from fusing both.
type descentRule[T trained] struct {
	numbers                                              [4]T
	has                                                  [4]bool
	keep1, take1, keep2, take2, decay, epsilon, momentum T
	nesterov                                             bool
}

// evalDescent computes an optimizer element by element.
func evalDescent[T trained](c *Eval, d descentShape, step descentStep[T]) error {
	k, apply, err := newDescentRule[T](c, d)
	if err != nil {
		return err
	}
	var in [4][]T
	for i := range 2 + d.histories {
		t := c.In[i]
		if t.DType != c.In[0].DType || !slices.Equal(t.Shape, c.In[0].Shape) {
			return c.Errorf(ErrInput, "input %d is %v%v, the weight %v%v", i, t.DType, t.Shape,
				c.In[0].DType, c.In[0].Shape)
		}
		in[i] = tensor.As[T](t)
	}
	var out [3][]T
	for i := range c.NumOut {
		if !c.Want(i) {
			continue
		}
		t, err := c.Output(i, c.In[0].DType, c.In[0].Shape)
		if err != nil {
			return err
		}
		out[i] = tensor.As[T](t)
	}
	for e := range in[0] {
		var was [2]T
		for i := range d.histories {
			was[i] = in[2+i][e]
		}
		to, next := step(k, in[0][e], in[1][e], was)
		if !apply && c.Type != LAMB {
			to = in[0][e]
		}
		if !apply {
			next = was
		}
		for i, v := range []T{to, next[0], next[1]} {
			if out[i] != nil {
				out[i][e] = v
			}
		}
	}
	return nil
}

// newDescentRule reads the numbers of a call, and whether it is to be applied.
func newDescentRule[T trained](c *Eval, d descentShape) (*descentRule[T], bool, error) {
	number := func(name string) T { return T(c.attr(name, 0)) }
	k := &descentRule[T]{keep1: number(DescentKeep1), take1: number(DescentTake1),
		keep2: number(DescentKeep2), take2: number(DescentTake2), decay: number(DescentDecay),
		epsilon: number(DescentEpsilon), momentum: number(DescentMomentum),
		nesterov: c.Attrs.Bool(DescentNesterov, false)}
	apply := true
	for i := 2 + d.histories; i < len(c.In); i++ {
		t := c.In[i]
		if t == nil {
			continue
		}
		want := c.In[0].DType
		if i == d.condition() {
			want = tensor.Bool
		}
		if t.DType != want || t.Rank() != 0 {
			return nil, false, c.Errorf(ErrInput, "input %d is %v%v, must be a number of type %v",
				i, t.DType, t.Shape, want)
		}
		if i == d.condition() {
			apply = tensor.As[bool](t)[0]
			continue
		}
		k.numbers[i-2-d.histories], k.has[i-2-d.histories] = tensor.As[T](t)[0], true
	}
	return k, apply, nil
}

// decayed is the gradient with the decay of the weight.
func (k *descentRule[T]) decayed(w, g T) T {
	if k.decay == 0 {
		return g
	}
	return g + T(w*k.decay)
}

func stepSGD[T trained](k *descentRule[T], w, g T, _ [2]T) (T, [2]T) {
	step := k.decayed(w, g)
	if k.has[1] {
		step = T(step * k.numbers[1])
	}
	return w - T(step*k.numbers[0]), [2]T{}
}

func stepMomentum[T trained](k *descentRule[T], w, g T, was [2]T) (T, [2]T) {
	d := k.decayed(w, g)
	v := T(was[0]*k.momentum) + d
	step := v
	if k.nesterov {
		step = d + T(v*k.momentum)
	}
	return w - T(step*k.numbers[0]), [2]T{v}
}

func stepAdagrad[T trained](k *descentRule[T], w, g T, was [2]T) (T, [2]T) {
	d := k.decayed(w, g)
	sum := was[0] + T(d*d)
	step := d / (root(sum) + k.epsilon)
	return w - T(step*k.numbers[0]), [2]T{sum}
}

// root is the square root, rounded.
func root[T trained](v T) T { return T(math.Sqrt(float64(v))) }

// moments are those of a gradient, and the root of the second, which is not zero.
func (k *descentRule[T]) moments(d, correct T, was [2]T) (next [2]T, divisor T) {
	next[0] = T(was[0]*k.keep1) + T(d*k.take1)
	next[1] = T(was[1]*k.keep2) + T(T(d*d)*k.take2)
	return next, T(root(next[1])*correct) + k.epsilon
}

func stepAdam[T trained](k *descentRule[T], w, g T, was [2]T) (T, [2]T) {
	next, divisor := k.moments(k.decayed(w, g), k.numbers[1], was)
	if k.has[2] {
		w = T(w * k.numbers[2])
	}
	return w - T(T(next[0]/divisor)*k.numbers[0]), next
}

func stepLAMB[T trained](k *descentRule[T], w, g T, was [2]T) (T, [2]T) {
	next, divisor := k.moments(g, k.numbers[1], was)
	step := T(next[0]*k.numbers[0]) / divisor
	if k.decay != 0 {
		step += T(w * k.decay)
	}
	return step, next
}
