package scenario

import (
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/share"
	"github.com/weirgpu/weir/tensor"
)

// endless is a model whose Loop counts to 2⁵⁰.
func endless() *graph.Graph {
	value := func(name string, d tensor.DType) *graph.Value {
		return &graph.Value{Name: name, Type: op.Concrete(d)}
	}
	inner := value("inner", tensor.Float32)
	again := graph.NewConst("again", tensor.Scalar(true))
	body := &graph.Graph{Name: "body",
		Inputs: []*graph.Value{value("i", tensor.Int64), value("cond", tensor.Bool), inner},
		Opsets: map[string]int{"": 13}}
	step := graph.NewNode("step", "Neg", 13, nil, []*graph.Value{inner}, "next")
	body.Nodes, body.Outputs = []*graph.Node{step}, []*graph.Value{again, step.Out[0]}
	x := value("x", tensor.Float32)
	trips := graph.NewConst("trips", tensor.Scalar[int64](1<<50))
	loop := graph.NewNode("loop", "Loop", 13, op.Attrs{op.BodyAttr("body", body)},
		[]*graph.Value{trips, nil, x}, "y")
	loop.Out[0].Type = op.Concrete(tensor.Float32)
	return &graph.Graph{Name: "endless", Inputs: []*graph.Value{x}, Outputs: loop.Out,
		Nodes:  []*graph.Node{loop},
		Opsets: map[string]int{"": 13}}
}

// TestEndlessRequestFailsAlone: a request that never ends fails its job before anything is
// measured, and the neighbour runs.
func TestEndlessRequestFailsAlone(t *testing.T) {
	for _, arrival := range []Arrival{{Closed: 1}, {Load: 0.5}} {
		s := &Scenario{Policy: "fair", Jobs: []Job{
			{Job: share.Job{Name: "endless", Iterations: 1}, Model: "endless", Graph: endless(),
				Arrival: arrival},
			closedJob("good", denseGraph(t), 3),
		}}
		res, err := Run(t.Context(), s, Options{FirstRequest: 100 * time.Millisecond})
		if err != nil {
			t.Fatal(err)
		}
		if j := res.Jobs[0]; j.Status != StatusFailed ||
			!strings.Contains(j.Error, "did not end within 100ms") {
			t.Errorf("%v: the endless job is %s: %s", arrival, j.Status, j.Error)
		}
		if j := res.Jobs[1]; j.Status != StatusDone || j.Iterations != 3 {
			t.Errorf("%v: the neighbour is %s with %d of 3 iterations: %s", arrival, j.Status,
				j.Iterations, j.Error)
		}
	}
}
