package step

import (
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
)

// Missing is an operator without a gradient between weights and the loss.
type Missing struct {
	Operator string `json:"operator"`
	Node     string `json:"node"`
}

// Lacks lists the operators of a model that have no gradient and lie between the weights to train
// and the loss. Without any, Build may still refuse an operand that a rule does not cover.
func Lacks(model *graph.Graph, o Options) ([]Missing, error) {
	b, err := newBuilder(model, o)
	if err != nil {
		return nil, err
	}
	b.train()
	l, _, err := b.losses(o)
	if err != nil {
		return nil, err
	}
	varied, useful := b.between(l.mean)
	var out []Missing
	for _, n := range b.g.Nodes {
		row, err := n.Op()
		if err == nil && row.Differentiability() != op.NoRule || !varied[n] || !useful[n] {
			continue
		}
		name := n.Type
		if n.Domain != "" {
			name = n.Domain + ":" + name
		}
		out = append(out, Missing{Operator: name, Node: n.Name})
	}
	return out, nil
}

// between finds the nodes that depend on weights, and those that a value depends on.
func (b *builder) between(y *graph.Value) (varied, useful map[*graph.Node]bool) {
	varied, useful = map[*graph.Node]bool{}, map[*graph.Node]bool{}
	of := map[*graph.Value]bool{}
	for _, w := range b.weights {
		of[w] = true
	}
	for _, n := range b.g.Nodes {
		for _, v := range n.In {
			if v != nil && (of[v] || v.Producer != nil && varied[v.Producer]) {
				row, err := n.Op()
				varied[n] = err != nil || row.Differentiability() != op.Flat
			}
		}
	}
	useful[y.Producer] = true
	for i := len(b.g.Nodes) - 1; i >= 0; i-- {
		if n := b.g.Nodes[i]; useful[n] {
			for _, v := range n.In {
				if v != nil && v.Producer != nil {
					useful[v.Producer] = true
				}
			}
		}
	}
	return varied, useful
}
