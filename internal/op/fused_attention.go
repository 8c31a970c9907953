package op

import (
	"math"
	"slices"

	"github.com/weirgpu/weir/internal/refmath"
	"github.com/weirgpu/weir/tensor"
)

// fusedAttention is softmax(mask(scale·q·kᵀ) + bias)·v for stacks of matrices (Vaswani et al. 2017,
// section 3.2), as exporters write it with MatMul, Mul, Where, Add and Softmax. Inputs are Q, K, V
// and, optional, keep and bias, both of which broadcast to the scores. Operands of rank 2 and 3 are
// one batch entry, of rank 2 one head. K and V may have fewer heads than Q: then each group of
// heads of Q shares one head of K and V. They may also have a single batch entry, which all entries
// of Q share. Attributes are
//
//   - scale: what scores are multiplied by, 1 when absent;
//   - hidden: the score where keep is false, -Inf when absent;
//   - added: 1 where hidden is added to the score of what keep hides, as a mask of numbers is, so
//     that a score which is NaN stays NaN; 0, or absent, where hidden replaces the score;
//   - rows_first: four numbers, for Q, K, V and the output: 1 for the layout batch × length × heads
//     × size, which only operands of rank 4 may have, and 0 for batch × heads × length × size. All
//     are 0 when it is absent;
//   - precision: "bf16" rounds Q and K to bfloat16 before they are multiplied. Kernels may round V,
//     and the weights that it is multiplied by, too.
//
// Output 1, optional, is what a gradient computes weights from again: of each query, heads before
// positions, two numbers, the greatest score and the sum of the exponentials of all scores less it.
var fusedAttention = Op{Domain: FusedDomain, Name: "Attention", Since: []int{1}, MinIn: 3, MaxIn: 5,
	MinOut: 1, MaxOut: 2, Infer: inferFusedAttention, Eval: InFloat32(evalFusedAttention),
	Flops: fusedAttentionFlops, parts: partsOfFusedAttention, grad: gradFusedAttention}

// Inputs of weir:Attention (version 1), in order; keep and bias may be absent. Those behind are
// of weir:AttentionGradient.
const (
	FusedAttentionQ = iota
	FusedAttentionK
	FusedAttentionV
	FusedAttentionKeep
	FusedAttentionBias
	AttentionGradientDY
	AttentionGradientY
	AttentionGradientStats
)

// rowsFirst reads attribute rows_first.
func (c *Call) rowsFirst() (out [4]bool, err error) {
	v := c.Attrs.Ints("rows_first")
	if v == nil {
		return out, nil
	}
	if len(v) != len(out) {
		return out, c.Errorf(ErrAttr, "rows_first has %d elements, must have %d", len(v), len(out))
	}
	for i, x := range v {
		if x != 0 && x != 1 {
			return out, c.Errorf(ErrAttr, "rows_first holds %d, must be 0 or 1", x)
		}
		out[i] = x == 1
	}
	return out, nil
}

// stackOf reads the layout of an operand of rank 2 to 4.
func stackOf[D any](c *Call, shape []D, one D, rowsFirst bool) (h heads[D], err error) {
	n := len(shape)
	if n < 2 || n > 4 || rowsFirst && n < 4 {
		return h, c.Errorf(ErrInput, "operand %v must have rank 2 to 4, or 4 when rows come first",
			shape)
	}
	h = heads[D]{batch: one, heads: one, length: shape[n-2], size: shape[n-1]}
	if n > 2 {
		h.heads = shape[n-3]
	}
	if n > 3 {
		h.batch = shape[0]
	}
	if rowsFirst {
		h.heads, h.length = h.length, h.heads
	}
	return h, nil
}

// shapeLike is a layout as a shape of the given rank.
func (h heads[D]) shapeLike(rank int, rowsFirst bool) []D {
	s := []D{h.batch, h.heads, h.length, h.size}
	if rowsFirst {
		s[1], s[2] = s[2], s[1]
	}
	return s[4-rank:]
}

// inferFusedAttention shapes the output like Q with V's head size.
func inferFusedAttention(c *Infer) error {
	first, err := c.rowsFirst()
	if err != nil {
		return err
	}
	d, err := c.SameDType(floatTypes, c.DTypes()[:3]...)
	if err != nil {
		return err
	}
	if _, err := c.multiplyInBF16(d); err != nil {
		return err
	}
	for i := range c.Out {
		c.Out[i] = Unranked(d)
	}
	var h [3]heads[Dim]
	for i := range h {
		if !c.In[i].Ranked {
			return nil
		}
		if len(c.In[i].Shape) != len(c.In[0].Shape) {
			return c.Errorf(ErrInput, "Q is %v, input %d %v: ranks differ", c.In[0], i, c.In[i])
		}
		if h[i], err = stackOf(c.Call, c.In[i].Shape, Known(1), first[i]); err != nil {
			return err
		}
	}
	y := h[0]
	y.size = h[2].size
	rank := len(c.In[0].Shape)
	c.Out[0] = Ranked(d, y.shapeLike(rank, first[3])...)
	if first[3] && rank < 4 {
		return c.Errorf(ErrAttr, "rows_first is for operands of rank 4, Q is %v", c.In[0])
	}
	if y.size = Known(2); len(c.Out) > 1 {
		c.Out[1] = Ranked(d, y.shapeLike(rank, false)...)
	}
	return nil
}

// stacks is one checked evaluation of weir:Attention.
type stacks struct {
	*Eval
	first   [4]bool
	rank    int
	h       [3]heads[int]
	in      [3][]float64
	keep    *tensor.Tensor
	bias    []float64
	scale   float64
	hidden  float64
	added   bool // hidden is added
	y       *tensor.Tensor
	stats   *tensor.Tensor // nil where it is not asked for
	biasDim []int
}

// newStacks reads what weir:Attention and its gradient have in common.
func newStacks(c *Eval) (*stacks, error) {
	a := &stacks{Eval: c, scale: c.attr("scale", 1),
		hidden: c.attr("hidden", float32(math.Inf(-1))), added: c.Attrs.Int("added", 0) == 1,
		rank: c.In[0].Rank()}
	if err := a.read(); err != nil {
		return nil, err
	}
	return a, a.readMasks()
}

func evalFusedAttention(c *Eval) error {
	a, err := newStacks(c)
	if err != nil {
		return err
	}
	y := a.result()
	if a.y, err = c.Output(0, c.In[0].DType, y.shapeLike(a.rank, a.first[3])); err != nil {
		return err
	}
	if y.size = 2; c.Want(1) {
		a.stats, err = c.Output(1, c.In[0].DType, y.shapeLike(a.rank, false))
		if err != nil {
			return err
		}
	}
	a.attendAll()
	return nil
}

// result is the layout of the result.
func (a *stacks) result() heads[int] {
	y := a.h[0]
	y.size = a.h[2].size
	return y
}

// attendAll computes the results of all queries.
func (a *stacks) attendAll() {
	q, row := a.h[0], make([]float64, a.h[1].length)
	for b := range q.batch {
		for h := range q.heads {
			for i := range q.length {
				a.attend(row, b, h, i)
			}
		}
	}
}

// read reads Q, K and V and checks them against each other.
func (a *stacks) read() (err error) {
	if a.first, err = a.rowsFirst(); err != nil {
		return err
	}
	if _, err := a.SameDType(floatTypes, a.DTypes()[:3]...); err != nil {
		return err
	}
	rounded, err := a.multiplyInBF16(a.In[0].DType)
	if err != nil {
		return err
	}
	for i := range a.h {
		if err := a.readStack(i, rounded && i < 2); err != nil {
			return err
		}
	}
	q, k, v := a.h[0], a.h[1], a.h[2]
	shared := k.batch == 1 || k.batch == q.batch
	if !shared || k.batch != v.batch || k.heads != v.heads || k.length != v.length ||
		q.size != k.size || k.heads == 0 || q.heads%k.heads != 0 || a.first[3] && a.rank < 4 {
		return a.Errorf(ErrInput, "Q %v, K %v and V %v do not fit", a.In[0].Shape, a.In[1].Shape,
			a.In[2].Shape)
	}
	return nil
}

// readStack reads operand i, Q, K or V, whose elements are rounded to bfloat16 first.
func (a *stacks) readStack(i int, rounded bool) (err error) {
	t := a.In[i]
	if t.Rank() != a.rank {
		return a.Errorf(ErrInput, "Q is %v, input %d %v: ranks differ", a.In[0].Shape, i, t.Shape)
	}
	if a.h[i], err = stackOf(a.Call, t.Shape, 1, a.first[i]); err != nil {
		return err
	}
	if rounded {
		t = roundedToBF16(t)
	}
	if a.in[i], err = t.Floats(); err != nil {
		return a.Errorf(ErrInput, "input %d: %v", i, err)
	}
	return nil
}

// readMasks reads keep and bias, which broadcast to the scores.
func (a *stacks) readMasks() (err error) {
	scores := heads[int]{a.h[0].batch, a.h[0].heads, a.h[0].length, a.h[1].length}
	for i := FusedAttentionKeep; i <= FusedAttentionBias; i++ {
		if !a.Has(i) {
			continue
		}
		want := scores.shapeLike(4, false)
		if to, err := BroadcastShapes(want, a.In[i].Shape); err != nil || !slices.Equal(to, want) ||
			a.In[i].Rank() > a.rank {
			return a.Errorf(ErrInput, "input %d is %v, does not broadcast to scores %v", i,
				a.In[i].Shape, want)
		}
	}
	if a.Has(FusedAttentionKeep) {
		if a.keep = a.In[FusedAttentionKeep]; a.keep.DType != tensor.Bool {
			return a.Errorf(ErrInput, "keep is %v, must be bool", a.keep.DType)
		}
	}
	if a.Has(FusedAttentionBias) {
		if d := a.In[FusedAttentionBias].DType; d != a.In[0].DType {
			return a.Errorf(ErrInput, "bias is %v, Q %v", d, a.In[0].DType)
		}
		a.biasDim = a.In[FusedAttentionBias].Shape
		a.bias, err = a.Floats(FusedAttentionBias)
	}
	return err
}

// place is where the vector of one head at one position starts in operand i, or in the output for i
// = 3.
func (a *stacks) place(i, b, head, t int) int {
	h := a.result()
	if i < 3 {
		h = a.h[i]
	}
	if h.batch == 1 {
		b = 0
	}
	if a.first[i] {
		return ((b*h.length+t)*h.heads + head) * h.size
	}
	return ((b*h.heads+head)*h.length + t) * h.size
}

// hides reports whether the mask, where there is one, hides key t from a query.
func (a *stacks) hides(b, h, i, t int) bool {
	return a.keep != nil &&
		!tensor.As[bool](a.keep)[refmath.BroadcastOffset(a.keep.Shape, b, h, i, t)]
}

// attend computes the result of one query.
func (a *stacks) attend(row []float64, b, h, i int) {
	kv := a.sharedHead(h)
	peak := a.scores(row, b, h, i)
	acc, sum := make([]float64, a.h[2].size), 0.0
	for t, s := range row {
		w := math.Exp(s - peak)
		sum += w
		for d := range acc {
			acc[d] += w * a.in[2][a.place(2, b, kv, t)+d]
		}
	}
	to := a.place(3, b, h, i)
	for d, v := range acc {
		setFloat(a.y, to+d, v/sum)
	}
	if a.stats != nil {
		to = 2 * ((b*a.h[0].heads+h)*a.h[0].length + i)
		setFloat(a.stats, to, peak)
		setFloat(a.stats, to+1, sum)
	}
}

// sharedHead is the head of K and V that head h of Q goes with.
func (a *stacks) sharedHead(h int) int { return h / (a.h[0].heads / a.h[1].heads) }

// scores sets the masked scores of one query, and returns the greatest.
func (a *stacks) scores(row []float64, b, h, i int) (peak float64) {
	kv, q := a.sharedHead(h), a.in[0][a.place(0, b, h, i):][:a.h[0].size]
	peak = math.Inf(-1)
	for t := range row {
		row[t] = a.masked(a.scale*refmath.Dot(q, a.in[1][a.place(1, b, kv, t):]), b, h, i, t)
		peak = max(peak, row[t])
	}
	return peak
}

// masked is a score under the masks for query i and key t.
func (a *stacks) masked(score float64, b, h, i, t int) float64 {
	if a.hides(b, h, i, t) {
		if !a.added {
			score = 0
		}
		score = a.add(score, a.hidden)
	}
	if a.bias != nil { // as float32 adds: two masks together may be beyond its range
		score = a.add(score, a.bias[refmath.BroadcastOffset(a.biasDim, b, h, i, t)])
	}
	return score
}

// add adds in the type of the operands.
func (a *stacks) add(x, y float64) float64 {
	if a.In[0].DType == tensor.Float64 {
		return x + y
	}
	return float64(float32(x) + float32(y))
}

// fusedAttentionFlops counts the two matrix products.
func fusedAttentionFlops(c *Call, in, out []Type) int64 {
	first, err := c.rowsFirst()
	if err != nil || !in[1].Ranked || len(in[1].Shape) < 2 {
		return 0
	}
	k, err := stackOf(c, in[1].Shape, Known(1), first[1])
	if err != nil {
		return 0
	}
	n, _ := k.length.Int()
	perRow, _ := k.size.Int()
	width := out[0].Shape
	if len(width) == 0 {
		return 0
	}
	v, _ := width[len(width)-1].Int()
	return 2 * int64(n) * out[0].Elements() / int64(max(1, v)) * int64(perRow+v)
}
