package grad_test

import (
	"testing"

	"github.com/weirgpu/weir/grad"
	"github.com/weirgpu/weir/graph"
)

// backwardOf adds the gradients of the first output by all inputs to a graph.
func backwardOf(t *testing.T, g *graph.Graph) {
	t.Helper()
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	o := grad.Objective{Of: []*graph.Value{g.Outputs[0]}, By: g.Inputs}
	if _, err := grad.Backward(g, o); err != nil {
		t.Fatal(err)
	}
}

// TestRowsOfStacks: the gradient of a matrix by which all rows of a stack are multiplied is one
// product, not one for each matrix of the stack and their sum, and nothing is turned for it.
func TestRowsOfStacks(t *testing.T) {
	for _, lines := range []string{"input %x: float64[4,5,3]", "input %x: float64[5,3]",
		"input %x: float64[n,m,3]", "input %x: float64[2,4,5,3]"} {
		g := parse(t, lines+`
input %w: float64[3,2]
%y = MatMul@13 "y" (%x, %w)
output %y`)
		backwardOf(t, g)
		products := 0
		for _, n := range g.Nodes {
			switch n.Type {
			case "Gemm":
				products++
			case "ReduceSum", "Transpose":
				t.Errorf("%s: %v", lines, n.Type)
			}
		}
		if products != 2 {
			t.Errorf("%s: %d products, want 2", lines, products)
		}
	}
}

// TestCutsArePadded: the gradient of what was cut out, where it is known from where, has zeros
// around it, and no element is looked for.
func TestCutsArePadded(t *testing.T) {
	for _, line := range []string{
		"%one = Constant@13 () {value_ints=[1]}\n%three = Constant@13 () {value_ints=[3]}\n" +
			`%y = Slice@13 "y" (%x, %one, %three)`,
		"%two = Constant@13 () {value_int=2}\n" + `%y = Gather@13 "y" (%x, %two)`,
	} {
		g := parse(t, "input %x: float64[4,3]\n"+line+"\noutput %y")
		backwardOf(t, g)
		pads := 0
		for _, n := range g.Nodes {
			switch n.Type {
			case "Pad":
				pads++
			case "ScatterElements", "ScatterND":
				t.Errorf("%s: %v", line, n.Type)
			}
		}
		if pads != 1 {
			t.Errorf("%s: %d pads, want 1", line, pads)
		}
	}
}
