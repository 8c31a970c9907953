package pass

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/op"
	"github.com/weirgpu/weir/tensor"
)

// Automatic mixed precision on the graph, as in Micikevicius et al., "Mixed precision training", ICLR 2018, and Alibaba PAI's
// graph rewriting: products multiply in bfloat16 and add up in float32, everything else stays float32.
//
//	Conv(x, w, ...)    =  weir:Conv(x, w, ...){precision bf16}        likewise Gemm, MatMul and queries by keys in Attention
//
// The casts that mixed precision puts around a product are part of it: kernels round operands as they pack them, so none is
// ever a node, none has to cancel with another, and no value of the graph changes its type. A node is chosen by three rules, in
// order: it is on the list of products; rounding its operands costs less than the product gains, which leaves out look-ups,
// products with few columns and depthwise convolutions; and, when the choice is left to weir, another product follows, which
// averages over its rounding errors: what an output is read from stays as it is.

// Precision says which products multiply in bfloat16.
type Precision string

// The values of Options.Precision.
const (
	FP32     Precision = ""     // none
	BF16     Precision = "bf16" // all that it makes faster
	AutoBF16 Precision = "auto" // those of BF16 that another product follows
)

// AmpChoice is what mixed precision makes of one product and why.
type AmpChoice struct {
	Node     string `json:"node"`
	Operator string `json:"operator"`
	Chosen   bool   `json:"bf16"`
	Why      string `json:"why"`
}

func startAmp(s *scope) rule {
	return func(n *graph.Node) *Patch {
		if s.precision == FP32 || s.portable || n.Attrs.Has("precision") {
			return nil
		}
		if chosen, _ := amp(n, s.precision); !chosen || s.precision == AutoBF16 && s.last(n) {
			return nil
		}
		attrs := append(append(op.Attrs{}, n.Attrs...), op.StringAttr("precision", "bf16"))
		return instead(n, operator(n, op.FusedDomain, n.Type, 1, attrs, n.In...))
	}
}

// Amp says of every product of a graph that [Run] has optimised what the precision made of it, bodies included.
func Amp(g *graph.Graph, p Precision) []AmpChoice {
	var out []AmpChoice
	g.Walk(func(b *graph.Graph) {
		for _, n := range b.Nodes {
			if !isProduct(n) {
				continue
			}
			c := AmpChoice{Node: n.Name, Operator: n.Call().Name(), Chosen: n.Attrs.Has("precision")}
			if _, c.Why = amp(n, p); !c.Chosen && c.Why == pays {
				c.Why = "the last product before an output, whose rounding errors nothing averages out"
			}
			out = append(out, c)
		}
	})
	return out
}

// isProduct is the list of operators whose kernels multiply in bfloat16.
func isProduct(n *graph.Node) bool {
	if n.Domain != "" && n.Domain != op.FusedDomain || len(n.In) < 2 || len(n.Out) != 1 {
		return false
	}
	return n.Type == "Conv" || n.Type == "Gemm" || n.Type == "MatMul" || isAttention(n)
}

func isAttention(n *graph.Node) bool { return n.Domain == op.FusedDomain && n.Type == "Attention" }

const pays = "multiplying at twice the rate pays for rounding the operands"

// amp decides about one product by its own cost.
func amp(n *graph.Node, p Precision) (chosen bool, why string) {
	switch {
	case p == FP32:
		return false, "precision fp32"
	case !isProduct(n):
		return false, "not a product"
	case n.In[0].Type.DType != tensor.Float32:
		return false, fmt.Sprintf("its operands are %v", n.In[0].Type.DType)
	}
	d, ok := productOf(n)
	switch {
	case !ok:
		return false, "its shape is not known"
	case d.tiled:
		return false, "a 3 x 3 convolution multiplies four times less in transformed tiles of float32"
	case isAttention(n) && d.m < fewQueries:
		return false, "so few queries read each key once, and rounding it costs as much as multiplying"
	case d.depthwise:
		return false, "a depthwise convolution has nothing to share a rounded operand with"
	}
	saved, cost := d.saved(), d.rounding()
	if saved <= cost {
		return false, fmt.Sprintf("rounding the operands costs %.3g multiplications, twice the rate saves %.3g", cost, saved)
	}
	return true, pays
}

// productSize is the size of a matrix product, or of a convolution as one: batch times m x k by k x n.
type productSize struct {
	batch, m, k, n float64
	constant       bool // the k x n operand is constant, and is rounded once
	depthwise      bool
	tiled          bool // what kernel/conv computes in tiles (Lavin and Gray, 2016), at a large enough image
}

// mostTiled and leastTiled bound the weights of a channel pair and the pixels of convolutions for which tiles of float32 are faster
// than products of bfloat16.
const (
	mostTiled  = 256 * 256
	leastTiled = 28 * 28
)

// fewQueries is the number of queries from which the kernel of attention packs keys for several of them together.
const fewQueries = 16

func onesOnly(list []int64) bool {
	return !slices.ContainsFunc(list, func(v int64) bool { return v != 1 })
}

// roundCost is what rounding one element as it is packed costs, in float32 multiplications of a kernel.
const roundCost = 6

// saved is the time that twice the rate saves, in float32 multiplications. A product of few rows waits for its constant
// operand to come from memory, of which there is half as much.
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
		p.tiled = p.constant && group == 1 && slices.Equal(w[2:], []int{3, 3}) && onesOnly(n.Attrs.Ints("strides")) &&
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

// last reports whether no product is computed from what n computes.
func (s *scope) last(n *graph.Node) bool {
	seen := map[*graph.Node]bool{n: true}
	for todo := []*graph.Node{n}; len(todo) > 0; {
		m := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, v := range m.Out {
			if v == nil {
				continue
			}
			for _, u := range s.readers(v) {
				if isProduct(u) {
					return false
				}
				if !seen[u] {
					seen[u] = true
					todo = append(todo, u)
				}
			}
		}
	}
	return true
}
