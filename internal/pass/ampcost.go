package pass

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
)

// AmpCost is what multiplying in bfloat16 saves and costs a product. The unit is the time of one
// multiplication in a float32 kernel. The cost depends on where the operands come from: a constant
// operand is rounded once, when the model is loaded, and an operand that another node computes is
// rounded in every iteration.
type AmpCost struct {
	Rate  float64 `json:"rate"`  // how many times float32's rate bfloat16 has, as measured
	Saves float64 `json:"saves"` // the time that the rate saves
	Costs float64 `json:"costs"` // the time that rounding operands and finishing results takes more
	// Unfit says what keeps a product from bfloat16 whatever it saves, empty for most.
	Unfit string `json:"unfit,omitempty"`
}

func (c AmpCost) pays() bool { return c.Unfit == "" && c.Saves > c.Costs }

func (c AmpCost) why() string {
	switch {
	case c.Unfit != "":
		return c.Unfit
	case !c.pays():
		return fmt.Sprintf("rounding operands and finishing results costs %.3g multiplications, "+
			"%.3g times the rate saves %.3g", c.Costs, c.Rate, c.Saves)
	}
	return fmt.Sprintf("%.3g times the rate saves %.3g multiplications, rounding operands and "+
		"finishing results costs %.3g", c.Rate, c.Saves, c.Costs)
}

// ampCostOf is the cost of a product on a device.
func ampCostOf(n *graph.Node, on *compute.Costs) AmpCost {
	d, ok := productOf(n)
	if !ok {
		return AmpCost{Unfit: "its shape is not known"}
	}
	c := AmpCost{Rate: on.BF16Rate.Times(), Costs: on.Rounding * d.rounded()}
	if !isAttention(n) { // whose results are finished in tiles of its own
		c.Costs += finishing(on) * d.batch * d.m * d.n
	}
	c.Saves = d.saved(c.Rate)
	switch {
	case c.Rate <= 1:
		c.Unfit = fmt.Sprintf("bfloat16 has %.3g times the rate of float32 here", c.Rate)
	case d.tiles > 0 && d.tiles <= on.TiledWeights && d.m >= float64(on.TiledPixels):
		c.Unfit = "a 3 x 3 convolution multiplies four times less in transformed tiles of float32"
	case isAttention(n) && d.m < float64(on.SharedQueries):
		c.Unfit = "so few queries read each key once, and rounding it costs as much as multiplying"
	case d.depthwise:
		c.Unfit = "a depthwise convolution has nothing to share a rounded operand with"
	}
	return c
}

// finishing is how much longer a result takes to finish in bfloat16 than in float32, by the time of
// short products beyond that of their steps.
func finishing(on *compute.Costs) float64 {
	if on.BF16Short == nil {
		return 0
	}
	steps, finish := float64(on.ShortSteps), float64(on.Finishing)
	short := (steps + finish) / on.BF16Short.Times()
	return max(0, short-steps/on.BF16Rate.Times()-finish)
}

// productSize is the size of a matrix product, or of a convolution as one: batch times m x k by k x
// n.
type productSize struct {
	batch, m, k, n float64
	constant       bool // the k x n operand is constant, and is rounded once
	depthwise      bool
	// shared says that all of the batch multiply by one computed k x n operand, which is rounded
	// once in an iteration: the weights of a convolution that is trained.
	shared bool
	// pairs of channels of a convolution that may be computed in tiles, 0 for others
	tiles int
}

// saved is the time that multiplying at a rate above 1 saves, in float32 multiplications. A product
// of few rows counts as one of 8: it waits for its constant operand to arrive from memory, and in
// bfloat16 that operand is half as large.
func (p productSize) saved(rate float64) float64 {
	return p.batch * max(p.m, 8) * p.k * p.n * max(0, 1-1/rate)
}

// rounded is the number of elements that are rounded in every iteration.
func (p productSize) rounded() float64 {
	n := p.batch * p.m * p.k
	switch {
	case p.constant:
	case p.shared:
		n += p.k * p.n
	default:
		n += p.batch * p.k * p.n
	}
	return n
}

// productOf returns the size of a product whose types are static.
func productOf(n *graph.Node) (p productSize, ok bool) {
	a, b, y := n.In[0].Type, n.In[1].Type, n.Out[0].Type
	x, ok1 := a.Ints()
	w, ok2 := b.Ints()
	out, ok3 := y.Ints()
	if !ok1 || !ok2 || !ok3 {
		return p, false
	}
	p.constant = n.In[1].IsConst()
	if n.Type == "Conv" {
		return convSize(n, x, w, out)
	}
	if n.Type == "ConvTranspose" {
		return convTransposeSize(n, x, w)
	}
	if isAttention(n) {
		return attentionSize(n, x, w)
	}
	if isConvWeights(n) {
		return convWeightsSize(n, x, w, out)
	}
	if len(x) < 2 || len(w) < 2 || len(out) < 1 {
		return p, false
	}
	return p, p.matrices(n, x, w, out)
}

// matrices sets the sizes of a product of matrices; false when one is empty.
func (p *productSize) matrices(n *graph.Node, x, w, out []int) bool {
	p.k = float64(x[len(x)-1])
	if n.Type == "Gemm" && n.Attrs.Bool("transA", false) {
		p.k = float64(x[0])
	}
	p.n = float64(out[len(out)-1])
	p.batch = 1
	if len(w) > 2 {
		p.batch = float64(volume(w[:len(w)-2]))
	}
	if p.k == 0 || p.n == 0 {
		return false
	}
	p.m = float64(volume(out)) / p.n / p.batch
	return true
}

// convSize is the product of a convolution: weights by patches, a group at a time.
func convSize(n *graph.Node, x, w, out []int) (p productSize, ok bool) {
	if len(x) < 3 || len(w) != len(x) {
		return p, false
	}
	window, group, ok := convWindow(n, w)
	if !ok {
		return p, false
	}
	p.constant = n.In[1].IsConst()
	p.batch = float64(x[0] * group)
	p.m, p.n = float64(volume(out[2:])), float64(out[1])/float64(group)
	p.k = float64(x[1]) / float64(group) * float64(volume(w[2:]))
	p.depthwise, p.shared = group == x[1], group == 1 && !p.constant
	if p.constant && group == 1 && slices.Equal(w[2:], []int{3, 3}) && onesOnly(window.Stride) &&
		onesOnly(window.Dilation) {
		p.tiles = w[0] * w[1]
	}
	return p, true
}

// convTransposeSize is the product of a transposed convolution: what each place adds to those that
// it reaches, a group at a time.
func convTransposeSize(n *graph.Node, x, w []int) (p productSize, ok bool) {
	group := int(n.Attrs.Int("group", 1))
	if len(x) < 3 || len(w) != len(x) || group < 1 || x[1] < group {
		return p, false
	}
	p.constant = n.In[1].IsConst()
	p.batch, p.m = float64(x[0]*group), float64(volume(x[2:]))
	p.k, p.n = float64(x[1]/group), float64(volume(w[1:]))
	p.depthwise, p.shared = group == x[1], group == 1 && !p.constant
	return p, true
}

// convWeightsSize is the product of the gradients of filters with what each weight saw at all
// places, a group at a time.
func convWeightsSize(n *graph.Node, x, dy, dw []int) (p productSize, ok bool) {
	group := int(n.Attrs.Int("group", 1))
	if len(x) < 3 || len(dy) != len(x) || len(dw) != len(x) || group < 1 {
		return p, false
	}
	p.batch, p.m = float64(group), float64(dw[0])/float64(group)
	p.n, p.k = float64(volume(dw[1:])), float64(dy[0]*volume(dy[2:]))
	p.depthwise = group == x[1]
	return p, p.k > 0
}

// attentionSize is the product of queries with keys, each row by each column of a head.
func attentionSize(n *graph.Node, q, k []int) (p productSize, ok bool) {
	if len(q) < 2 || len(k) != len(q) {
		return p, false
	}
	at := [2]int{len(q) - 2, len(q) - 2}
	for i, v := range n.Attrs.Ints("rows_first") {
		if i < 2 && v == 1 && len(q) == 4 {
			at[i] = 1
		}
	}
	p.m, p.n, p.k = float64(q[at[0]]), float64(k[at[1]]), float64(q[len(q)-1])
	if p.m == 0 || p.k == 0 {
		return p, false
	}
	p.batch = float64(volume(q)) / p.m / p.k
	return p, true
}

func volume(shape []int) int {
	n := 1
	for _, d := range shape {
		n *= d
	}
	return n
}
