package step

import (
	"slices"

	"github.com/weirgpu/weir/graph"
)

// wholeAttention makes one operator of each attention of which nothing else reads scores or
// weights: its gradient computes scores again, so that none wait for the backward half. What is
// learnt and added to scores has a gradient that needs those of all scores, so attention stays as
// it was written there. By now weights are no constants, so that it is found among what no weight
// decides, once that is computed.
func (b *builder) wholeAttention(losses ...*loss) error {
	kept := []**graph.Value{}
	for _, l := range losses {
		kept = append(kept, &l.mean)
	}
	for i := range b.updates {
		kept = append(kept, &b.updates[i].by)
	}
	outs := b.g.Outputs
	for _, v := range kept {
		b.g.Outputs = append(b.g.Outputs, *v)
	}
	b.g.Outputs = append(b.g.Outputs, b.learntScores()...)
	if err := b.g.Sort(); err != nil {
		return err
	}
	err := makeWhole(b.g, "fold", "dead", "identity", "view", "attention")
	for i, v := range kept {
		*v = b.g.Outputs[len(outs)+i]
	}
	b.g.Outputs = b.g.Outputs[:len(outs)]
	return err
}

// learntScores are the operands of softmaxes to which something that changes with weights was added
// last, and not to what else does.
func (b *builder) learntScores() (scores []*graph.Value) {
	varied := map[*graph.Value]bool{}
	for _, w := range b.weights {
		varied[w] = true
	}
	varies := func(v *graph.Value) bool { return varied[v] }
	for _, n := range b.g.Nodes {
		if !slices.ContainsFunc(n.In, varies) {
			continue
		}
		for _, v := range n.Out {
			varied[v] = true
		}
		if n.Type == "Softmax" && addsTwo(n.In[0], varied) {
			scores = append(scores, n.In[0])
		}
	}
	return scores
}

// addsTwo reports whether a value is a sum, or what is added to one, of two that vary.
func addsTwo(v *graph.Value, varied map[*graph.Value]bool) bool {
	n := v.Producer
	if n == nil || n.Domain != "" || n.Type != "Add" {
		return false
	}
	if varied[n.In[0]] && varied[n.In[1]] {
		return true
	}
	return addsTwo(n.In[0], varied) || addsTwo(n.In[1], varied)
}
