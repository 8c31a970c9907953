package plan

import (
	"context"
	"math/rand/v2"
	"testing"

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
