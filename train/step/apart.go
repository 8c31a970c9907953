package step

import (
	"fmt"
	"slices"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
)

// Apart returns a copy of a model in which no two operands share a constant by chance: exporters
// write equal constants once, and before training all scales, and all biases of a size, are equal.
// Constants with elements that differ stay shared: they are weights that were tied.
func Apart(model *graph.Graph) *graph.Graph {
	g := model.Clone()
	seen, names := map[*graph.Value]bool{}, map[string]bool{}
	for _, v := range g.Constants() {
		names[v.Name] = true
	}
	for _, n := range g.Nodes {
		for i, v := range n.In {
			_, weight := roles[n.Type][i]
			weight = weight || n.Type == "BatchNormalization" && i >= 3
			if v == nil || !weight || !v.IsConst() || !uniform(v.Const()) {
				continue
			}
			if seen[v] {
				name := v.Name
				for k := 2; names[name]; k++ {
					name = fmt.Sprint(v.Name, ".", k)
				}
				names[name] = true
				n.In[i] = graph.NewConst(name, v.Const())
			}
			seen[v] = true
		}
	}
	return g
}

// uniform reports whether a constant has several elements, all equal.
func uniform(t *tensor.Tensor) bool {
	if t.DType != tensor.Float32 || t.Len() < 2 {
		return false
	}
	v := tensor.As[float32](t)
	return !slices.ContainsFunc(v, func(x float32) bool { return x != v[0] })
}
