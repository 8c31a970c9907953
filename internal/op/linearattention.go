package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// linearAttention holds the layers that carry a state of fixed size from token to token:
// LinearAttention and the short convolution before it.
var linearAttention = []Op{
	{Name: "LinearAttention", Since: []int{27}, MinIn: 3, MaxIn: 6, MinOut: 1, MaxOut: 2,
		Infer: inferLinearAttention,
		Eval:  evalLinearAttention, Flops: linearAttentionFlops},
	{Name: "CausalConvWithState", Since: []int{27}, MinIn: 2, MaxIn: 4, MinOut: 1, MaxOut: 2,
		Infer: inferCausalConv,
		Eval:  InFloat32(evalCausalConv), Flops: causalConvFlops},
}

// Inputs of LinearAttention, in order.
const (
	linearQ = iota
	linearK
	linearV
	linearPast
	linearDecay
	linearBeta
)

// updateRule tells which terms the recurrence has.
type updateRule struct{ gated, delta bool }

var updateRules = map[string]updateRule{"linear": {}, "gated": {gated: true},
	"delta": {delta: true}, "gated_delta": {true, true}}

// linearRule reads attribute update_rule and holds the optional inputs to it.
func linearRule(c *Call, decay, beta bool) (updateRule, error) {
	name := c.Attrs.String("update_rule", "gated_delta")
	rule, ok := updateRules[name]
	switch {
	case !ok:
		return rule, c.Errorf(ErrAttr,
			"update_rule is %q, must be linear, gated, delta or gated_delta", name)
	case rule.gated != decay:
		return rule, c.Errorf(ErrInput,
			"update_rule %s and decay go together: rule wants it %t, given %t", name, rule.gated,
			decay)
	case rule.delta != beta:
		return rule, c.Errorf(ErrInput,
			"update_rule %s and beta go together: rule wants it %t, given %t", name, rule.delta,
			beta)
	}
	return rule, nil
}

// linearHeads reads how many heads queries, and keys and values, have.
func linearHeads(c *Call) (q, kv int, err error) {
	n, k := c.Attrs.Int("q_num_heads", 0), c.Attrs.Int("kv_num_heads", 0)
	if k < 1 || n < 1 || n > math.MaxInt32 || n%k != 0 {
		return 0, 0, c.Errorf(ErrAttr,
			"q_num_heads is %d, must be a positive multiple of kv_num_heads, %d", n, k)
	}
	return int(n), int(k), nil
}

func inferLinearAttention(c *Infer) error {
	d, err := c.SameDType(floatTypes, c.In[linearQ].DType, c.In[linearK].DType, c.In[linearV].DType)
	if err != nil {
		return err
	}
	if _, err := linearRule(c.Call, c.Has(linearDecay), c.Has(linearBeta)); err != nil {
		return err
	}
	hq, hk, err := linearHeads(c.Call)
	if err != nil {
		return err
	}
	state := d
	if c.Has(linearPast) {
		state = c.In[linearPast].DType
	}
	batch, length, dk, dv := Unknown(), Unknown(), Unknown(), Unknown()
	if q := c.In[linearQ]; q.Ranked {
		h, err := headsOf(c.Call, q.Shape, Known(hq), int64(hq), Dim.DivInt)
		if err != nil || len(q.Shape) != 3 {
			return c.Errorf(ErrInput, "query %v must be batch × length × %d heads", q, hq)
		}
		batch, length, dk = h.batch, h.length, h.size
	}
	if v := c.In[linearV]; v.Ranked {
		h, err := headsOf(c.Call, v.Shape, Known(hk), int64(hk), Dim.DivInt)
		if err != nil || len(v.Shape) != 3 {
			return c.Errorf(ErrInput, "value %v must be batch × length × %d heads", v, hk)
		}
		dv = h.size
	}
	c.Out[0] = Ranked(d, batch, length, dv.MulInt(hq))
	if len(c.Out) > 1 {
		c.Out[1] = Ranked(state, batch, Known(hk), dk, dv)
	}
	return nil
}

// recurrence is one checked LinearAttention. Operands are batch × length × heads·size, states batch
// × heads × dk × dv.
type recurrence struct {
	*Eval
	rule                  updateRule
	batch, length, hq, hk int
	dk, dv                int
	scale                 float64
	q, k, v, decay, beta  []float64
	state, out            []float64
	decayWidth, betaWidth int // elements of decay of one head, and of beta of one token
}

func evalLinearAttention(c *Eval) error {
	r := &recurrence{Eval: c}
	if err := r.sizes(); err != nil {
		return err
	}
	if err := r.read(); err != nil {
		return err
	}
	d := c.In[linearQ].DType
	out, err := c.Output(0, d, []int{r.batch, r.length, r.hq * r.dv})
	if err != nil {
		return err
	}
	r.out = make([]float64, out.Len())
	for i := range r.batch * r.hk * r.length {
		r.step(i/r.length/r.hk, i/r.length%r.hk, i%r.length)
	}
	if err := c.round(out, r.out); err != nil || !c.Want(1) {
		return err
	}
	if c.Has(linearPast) {
		d = c.In[linearPast].DType
	}
	present, err := c.Output(1, d, []int{r.batch, r.hk, r.dk, r.dv})
	if err != nil {
		return err
	}
	return c.round(present, r.state)
}

// sizes reads the attributes and the sizes of heads.
func (r *recurrence) sizes() (err error) {
	q, k, v := r.In[linearQ], r.In[linearK], r.In[linearV]
	if _, err := r.SameDType(floatTypes, q.DType, k.DType, v.DType); err != nil {
		return err
	}
	if r.rule, err = linearRule(r.Call, r.Has(linearDecay), r.Has(linearBeta)); err != nil {
		return err
	}
	if r.hq, r.hk, err = linearHeads(r.Call); err != nil {
		return err
	}
	if q.Rank() != 3 || v.Rank() != 3 || q.Shape[2]%r.hq != 0 || v.Shape[2]%r.hk != 0 {
		return r.Errorf(ErrInput,
			"query %v and value %v must be batch × length × heads·size of %d and %d heads", q.Shape,
			v.Shape, r.hq, r.hk)
	}
	r.batch, r.length, r.dk, r.dv = q.Shape[0], q.Shape[1], q.Shape[2]/r.hq, v.Shape[2]/r.hk
	if r.dk == 0 || r.dv == 0 {
		return r.Errorf(ErrInput, "query %v and value %v have heads of no size", q.Shape, v.Shape)
	}
	if r.scale = r.attr("scale", 0); r.scale == 0 {
		r.scale = 1 / math.Sqrt(float64(r.dk))
	}
	return nil
}

// read reads the operands. Decay is one a head or one an element of the key, beta one a head or one
// a token.
func (r *recurrence) read() (err error) {
	if r.q, err = r.Floats(linearQ); err != nil {
		return err
	}
	if r.k, err = r.FloatsOf(linearK, r.batch, r.length, r.hk*r.dk); err != nil {
		return err
	}
	if r.v, err = r.FloatsOf(linearV, r.batch, r.length, r.hk*r.dv); err != nil {
		return err
	}
	if r.decay, r.decayWidth, err = r.perToken(linearDecay, r.hk, r.hk*r.dk); err != nil {
		return err
	}
	r.decayWidth /= r.hk
	if r.beta, r.betaWidth, err = r.perToken(linearBeta, r.hk, 1); err != nil {
		return err
	}
	r.state, err = r.floatsOrZeros(linearPast, r.batch, r.hk, r.dk, r.dv)
	return err
}

// perToken reads an optional input, batch × length × one of two widths.
func (r *recurrence) perToken(i int, widths ...int) (v []float64, width int, err error) {
	if !r.Has(i) {
		return nil, 0, nil
	}
	s := r.In[i].Shape
	if len(s) != 3 || s[0] != r.batch || s[1] != r.length || !slices.Contains(widths, s[2]) {
		return nil, 0, r.Errorf(ErrInput, "input %d has shape %v, must be %d × %d × one of %v", i,
			s, r.batch, r.length, widths)
	}
	v, err = r.Floats(i)
	return v, s[2], err
}

// step advances the state S of one key head by one token and reads it with every query head of its
// group: S ← exp(g)·S, then S ← S + k ⊗ β·(v - Sᵀk) by the delta rule or S + k ⊗ v without it, then
// o = scale·qᵀS.
func (r *recurrence) step(b, h, t int) {
	token := b*r.length + t
	state := r.state[(b*r.hk+h)*r.dk*r.dv:][:r.dk*r.dv]
	k := r.k[(token*r.hk+h)*r.dk:][:r.dk]
	v := slices.Clone(r.v[(token*r.hk+h)*r.dv:][:r.dv])
	if r.rule.gated {
		g := r.decay[(token*r.hk+h)*r.decayWidth:][:r.decayWidth]
		for i := range state {
			state[i] *= math.Exp(g[i/r.dv%len(g)])
		}
	}
	if r.rule.delta {
		r.correct(v, k, state, r.beta[token*r.betaWidth+h%r.betaWidth])
	}
	for i := range state {
		state[i] += k[i/r.dv] * v[i%r.dv]
	}
	for g := range r.hq / r.hk {
		head := token*r.hq + h*(r.hq/r.hk) + g
		o := r.out[head*r.dv:][:r.dv]
		refmath.AddProduct(o, r.q[head*r.dk:][:r.dk], 1, state, r.dk, r.dv)
		for j := range o {
			o[j] *= r.scale
		}
	}
}

// correct applies the delta rule to the value v of a token: β·(v - Sᵀk).
func (r *recurrence) correct(v, k, state []float64, beta float64) {
	recalled := make([]float64, r.dv)
	refmath.AddProduct(recalled, k, 1, state, r.dk, r.dv)
	for j := range v {
		v[j] = beta * (v[j] - recalled[j])
	}
}

// linearAttentionFlops counts the updates and readings of the state.
func linearAttentionFlops(c *Call, in, out []Type) int64 {
	q, kv, err := linearHeads(c)
	if err != nil || len(in[linearQ].Shape) != 3 {
		return 0
	}
	size, _ := in[linearQ].Shape[2].FloorDiv(q).Int()
	return out[0].Elements() / int64(q) * int64(size) * int64(4*kv+2*q)
}

// inferCausalConv shapes the result like input 0, and the state: what the kernel still looks back
// at.
func inferCausalConv(c *Infer) error {
	if _, err := c.SameDType(floatTypes, c.DTypes()...); err != nil {
		return err
	}
	if err := SameAsInput(floatTypes)(c); err != nil || len(c.Out) == 1 {
		return err
	}
	c.Out[1] = Unranked(c.In[0].DType)
	if x, w := c.In[0], c.In[1]; x.Ranked && w.Ranked {
		if len(x.Shape) != 3 || len(w.Shape) != 3 {
			return c.Errorf(ErrInput, "input %v and weight %v must have rank 3", x, w)
		}
		c.Out[1] = Ranked(x.DType, x.Shape[0], x.Shape[1], w.Shape[2].AddInt(-1))
	}
	return c.checkDims(c.Out[1].Shape)
}

// causalActivation is attribute activation.
func causalActivation(c *Call) (func(float64) float64, error) {
	switch name := c.Attrs.String("activation", "none"); name {
	case "none":
		return func(x float64) float64 { return x }, nil
	case "silu", "swish":
		return swish(1), nil
	default:
		return nil, c.Errorf(ErrAttr, "activation is %q, must be none, silu or swish", name)
	}
}

// evalCausalConv convolves each channel with its own kernel, whose last tap is at the current
// position; what lies before the first position is past_state, or zero.
func evalCausalConv(c *Eval) error {
	x, w := c.In[0], c.In[1]
	if _, err := c.SameDType(floatTypes, c.DTypes()...); err != nil {
		return err
	}
	f, err := causalActivation(c.Call)
	if err != nil {
		return err
	}
	if x.Rank() != 3 || w.Rank() != 3 || w.Shape[2] < 1 {
		return c.Errorf(ErrInput, "input %v and weight %v must be batch × channels × length and "+
			"channels × 1 × kernel", x.Shape, w.Shape)
	}
	channels, k := x.Shape[1], w.Shape[2]
	weights, err := c.FloatsOf(1, channels, 1, k)
	if err != nil {
		return err
	}
	bias, err := c.floatsOrZeros(2, channels)
	if err != nil {
		return err
	}
	padded, err := c.extended(x, k-1)
	if err != nil {
		return err
	}
	out, err := c.Output(0, x.DType, x.Shape)
	if err != nil {
		return err
	}
	for i := range out.Len() {
		r, t := i/x.Shape[2], i%x.Shape[2]
		line := padded[r*(k-1+x.Shape[2])+t:]
		setFloat(out, i, f(bias[r%channels]+refmath.Dot(weights[r%channels*k:][:k], line)))
	}
	if !c.Want(1) {
		return nil
	}
	return c.keepLast(padded, x, k-1)
}

// extended is input 0 with the n positions of past_state before each row.
func (c *Eval) extended(x *tensor.Tensor, n int) ([]float64, error) {
	v, err := c.Floats(0)
	if err != nil {
		return nil, err
	}
	length := x.Shape[2]
	out, err := zeros(x.Shape[0], x.Shape[1], n+length)
	if err != nil {
		return nil, err
	}
	past, err := c.floatsOrZeros(3, x.Shape[0], x.Shape[1], n)
	if err != nil {
		return nil, err
	}
	for r := range x.Shape[0] * x.Shape[1] {
		copy(out[r*(n+length):], past[r*n:][:n])
		copy(out[r*(n+length)+n:], v[r*length:][:length])
	}
	return out, nil
}

// keepLast makes output 1 of the last n positions of each row.
func (c *Eval) keepLast(padded []float64, x *tensor.Tensor, n int) error {
	state, err := c.Output(1, x.DType, []int{x.Shape[0], x.Shape[1], n})
	if err != nil {
		return err
	}
	for r := range x.Shape[0] * x.Shape[1] {
		for i, v := range padded[r*(n+x.Shape[2])+x.Shape[2]:][:n] {
			setFloat(state, r*n+i, v)
		}
	}
	return nil
}

func causalConvFlops(_ *Call, in, _ []Type) int64 {
	if len(in[1].Shape) != 3 {
		return 0
	}
	k, _ := in[1].Shape[2].Int()
	return 2 * int64(k) * in[0].Elements()
}
