package pass

import (
	"slices"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
)

// AmpReport explains what mixed precision has made of a graph.
type AmpReport struct {
	Precision Precision   `json:"precision"`
	Nodes     []AmpChoice `json:"nodes"` // bodies included
	Casts     AmpCasts    `json:"casts"`
	// NarrowValues and NarrowBytes are the values between products in bfloat16 that lose nothing if
	// they are stored as bfloat16, and their bytes in float32.
	NarrowValues int   `json:"narrow_values"`
	NarrowBytes  int64 `json:"narrow_bytes"`
}

// AmpChoice is what mixed precision makes of one node and why.
type AmpChoice struct {
	Node     string    `json:"node"`
	Operator string    `json:"operator"`
	List     AmpList   `json:"list"`
	Chosen   bool      `json:"bf16"`
	Why      string    `json:"why"`
	Cost     *AmpCost  `json:"cost,omitempty"`  // of nodes on the list of products
	Casts    []AmpCast `json:"casts,omitempty"` // of products in bfloat16
	// Narrow says that the result is used in bfloat16 only, from here on to the next products.
	Narrow bool `json:"narrow,omitempty"`
}

// Amp says of every node of a graph that [Run] has optimised what the precision made of it on a
// device of those features, bodies included.
func Amp(g *graph.Graph, p Precision, on compute.Features) *AmpReport {
	r := &AmpReport{Precision: p}
	g.Walk(func(b *graph.Graph) {
		f := newAmpFlow(b)
		for _, n := range b.Nodes {
			c := choiceOf(n, f, p, &on.Costs)
			r.Nodes = append(r.Nodes, c)
			r.Casts.add(c.Casts)
		}
		for v := range f.narrow {
			if k, ok := v.Type.Count().Int(); ok {
				r.NarrowValues++
				r.NarrowBytes += 4 * int64(k)
			}
		}
	})
	return r
}

func choiceOf(n *graph.Node, f *ampFlow, p Precision, on *compute.Costs) AmpChoice {
	c := AmpChoice{Node: n.Name, Operator: n.Call().Name(), Chosen: inBF16(n)}
	c.List, c.Why = ampList(n)
	c.Narrow = len(n.Out) > 0 && !slices.ContainsFunc(n.Out, func(v *graph.Value) bool {
		return v != nil && !f.narrow[v]
	})
	switch c.List {
	case AmpAllow:
		cost := ampCostOf(n, on)
		c.Cost = &cost
		if _, c.Why = amp(n, p, on); p.mixed() && cost.pays() && !c.Chosen {
			c.Why = "the last product before an output, whose rounding errors nothing averages out"
		}
		if c.Chosen {
			c.Casts = castsOf(n)
		}
	case AmpInfer:
		if !c.Narrow {
			c.Why = inferWhy(n, f)
		}
	}
	return c
}

// inferWhy says what keeps a node of AmpInfer in float32: what is before it, or what is after it.
func inferWhy(n *graph.Node, f *ampFlow) string {
	if slices.ContainsFunc(carried(n), func(v *graph.Value) bool {
		return v != nil && v.IsConst()
	}) {
		return "a look-up or a part of a constant: no product before it"
	}
	for _, v := range carried(n) {
		if v != nil && !f.narrow[v] {
			return "stays float32 with what is before it"
		}
	}
	return "stays float32 for what reads it"
}
