package pass

import "github.com/weirgpu/weir/graph"

// AmpCast is a conversion that a rewriting by lists puts beside a product, and what becomes of it.
type AmpCast struct {
	Value string      `json:"value"`
	To    string      `json:"to"` // bfloat16 for an operand, float32 for the result
	Fate  AmpCastFate `json:"fate"`
	Why   string      `json:"why"`
}

// AmpCastFate is what becomes of a cast.
type AmpCastFate string

// The fates. Casts to bfloat16 stay nodes beside convolutions of pixels alone: kernels of other
// products take and return float32.
const (
	// into a constant, which is rounded once when it is packed
	AmpFolded AmpCastFate = "folded"
	// into the kernel, which rounds the operand as it packs it
	AmpFused      AmpCastFate = "fused"
	AmpEliminated AmpCastFate = "eliminated" // nothing to convert
	AmpNode       AmpCastFate = "node"       // a node of its own, where no kernel rounds
)

// AmpCasts counts casts by fate.
type AmpCasts struct {
	Inserted   int `json:"inserted"`
	Folded     int `json:"folded"`
	Fused      int `json:"fused"`
	Eliminated int `json:"eliminated"`
}

// Left is how many casts stay nodes.
func (c *AmpCasts) Left() int { return c.Inserted - c.Folded - c.Fused - c.Eliminated }

func (c *AmpCasts) add(list []AmpCast) {
	for _, cast := range list {
		c.Inserted++
		switch cast.Fate {
		case AmpFolded:
			c.Folded++
		case AmpFused:
			c.Fused++
		case AmpEliminated:
			c.Eliminated++
		}
	}
}

// roundedCasts lists the casts around a product whose operands and result are float16.
func roundedCasts(n *graph.Node) []AmpCast {
	var list []AmpCast
	for _, v := range n.In[:2] {
		c := AmpCast{v.Name, "float16", AmpNode, "no kernel multiplies float16: rounded before it"}
		switch {
		case v.IsConst():
			c.Fate, c.Why = AmpFolded, "constant: rounded once"
		case !isCast(v.Producer):
			c.Fate, c.Why = AmpEliminated, "rounded already"
		}
		list = append(list, c)
	}
	return append(list, AmpCast{n.Out[0].Name, "float16", AmpNode, "stored in 16 bits"})
}

// castsOf lists the casts around a product that multiplies in bfloat16: one for each multiplied
// operand, one for the result.
func castsOf(n *graph.Node) []AmpCast {
	var list []AmpCast
	for _, v := range n.In[:2] {
		c := AmpCast{v.Name, "bfloat16", AmpFused,
			"computed in every iteration: rounded as the kernel packs it"}
		switch {
		case v.IsConst():
			c.Fate, c.Why = AmpFolded, "constant: rounded once, as it is packed at load"
		case savedOperand(n) == v:
			c.Fate, c.Why = AmpEliminated, "read as it has waited"
		}
		list = append(list, c)
	}
	return append(list, AmpCast{n.Out[0].Name, "float32", AmpEliminated,
		"sums are float32 already"})
}
