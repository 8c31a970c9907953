package plan

import (
	"slices"
	"testing"

	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/zoo"
)

// TestPassesAskTheTarget holds that plans have products of bfloat16 for a device that says they pay
// and none for one that lacks them, whatever the processor that compiles.
func TestPassesAskTheTarget(t *testing.T) {
	a := small[0]
	g, err := zoo.New(a.name, a.options)
	if err != nil {
		t.Fatal(err)
	}
	halved := func(n *graph.Node) bool { return n.Attrs.Has("precision") }
	for _, f := range []compute.Features{{}, {BF16: true, Costs: compute.Costs{Rounding: 0.1}}} {
		p, err := Compile(t.Context(), g, Options{Target: compute.WithFeatures(host, f),
			Shapes: shapesOf(g, a.shape), Passes: pass.Options{Precision: pass.BF16}})
		if err != nil {
			t.Fatal(err)
		}
		if got := slices.ContainsFunc(p.Graph.Nodes, halved); got != f.BF16 {
			t.Errorf("products of bfloat16 for %+v: %v", f, got)
		}
	}
}
