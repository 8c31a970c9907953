package pass

import (
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// The unscale mark. In a step of training weir:Unscale stands between the gradients of weights and
// the optimizer. What reads its results, at any distance, keeps moments and weights, to which a
// step adds less than 16 bits can tell, so mixed precision ends there.

// unscaled lists the nodes of a graph from the unscale mark on, the mark included; nil where the
// graph has none and so is no step of training.
func unscaled(g *graph.Graph) map[*graph.Node]bool {
	var behind map[*graph.Node]bool
	for _, n := range g.Nodes {
		if n.Domain == op.FusedDomain && n.Type == op.Unscale ||
			slices.ContainsFunc(n.In, func(v *graph.Value) bool {
				return v != nil && behind[v.Producer]
			}) {
			if behind == nil {
				behind = map[*graph.Node]bool{}
			}
			behind[n] = true
		}
	}
	return behind
}

const unscaledWhy = "after the unscale mark: optimizers stay float32"
