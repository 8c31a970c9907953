package op

import (
	"math"
	"slices"
)

// batchNorm is batch normalisation (Ioffe and Szegedy 2015). It computes in float64 and rounds
// once.
var batchNorm = []Op{
	{Name: "BatchNormalization", Since: []int{7, 9, 14, 15}, MinIn: 5, MaxIn: 5, MinOut: 1,
		MaxOut: 5,
		Infer:  inferBatchNorm, Eval: evalBatchNorm, Flops: FlopsPerElement(2),
		parts: partsOfBatchNorm},
}

// batchTraining reports whether the call normalises by the moments of the batch and updates the
// running statistics: attribute training_mode says so since version 14, and before, the outputs
// that only training has.
func (c *Call) batchTraining() (bool, error) {
	training := c.NumOut > 1
	if c.Version >= 14 {
		training = c.Attrs.Bool("training_mode", false)
		if most := 1 + 2*int(c.Attrs.Int("training_mode", 0)&1); c.NumOut > most {
			return training, c.Errorf(ErrInput, "has %d outputs, gives %d when training_mode is %t",
				c.NumOut, most, training)
		}
	}
	return training, nil
}

func inferBatchNorm(c *Infer) error {
	if _, err := c.batchTraining(); err != nil {
		return err
	}
	if err := SameAsInput(floatTypes)(c); err != nil {
		return err
	}
	for i := 1; i < len(c.Out); i++ {
		c.Out[i] = Unranked(c.In[4-i%2].DType) // mean after mean, variance after variance
	}
	x := c.In[0]
	if !x.Ranked {
		return nil
	}
	want := statistics(c.Call, x.Shape, Known(1))
	for i, t := range c.In[1:] {
		if t.Ranked && !slices.EqualFunc(t.Shape, want, Dim.MayEqual) {
			return c.Errorf(ErrInput, "input %d is %v, must have shape %v", i+1, t, want)
		}
	}
	for i := 1; i < len(c.Out); i++ {
		c.Out[i] = Ranked(c.Out[i].DType, want...)
	}
	return nil
}

// statistics is the shape of scale, B, mean and var: one number a channel or, when attribute
// spatial is 0 (versions 7 and 8), one for each place in a batch entry. An input of rank 1 is one
// channel.
func statistics[D any](c *Call, x []D, one D) []D {
	switch {
	case len(x) < 2:
		return []D{one}
	case c.Attrs.Bool("spatial", true):
		return x[1:2]
	}
	return x[1:]
}

// evalBatchNorm is (X - mean) / sqrt(var + epsilon) · scale + B, by the moments given or, in
// training, those of the batch.
func evalBatchNorm(c *Eval) error {
	training, err := c.batchTraining()
	if err != nil {
		return err
	}
	x, out, err := c.normInput(1)
	if err != nil {
		return err
	}
	stats := statistics(c.Call, out.Shape, 1)
	scale, b, err := c.FloatsPairOf(1, 2, stats...)
	if err != nil {
		return err
	}
	mu, variance, err := c.FloatsPairOf(3, 4, stats...)
	if err != nil {
		return err
	}
	epsilon, inner := c.attr("epsilon", 1e-5), count(out.Shape[min(1+len(stats), out.Rank()):])
	if training {
		given, givenVariance := mu, variance
		mu, variance = momentsOf(x, inner, len(scale))
		if err := c.runningMoments(given, mu, givenVariance, variance, stats); err != nil {
			return err
		}
	}
	for i, v := range x {
		k := i / inner % len(scale)
		x[i] = (v-mu[k])/math.Sqrt(variance[k]+epsilon)*scale[k] + b[k]
	}
	return c.round(out, x)
}

// momentsOf returns the mean and (population) variance of each of n groups; runs of inner elements
// take turns.
func momentsOf(x []float64, inner, n int) (mu, variance []float64) {
	mu, variance = make([]float64, n), make([]float64, n)
	each := float64(len(x) / max(n, 1))
	for i, v := range x {
		mu[i/inner%n] += v / each
	}
	for i, v := range x {
		d := v - mu[i/inner%n]
		variance[i/inner%n] += d * d / each
	}
	return mu, variance
}

// runningMoments makes the outputs of training that are asked for: the running moments, moved
// towards those of the batch by 1 - momentum, and those of the batch.
func (c *Eval) runningMoments(given, mu, givenVariance, variance []float64, shape []int) error {
	momentum := c.attr("momentum", 0.9)
	moved := func(from, to []float64) []float64 {
		for k := range from {
			from[k] = from[k]*momentum + to[k]*(1-momentum)
		}
		return from
	}
	for i, v := range [][]float64{moved(given, mu), moved(givenVariance, variance), mu, variance} {
		if !c.Want(i + 1) {
			break
		}
		out, err := c.Output(i+1, c.In[3+i%2].DType, shape)
		if err != nil {
			return err
		}
		if err := c.round(out, v); err != nil {
			return err
		}
	}
	return nil
}
