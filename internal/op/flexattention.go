package op

import (
	"fmt"
	"math"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// previewDomain is where ONNX keeps operators that may still change.
const previewDomain = "ai.onnx.preview"

// flexAttention is attention whose scores and weights pass through sub-graphs of the model's (Dong
// et al. 2024).
var flexAttention = []Op{
	{Domain: previewDomain, Name: "FlexAttention", Since: []int{1}, MinIn: 3, MaxIn: 3,
		Infer: inferFlexAttention,
		Eval:  evalFlexAttention, Flops: attentionFlops},
}

// flexPrecision is the type of scores and weights: attribute softmax_precision, else the operands'
// but at least float32.
func flexPrecision(c *Call, operand tensor.DType) (tensor.DType, error) {
	d := tensor.DType(c.Attrs.Int("softmax_precision", 0))
	switch {
	case !c.Attrs.Has("softmax_precision") && operand == tensor.Float64:
		return operand, nil
	case !c.Attrs.Has("softmax_precision"):
		return tensor.Float32, nil
	case !floatTypes.Has(d):
		return d, c.Errorf(ErrAttr, "softmax_precision %v is no floating-point type", d)
	}
	return d, nil
}

func inferFlexAttention(c *Infer) error {
	d, err := c.SameDType(floatTypes, c.In[AttentionQ].DType, c.In[AttentionK].DType,
		c.In[AttentionV].DType)
	if err != nil {
		return err
	}
	c.Out[0] = Unranked(d)
	precision, err := flexPrecision(c.Call, d)
	if err != nil {
		return err
	}
	scores := Unranked(precision)
	q, k, v := c.In[AttentionQ], c.In[AttentionK], c.In[AttentionV]
	for _, t := range []Type{q, k, v} {
		if t.Ranked && len(t.Shape) != 4 {
			return c.Errorf(ErrInput, "operand %v must be batch × heads × length × size", t)
		}
	}
	if q.Ranked && k.Ranked {
		scores = Ranked(precision, q.Shape[0], q.Shape[1], q.Shape[2], k.Shape[2])
	}
	if q.Ranked && v.Ranked {
		c.Out[0] = Ranked(d, q.Shape[0], q.Shape[1], q.Shape[2], v.Shape[3])
	}
	for _, name := range flexBodies {
		if err := c.inferModifier(name, scores); err != nil {
			return err
		}
	}
	return nil
}

// flexBodies are the sub-graphs, in the order in which they run.
var flexBodies = []string{"score_mod", "prob_mod"}

// modifier returns a sub-graph of one input and one output, nil when the call has none of that
// name.
func (c *Call) modifier(name string) (Body, error) {
	if !c.Attrs.Has(name) {
		return nil, nil
	}
	return c.body(name, 1, 1)
}

// inferModifier checks that a sub-graph keeps the type that it is given.
func (c *Infer) inferModifier(name string, scores Type) error {
	b, err := c.modifier(name)
	if b == nil {
		return err
	}
	captures := c.In[len(c.In)-c.Captures:]
	out, err := b.Infer(append([]Type{scores}, captures...))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	if _, err := joinTypes(c.Call, scores, out[0]); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// evalFlexAttention is softmax(score_mod(q·kᵀ·scale)) through prob_mod, times v. A key head serves
// as many query heads in a row as there are more of these.
func evalFlexAttention(c *Eval) error {
	q, k, v := c.In[AttentionQ], c.In[AttentionK], c.In[AttentionV]
	d, err := c.SameDType(floatTypes, q.DType, k.DType, v.DType)
	if err != nil {
		return err
	}
	precision, err := flexPrecision(c.Call, d)
	if err != nil {
		return err
	}
	if err := c.checkFlex(q.Shape, k.Shape, v.Shape); err != nil {
		return err
	}
	weights, err := c.flexWeights(precision, q.Shape, k.Shape)
	if err != nil {
		return err
	}
	values, err := c.Floats(AttentionV)
	if err != nil {
		return err
	}
	keys, size, group := k.Shape[2], v.Shape[3], q.Shape[1]/k.Shape[1]
	out, y, err := c.outputFloats(d, []int{q.Shape[0], q.Shape[1], q.Shape[2], size})
	if err != nil {
		return err
	}
	for p := range count(q.Shape[:3]) {
		head := p / q.Shape[2] / group
		refmath.AddProduct(y[p*size:], weights[p*keys:], 1, values[head*keys*size:], keys, size)
	}
	return c.round(out, y)
}

func (c *Eval) checkFlex(q, k, v []int) error {
	if len(q) != 4 || len(k) != 4 || len(v) != 4 || q[0] != k[0] || q[0] != v[0] || k[1] != v[1] ||
		k[2] != v[2] || q[3] != k[3] || k[1] == 0 || q[1]%k[1] != 0 || q[3] == 0 {
		return c.Errorf(ErrInput, "Q %v, K %v and V %v do not fit", q, k, v)
	}
	return nil
}

// flexWeights computes the weights, query after query.
func (c *Eval) flexWeights(precision tensor.DType, q, k []int) ([]float64, error) {
	queries, keys, err := c.FloatsPair(AttentionQ, AttentionK)
	if err != nil {
		return nil, err
	}
	shape := []int{q[0], q[1], q[2], k[2]}
	w, err := zeros(shape...)
	if err != nil {
		return nil, err
	}
	scale := float64(c.Attrs.Float("scale", float32(1/math.Sqrt(float64(q[3])))))
	for i := range w {
		query, key := i/k[2], i/k[2]/q[2]/(q[1]/k[1])*k[2]+i%k[2]
		w[i] = scale * refmath.Dot(queries[query*q[3]:][:q[3]], keys[key*q[3]:])
	}
	if w, err = c.modify("score_mod", precision, shape, w); err != nil {
		return nil, err
	}
	for at := 0; at < len(w); at += k[2] {
		refmath.Softmax(w[at:at+k[2]], w[at:at+k[2]])
	}
	return c.modify("prob_mod", precision, shape, w)
}

// modify passes scores or weights, rounded to the type that the sub-graph takes, through it.
func (c *Eval) modify(name string, precision tensor.DType, shape []int, v []float64) ([]float64,
	error) {
	b, err := c.modifier(name)
	if err != nil {
		return nil, err
	}
	t, err := tensor.New(precision, shape...)
	if err != nil {
		return nil, err
	}
	if err := c.round(t, v); err != nil {
		return nil, err
	}
	if b != nil {
		out, err := b.Eval(c.Ctx, append([]*tensor.Tensor{t}, c.CaptureTensors()...))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if t = out[0]; t == nil || t.DType != precision || t.Len() != len(v) || t.Rank() != 4 {
			return nil, c.Errorf(ErrInput, "%s gives %v, must give %v%v", name, t, precision, shape)
		}
	}
	return t.Floats()
}
