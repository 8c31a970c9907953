package pass

import (
	"maps"
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
	// they are stored as bfloat16, those that are included, and their bytes in float32.
	NarrowValues int   `json:"narrow_values"`
	NarrowBytes  int64 `json:"narrow_bytes"`
	// Saved are the values of a step of training that wait for the backward half.
	Saved []AmpSaved `json:"saved,omitempty"`
}

// AmpSaved is a value that waits for readers far behind the node that computes it.
type AmpSaved struct {
	Value  string `json:"value"`
	Kept   bool   `json:"kept"`   // in 16 bits
	Bytes  int64  `json:"bytes"`  // that 16 bits save, or would
	Reader string `json:"reader"` // the value for which it is read first after it has waited
	Why    string `json:"why"`
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
		f, behind := newAmpFlow(b), unscaled(b)
		if p.mixed() {
			r.Saved = append(r.Saved, savedOf(b, p)...)
		}
		for _, n := range b.Nodes {
			c := choiceOf(n, f, p, &on.Costs)
			if behind[n] {
				c.Why = unscaledWhy
			}
			r.Nodes = append(r.Nodes, c)
			r.Casts.add(c.Casts)
			if staysPixels(n) && n.Type != "Transpose" {
				r.narrow(n.Out...)
			}
		}
		r.narrow(slices.Collect(maps.Keys(f.narrow))...)
	})
	return r
}

// narrow counts values as those that lose nothing as bfloat16.
func (r *AmpReport) narrow(list ...*graph.Value) {
	for _, v := range list {
		if k, ok := v.Type.Count().Int(); ok {
			r.NarrowValues++
			r.NarrowBytes += 4 * int64(k)
		}
	}
}

func choiceOf(n *graph.Node, f *ampFlow, p Precision, on *compute.Costs) AmpChoice {
	c := AmpChoice{Node: n.Name, Operator: n.Call().Name(), Chosen: inBF16(n) || inFP16(n)}
	c.List, c.Why = ampList(n)
	c.Narrow = staysPixels(n) || len(n.Out) > 0 &&
		!slices.ContainsFunc(n.Out, func(v *graph.Value) bool { return v != nil && !f.narrow[v] })
	switch {
	case isPixelProduct(n):
		c.Chosen, c.Casts = true, pixelCasts(n, f.readers)
	case isPixelConv(n):
	case c.List == AmpAllow:
		cost := ampCostOf(n, on)
		c.Cost = &cost
		if _, c.Why = amp(n, p, on); p.mixed() && cost.pays() && !c.Chosen {
			c.Why = "the last product before an output, whose rounding errors nothing averages out"
		}
		switch {
		case inFP16(n):
			c.Why, c.Casts = "rounded to float16, as was asked for", roundedCasts(n)
		case c.Chosen:
			c.Casts = castsOf(n)
		}
	case c.List == AmpInfer:
		if !c.Narrow {
			c.Why = inferWhy(n, f)
		}
	}
	return c
}

// savedOf lists the values of a graph that wait: those that are kept in 16 bits, and others with
// what keeps them in float32.
func savedOf(g *graph.Graph, p Precision) []AmpSaved {
	list := keptInHalf(g)
	f := newSaving(g, p)
	if f.behind == nil {
		return list
	}
	for _, s := range f.waiting() {
		if s.wide == "" {
			s.wide = "less is alive while it waits than at the most"
		}
		list = append(list, AmpSaved{s.value.Name, false, s.bytes, f.g.Nodes[s.to].Out[0].Name,
			s.wide})
	}
	return list
}

// keptInHalf tells of the values that a pass has halved while they wait.
func keptInHalf(g *graph.Graph) []AmpSaved {
	var list []AmpSaved
	index := map[*graph.Value]bool{}
	for _, n := range g.Nodes {
		v := savedOperand(n)
		if v == nil || n.Out[0] == nil {
			continue
		}
		from := v.Producer
		for from != nil && isView(from) {
			from = from.In[0].Producer
		}
		if from == nil || !isCast(from) || index[from.In[0]] {
			continue
		}
		index[from.In[0]] = true
		k, _ := v.Type.Count().Int()
		list = append(list, AmpSaved{from.In[0].Name, true, int64(2 * k), n.Out[0].Name,
			"waits in 16 bits from here on"})
	}
	return list
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
