package step_test

import (
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/train/step"
)

// TestGeluIsWhole: what exporters write as ½·x·(1 + Erf(x/√2)) is differentiated as one operator,
// which reads x again and nothing else.
func TestGeluIsWhole(t *testing.T) {
	g, err := graph.Parse(`graph "gelu" {
		opset "" 18
		input %x: float32[4,3]
		const %w: float32[3,2] = {0.3, -0.2, 0.1, 0.4, -0.5, 0.2}
		const %root: float32[] = {1.4142135}
		const %one: float32[] = {1}
		const %half: float32[] = {0.5}
		%a = MatMul@13 (%x, %w)
		%b = Div@14 (%a, %root)
		%c = Erf@13 (%b)
		%d = Add@14 (%c, %one)
		%e = Mul@14 (%a, %d)
		%y = Mul@14 (%e, %half)
		output %y
	}`)
	if err != nil {
		t.Fatal(err)
	}
	s, err := step.Build(g, step.Options{Shapes: map[string][]int{"x": {4, 3}},
		Loss: step.Loss{Kind: step.SquaredError}, Optimizer: step.SGD.Defaults()})
	if err != nil {
		t.Fatal(err)
	}
	count := map[string]int{}
	for _, n := range s.Train.Nodes {
		count[n.Type]++
	}
	if count["Gelu"] != 1 || count[op.GeluGradient] != 1 || count["Erf"] != 0 {
		t.Errorf("%v, want one Gelu, its gradient, and no Erf", count)
	}
	if w := g.Nodes[0].In[1]; !w.IsConst() {
		t.Errorf("the model was changed: its weights are %v", w.Type)
	}
}
