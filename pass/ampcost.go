package pass

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
)

// AmpCost is what multiplying in bfloat16 saves and costs a product, in multiplications of a
// float32 kernel. Neighbours count: an operand that is constant is rounded once, when the model is
// loaded, one that another node computes in every iteration.
type AmpCost struct {
	Saves float64 `json:"saves"` // the time that twice the rate saves
	Costs float64 `json:"costs"` // the time that rounding the operands takes
	// Unfit says what keeps a product from bfloat16 whatever it saves, empty for most.
	Unfit string `json:"unfit,omitempty"`
}

func (c AmpCost) pays() bool { return c.Unfit == "" && c.Saves > c.Costs }

func (c AmpCost) why() string {
	switch {
	case c.Unfit != "":
		return c.Unfit
	case !c.pays():
		return fmt.Sprintf("rounding the operands costs %.3g multiplications, twice the rate "+
			"saves %.3g", c.Costs, c.Saves)
	}
	return fmt.Sprintf("twice the rate saves %.3g multiplications, rounding the operands costs "+
		"%.3g", c.Saves, c.Costs)
}

// ampCostOf is the cost of a product.
func ampCostOf(n *graph.Node) AmpCost {
	d, ok := productOf(n)
	if !ok {
		return AmpCost{Unfit: "its shape is not known"}
	}
	c := AmpCost{Saves: d.saved(), Costs: d.rounding()}
	switch {
	case d.tiled:
		c.Unfit = "a 3 x 3 convolution multiplies four times less in transformed tiles of float32"
	case isAttention(n) && d.m < fewQueries:
		c.Unfit = "so few queries read each key once, and rounding it costs as much as multiplying"
	case d.depthwise:
		c.Unfit = "a depthwise convolution has nothing to share a rounded operand with"
	}
	return c
}

// productSize is the size of a matrix product, or of a convolution as one: batch times m x k by k x
// n.
type productSize struct {
	batch, m, k, n float64
	constant       bool // the k x n operand is constant, and is rounded once
	depthwise      bool
	// what kernel/conv computes in tiles (Lavin and Gray, 2016), at a large enough image
	tiled bool
}

// mostTiled and leastTiled bound the weights of a channel pair and the pixels of convolutions for
// which tiles of float32 are faster than products of bfloat16.
const (
	mostTiled  = 256 * 256
	leastTiled = 28 * 28
)

// fewQueries is the number of queries from which the kernel of attention packs keys for several of
// them together.
const fewQueries = 16

func onesOnly(list []int64) bool {
	return !slices.ContainsFunc(list, func(v int64) bool { return v != 1 })
}

// roundCost is what rounding one element as it is packed costs, in float32 multiplications of a
// kernel.
const roundCost = 6

// saved is the time that twice the rate saves, in float32 multiplications. A product of few rows
// waits for its constant operand to come from memory, of which there is half as much.
func (p productSize) saved() float64 { return p.batch * max(p.m, 8) * p.k * p.n / 2 }

// rounding is the time that rounding takes, in the same unit.
func (p productSize) rounding() float64 {
	c := roundCost * p.batch * p.m * p.k
	if !p.constant {
		c += roundCost * p.batch * p.k * p.n
	}
	return c
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
		if len(x) < 3 || len(w) != len(x) {
			return p, false
		}
		group := float64(n.Attrs.Int("group", 1))
		p.batch = float64(x[0]) * group
		p.m, p.n = float64(volume(out[2:])), float64(w[0])/group
		p.k = float64(volume(w[1:]))
		p.depthwise = int(group) == x[1]
		p.tiled = p.constant && group == 1 && slices.Equal(w[2:], []int{3, 3}) &&
			onesOnly(n.Attrs.Ints("strides")) &&
			onesOnly(n.Attrs.Ints("dilations")) && w[0]*w[1] <= mostTiled && p.m >= leastTiled
		return p, true
	}
	if isAttention(n) {
		return attentionSize(n, x, w)
	}
	if len(x) < 2 || len(w) < 2 || len(out) < 1 {
		return p, false
	}
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
		return p, false
	}
	p.m = float64(volume(out)) / p.n / p.batch
	return p, true
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
