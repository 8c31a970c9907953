package plan

import (
	"context"
	"math/rand/v2"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// TestSimplify holds that plans of several shapes made from the simplified graph have the steps of
// those made from the model, give its results, and leave less to the passes.
func TestSimplify(t *testing.T) {
	pool := newPool(t)
	for _, a := range small {
		g, err := zoo.New(a.name, a.options)
		if err != nil {
			t.Fatal(err)
		}
		s, err := Simplify(context.Background(), g)
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range []int{1, 3} {
			if n > 1 && g.Inputs[0].Type.Static() {
				continue
			}
			shape := append([]int{n}, a.shape[1:]...)
			o := Options{Target: host, Shapes: shapesOf(g, shape), Threads: threads}
			in := like(rand.New(rand.NewPCG(2, uint64(n))), g, o.Shapes)
			whole, rest := compileAs(t, g, o), compileAs(t, s, o)
			if len(whole.Steps) != len(rest.Steps) {
				t.Errorf("%s: %d steps from the model, %d from what is left of it", a.name,
					len(whole.Steps), len(rest.Steps))
			}
			if w, r := whole.Passes.Changes(), rest.Passes.Changes(); r >= w {
				t.Errorf("%s: %d changes to the model, %d to what is left of it", a.name, w, r)
			}
			want, got := runPlan(t, pool, whole, in), runPlan(t, pool, rest, in)
			for i := range want {
				if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > 1e-5 {
					t.Errorf("%s: output %d: relative distance %v, %v", a.name, i, d, err)
				}
			}
		}
	}
}

// TestSimplifiedLoopDeclaresItsCounters holds that the number of the iteration and the condition
// keep their declared ranks in a Loop over a sequence, of which no rule tells them.
func TestSimplifiedLoopDeclaresItsCounters(t *testing.T) {
	g := parse(t, `input %s: sequence(float32[...])
		input %x: float32[3]
		const %n: int64[] = {2}
		const %c: bool[] = {true}
		%r = Loop@17 (%n, %c, %s | %x) {body=graph "body" captures 1 {
			input %i: int64[]
			input %c: bool[]
			input %s: sequence(float32[...])
			input %x: float32[3]
			%t = SequenceInsert@11 (%s, %x)
			output %c
			output %t
		}}
		output %r`)
	s, err := Simplify(t.Context(), g)
	if err != nil {
		t.Fatal(err)
	}
	loops := 0
	s.Walk(func(b *graph.Graph) {
		for _, n := range b.Nodes {
			for _, body := range n.Bodies() {
				loops++
				for _, v := range body.Inputs[:2] {
					if !v.Type.Ranked || len(v.Type.Shape) != 0 {
						t.Errorf("%s is declared as %v", v.Name, v.Type)
					}
				}
			}
		}
	})
	if loops != 1 {
		t.Errorf("%d bodies", loops)
	}
}
