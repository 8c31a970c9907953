package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// AttentionGradient is the operator that gives the gradients of weir:Attention's Q, K and V, of
// the gradient of its result, by what it computed:
//
//	dq, dk, dv = weir:AttentionGradient(q, k, v, keep, bias, dy, y, stats)
//
// keep and bias may be absent; y and stats are the results of weir:Attention, whose attributes it
// has. With the weights w = exp(score - peak)/sum, both of stats, and the gradient of a weight
// dw = dy·v it is ds = w·(dw - Σ dy·y), zero where keep has replaced the score, and
// dq = scale·ds·k, dk = scale·dsᵀ·q, dv = wᵀ·dy, the last two summed over what shares a head of K
// and V (Dao, "FlashAttention-2", 2023, section 3.1): no value has an element for each score. With
// precision "bf16" kernels may round the operands of all five products.
const AttentionGradient = "AttentionGradient"

var attentionGradientOps = []Op{{Domain: FusedDomain, Name: AttentionGradient, Since: []int{1},
	MinIn: 3, MaxIn: 8, MinOut: 3, MaxOut: 3, Infer: inferAttentionGradient,
	Eval: InFloat32(evalAttentionGradient), Flops: attentionGradientFlops,
	parts: partsOfAttentionGradient}}

// inferAttentionGradient is the rule of weir:Attention, whose results are operands here.
func inferAttentionGradient(c *Infer) error {
	for i := AttentionGradientDY; i <= AttentionGradientStats; i++ {
		if !c.Has(i) {
			return c.Errorf(ErrInput, "input %d is not given", i)
		}
	}
	of := Infer{Call: c.Call, In: c.In[:AttentionGradientDY], Present: c.Present,
		Out: make([]Type, 2)}
	if err := inferFusedAttention(&of); err != nil {
		return err
	}
	for i, t := range c.In[AttentionGradientDY:] {
		want := of.Out[i/2]
		if !mayBeSame(t.DType, want.DType) ||
			t.Ranked && want.Ranked && !sameSizes(t.Shape, want.Shape) {
			return c.Errorf(ErrInput, "input %d is %v, must be %v", AttentionGradientDY+i, t, want)
		}
	}
	for i := range c.Out {
		c.Out[i] = c.In[i].withoutContents()
	}
	return nil
}

func attentionGradientFlops(c *Call, in, _ []Type) int64 {
	return fusedAttentionFlops(c, in, in[AttentionGradientDY:][:1]) / 2 * 5
}

// attentionGradients is one evaluation.
type attentionGradients struct {
	*stacks
	dy, y, stats []float64
	w            []float64    // of one query
	out          [3][]float64 // the gradients of Q, K and V
}

func evalAttentionGradient(c *Eval) error {
	for i := AttentionGradientDY; i <= AttentionGradientStats; i++ {
		if !c.Has(i) {
			return c.Errorf(ErrInput, "input %d is not given", i)
		}
	}
	s, err := newStacks(c)
	if err != nil {
		return err
	}
	a := &attentionGradients{stacks: s, w: make([]float64, s.h[1].length)}
	y := s.result()
	shape := y.shapeLike(a.rank, a.first[3])
	if a.dy, a.y, err = c.FloatsPairOf(AttentionGradientDY, AttentionGradientY,
		shape...); err != nil {
		return err
	}
	y.size = 2
	a.stats, err = c.FloatsOf(AttentionGradientStats, y.shapeLike(a.rank, false)...)
	if err != nil {
		return err
	}
	for i := range a.out {
		a.out[i] = make([]float64, len(a.in[i]))
	}
	for b := range y.batch {
		for h := range y.heads {
			for i := range y.length {
				a.query(b, h, i)
			}
		}
	}
	for i, v := range a.out {
		out, err := c.Output(i, c.In[i].DType, c.In[i].Shape)
		if err != nil {
			return err
		}
		if err := c.round(out, v); err != nil {
			return err
		}
	}
	return nil
}

// query adds what one query gives.
func (a *attentionGradients) query(b, h, i int) {
	kv, at := a.sharedHead(h), a.place(3, b, h, i)
	size, width := a.h[0].size, a.h[2].size
	dy := a.dy[at:][:width]
	stat := a.stats[2*((b*a.h[0].heads+h)*a.h[0].length+i):]
	a.scores(a.w, b, h, i)
	mean := refmath.Dot(dy, a.y[at:])
	q, from := a.in[0], a.place(0, b, h, i)
	for t, s := range a.w {
		w, v := math.Exp(s-stat[0])/stat[1], a.place(2, b, kv, t)
		dv := a.out[2][v:][:width]
		for d := range dv {
			dv[d] += w * dy[d]
		}
		ds := a.scale * w * (refmath.Dot(dy, a.in[2][v:]) - mean)
		if a.hides(b, h, i, t) && !a.added {
			ds = 0
		}
		k := a.place(1, b, kv, t)
		for d := range size {
			a.out[0][from+d] += ds * a.in[1][k+d]
			a.out[1][k+d] += ds * q[from+d]
		}
	}
}

// partedStacks writes weir:Attention and its gradient in ONNX's operators. Stacks have rank 4 here,
// heads before positions.
type partedStacks struct {
	*attended
	rank  int
	first [4]bool
}

// stacksOf reads the operands; false where too little is known of them.
func stacksOf(x *Expander) (a *partedStacks, ok bool) {
	first, err := x.rowsFirst()
	x.Err = firstError(x.Err, err)
	a = &partedStacks{attended: &attended{Expander: x}, rank: x.Rank(x.Input(0)), first: first}
	if x.Err == nil && (a.rank < 2 || a.rank > 4) {
		x.Fail(ErrInput, "Q is %v, must have rank 2 to 4", x.TypeOf(x.Input(0)))
	}
	a.q, a.k, a.v = a.stack(0, 0), a.stack(1, 1), a.stack(2, 2)
	heads, ok := x.Known(a.q, 1)
	keyHeads, ok2 := x.Known(a.k, 1)
	if !ok || !ok2 || keyHeads == 0 {
		x.Later()
		return a, false
	}
	a.heads, a.shared = int64(heads), int64(heads/keyHeads)
	if rounded, err := x.multiplyInBF16(x.DType(x.Input(0))); rounded || err != nil {
		x.Err = firstError(x.Err, err)
		a.q, a.k = x.halved(a.q), x.halved(a.k)
	}
	return a, x.Err == nil
}

// halved is v rounded to bfloat16.
func (x *Expander) halved(v Var) Var { return x.Cast(x.Cast(v, tensor.BFloat16), x.DType(v)) }

// stack is input i, which lies as operand as.
func (a *partedStacks) stack(i, as int) Var {
	v := a.wide(a.Input(i))
	if a.rank < 4 {
		v = a.Unsqueeze(v, axesBetween(0, 4-a.rank)...)
	}
	if a.first[as] {
		v = a.Transpose(v, 0, 2, 1, 3)
	}
	return v
}

// give is output i, which lies as operand as.
func (a *partedStacks) give(i, as int, v Var) {
	if a.first[as] {
		v = a.Transpose(v, 0, 2, 1, 3)
	}
	if a.rank < 4 {
		v = a.Op("Squeeze", nil, v, a.Ints(axesBetween(0, 4-a.rank)...))
	}
	a.Give(i, a.Cast(v, a.DType(a.Input(0))))
}

// scores are the masked scores; open tells those that nothing has replaced, Absent of all.
func (a *partedStacks) scores() (s, open Var) {
	s, open = a.Scale(a.product(a.q, a.flipped(a.k)), a.attr("scale", 1)), Absent
	if keep := a.Input(FusedAttentionKeep); keep != Absent {
		hidden := a.Scalar(s, a.attr("hidden", float32(math.Inf(-1))))
		if a.Attrs.Int("added", 0) == 1 {
			s = a.Add(s, a.where(keep, a.Scalar(s, 0), hidden))
		} else {
			s, open = a.where(keep, s, hidden), keep
		}
	}
	if bias := a.Input(FusedAttentionBias); bias != Absent {
		s = a.Add(s, a.Cast(bias, a.DType(s)))
	}
	return s, open
}

func partsOfFusedAttention(x *Expander) {
	a, ok := stacksOf(x)
	if !ok {
		return
	}
	s, _ := a.scores()
	a.give(0, 3, a.product(a.Op("Softmax", axisAttr(-1), s), a.v))
	if !x.Wants(1) {
		return
	}
	peak := x.Ops("", "ReduceMax", max(x.Opset, 18), 1, nil, s, x.Ints(3))[0]
	sum := x.sumOver(x.Op("Exp", nil, x.sub(s, peak)), true, 3)
	a.first[3] = false
	a.give(1, 3, x.Op("Concat", axisAttr(3), peak, sum))
}

// partsOfAttentionGradient is the definition.
func partsOfAttentionGradient(x *Expander) {
	a, ok := stacksOf(x)
	if !ok {
		return
	}
	s, open := a.scores()
	dy, y := a.stack(AttentionGradientDY, 3), a.stack(AttentionGradientY, 3)
	a.first[3] = false
	stats := a.stack(AttentionGradientStats, 3)
	stat := func(i int64) Var { return x.cut(stats, 3, i, i+1, 1) }
	w := x.div(x.Op("Exp", nil, x.sub(s, stat(0))), stat(1))
	dw := a.product(dy, x.flipped(a.v))
	ds := x.mul(w, x.sub(dw, x.sumOver(x.mul(dy, y), true, 3)))
	if open != Absent {
		ds = x.masked(open, ds)
	}
	ds = x.Scale(ds, x.attr("scale", 1))
	a.give(0, 0, a.product(ds, a.k))
	a.give(1, 1, a.sums(ds, a.q, a.k))
	a.give(2, 2, a.sums(w, dy, a.v))
}

// sums is leftᵀ·right of each head of Q, summed over those that share one of like.
func (a *partedStacks) sums(left, right, like Var) Var {
	d := a.Op("MatMul", nil, a.flipped(left), right)
	if a.shared != 1 {
		d = a.resized(d, a.Ints(0, a.heads/a.shared, a.shared), a.Dim(d, 2), a.Dim(d, 3))
		d = a.sumOver(d, false, 2)
	}
	return a.unbroadcast(d, like)
}

// gradFusedAttention is one operator where all operands are as exact as the result, and only those
// of the products have a gradient. Other calls are differentiated by parts.
func gradFusedAttention(x *gradient) {
	if !x.attentionWhole() {
		x.byParts()
		return
	}
	in := slices.Repeat([]Var{Absent}, AttentionGradientDY)
	for i := range x.NumIn {
		in[i] = x.Input(i)
	}
	ds := x.Ops(FusedDomain, AttentionGradient, 1, 3, x.Attrs,
		append(in, x.d(0), x.out(0), x.out(1))...)
	for i, d := range ds {
		x.set(i, d)
	}
}

func (x *gradient) attentionWhole() bool {
	q, k := x.TypeOf(x.Input(FusedAttentionQ)), x.TypeOf(x.Input(FusedAttentionK))
	shared := q.Ranked && k.Ranked && len(q.Shape) == 4 && len(k.Shape) == 4 &&
		!q.Shape[0].Equal(k.Shape[0])
	return wideFloats.Has(q.DType) && q.Ranked && k.Ranked && !shared && len(x.b.Out) > 1 &&
		!x.b.Given[1] && !x.needs(FusedAttentionBias)
}
