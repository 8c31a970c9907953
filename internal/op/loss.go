package op

import (
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
)

// loss holds the classification losses. Scores are N × classes × positions, labels N × positions.
var loss = []Op{
	{Name: "NegativeLogLikelihoodLoss", Since: []int{12, 13, 22}, MinIn: 2, MaxIn: 3,
		Infer: inferLoss,
		Eval:  InFloat32(evalLikelihoodLoss), parts: partsOfLikelihoodLoss},
	{Name: "SoftmaxCrossEntropyLoss", Since: []int{12, 13}, MinIn: 2, MaxIn: 3, MinOut: 1,
		MaxOut: 2, Infer: inferLoss,
		Eval: InFloat32(evalSoftmaxLoss), parts: partsOfSoftmaxLoss},
}

// reductionMode returns attribute reduction: none, sum or mean.
func (c *Call) reductionMode() (string, error) {
	r := c.Attrs.String("reduction", "mean")
	if r != "none" && r != "sum" && r != "mean" {
		return "", c.Errorf(ErrAttr, "reduction is %q, must be none, sum or mean", r)
	}
	return r, nil
}

// inferLoss shapes the loss, like the labels or a scalar, and the log probabilities, like the
// scores.
func inferLoss(c *Infer) error {
	scores, labels := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, scores.DType); err != nil {
		return err
	}
	mode, err := c.reductionMode()
	if err != nil {
		return err
	}
	if len(c.Out) > 1 {
		c.Out[1] = Type{DType: scores.DType, Ranked: scores.Ranked, Shape: scores.Shape}
	}
	if scores.Ranked && len(scores.Shape) < 2 {
		return c.Errorf(ErrInput, "scores %v must be N × classes", scores)
	}
	c.Out[0] = Type{DType: scores.DType, Ranked: labels.Ranked, Shape: labels.Shape}
	if mode != "none" {
		c.Out[0] = Ranked(scores.DType)
	}
	return nil
}

// evalLikelihoodLoss is the negative log likelihood of log probabilities.
func evalLikelihoodLoss(c *Eval) error {
	if _, err := c.SameDType(floatTypes, c.In[0].DType); err != nil {
		return err
	}
	logs, err := c.Floats(0)
	if err != nil {
		return err
	}
	return c.evalLoss(logs)
}

// evalSoftmaxLoss is the negative log likelihood of the log-softmax over the classes.
func evalSoftmaxLoss(c *Eval) error {
	x := c.In[0]
	if _, err := c.SameDType(floatTypes, x.DType); err != nil {
		return err
	}
	if x.Rank() < 2 {
		return c.Errorf(ErrInput, "scores %v must be N × classes", x.Shape)
	}
	logs, err := x.Floats()
	if err != nil {
		return err
	}
	if len(logs) > 0 {
		mapVectors(logs, slices.Clone(logs), x.Shape[1], count(x.Shape[2:]), refmath.LogSoftmax)
	}
	if err := c.evalLoss(logs); err != nil || !c.Want(1) {
		return err
	}
	out, err := c.Output(1, x.DType, x.Shape)
	if err != nil {
		return err
	}
	SetFloats(out, logs)
	return nil
}

// evalLoss reduces the losses at the positions as attribute reduction says; mean divides their sum
// by that of their weights.
func (c *Eval) evalLoss(logs []float64) error {
	mode, err := c.reductionMode()
	if err != nil {
		return err
	}
	each, weight, err := c.lossEach(logs)
	if err != nil {
		return err
	}
	shape := []int{}
	switch mode {
	case "none":
		shape = c.In[1].Shape
	case "sum":
		each = []float64{sumOf(each)}
	case "mean":
		each = []float64{sumOf(each) / weight}
	}
	out, err := c.Output(0, c.In[0].DType, shape)
	if err != nil {
		return err
	}
	SetFloats(out, each)
	return nil
}

// lossEach returns -weight[label] · logs[label] at each position, 0 where the label is
// ignore_index, and the sum of the weights of the others.
func (c *Eval) lossEach(logs []float64) (each []float64, weight float64, err error) {
	labels, weights, err := c.lossOperands()
	if err != nil {
		return nil, 0, err
	}
	classes, plane := c.In[0].Shape[1], count(c.In[0].Shape[2:])
	each = make([]float64, len(labels))
	for i, l := range labels {
		if c.Attrs.Has("ignore_index") && l == c.Attrs.Int("ignore_index", 0) {
			continue
		}
		if l < 0 || l >= int64(classes) {
			return nil, 0, c.Errorf(ErrInput, "label %d at %d is outside the %d classes", l, i,
				classes)
		}
		each[i] = -weights[l] * logs[(i/plane*classes+int(l))*plane+i%plane]
		weight += weights[l]
	}
	return each, weight, nil
}

// lossOperands returns the labels and one weight a class, 1 without input 2.
func (c *Eval) lossOperands() ([]int64, []float64, error) {
	scores, labels := c.In[0].Shape, c.In[1].Shape
	if len(scores) < 2 || !slices.Equal(labels, slices.Delete(slices.Clone(scores), 1, 2)) {
		return nil, nil, c.Errorf(ErrInput, "labels %v do not fit scores %v", labels, scores)
	}
	l, err := c.Ints(1)
	if err != nil {
		return nil, nil, err
	}
	if !c.Has(2) {
		if len(l) == 0 {
			return l, nil, nil
		}
		return l, slices.Repeat([]float64{1}, scores[1]), nil
	}
	w, err := c.FloatsOf(2, scores[1])
	return l, w, err
}
