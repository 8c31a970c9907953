package pagetest

import (
	"context"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/engine"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/graph/stages"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/roofline"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/zoo"
)

// model returns a small network for images, under names that a page has to escape and to shorten.
func model(t *testing.T) *graph.Graph {
	t.Helper()
	g, err := zoo.New("resnet50", zoo.Options{Layers: 1, Width: 0.25, Resolution: 64, Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	g.Nodes[0].Name, g.Nodes[1].Name, g.Nodes[2].Name = evilName, longName, longName+evilName
	g.Nodes[1].Out[0].Name = evilName + longName
	return g
}

// writeRoofline writes the page of a profile beside the limits of this machine.
func writeRoofline(t *testing.T, w io.Writer) {
	t.Helper()
	g := model(t)
	p, err := plan.Compile(t.Context(), g, plan.Options{Target: kernels.Target(device.Info{}),
		Shapes: map[string][]int{g.Inputs[0].Name: {1, 3, 64, 64}}, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	dev, err := cpu.Open("cpu:0", cpu.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	pool := cpu.NewPool(cpu.PoolOptions{Threads: 1})
	defer pool.Close()
	s, err := engine.Load(p, engine.Options{Device: dev, Pool: pool})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	i, err := s.Take()
	if err != nil {
		t.Fatal(err)
	}
	defer i.Put()
	limits, err := roofline.Measure(t.Context(), kernels.Target(device.Info{}), pool)
	if err != nil {
		t.Fatal(err)
	}
	table, err := roofline.Profile(context.Background(), limits, i, func() error { return nil }, 3)
	if err != nil {
		t.Fatal(err)
	}
	if err := table.HTML(w, "Roofline of resnet50.onnx",
		time.Date(2026, 11, 23, 16, 0, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
}

// writeStages writes the page of what the passes make of a model.
func writeStages(t *testing.T, w io.Writer) {
	t.Helper()
	g, err := graph.Parse(`graph "tiny" {
  opset "" 17
  input %"</script><script>": float32[N,2]
  const %w: float32[2,2] = {1, 2, 3, 4}
  const %one: float32[] = {1}
  %a: float32[N,2] = MatMul@13 "<b>" (%"</script><script>", %w)
  %` + strings.ReplaceAll(longName, "-", "_") + `: float32[N,2] = Identity@16 (%a)
  %c: float32[N,2] = Mul@14 (%` + strings.ReplaceAll(longName, "-", "_") + `, %one)
  %d: float32[N,2] = Relu@14 (%c)
  %y: float32[N,2] = Relu@14 (%d)
  output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	drawn := []stages.Stage{{Name: "as read", Graph: g.Clone()}}
	s, err := g.Specialize(map[string][]int{g.Inputs[0].Name: {4, 2}})
	if err != nil {
		t.Fatal(err)
	}
	record := func(name string, g *graph.Graph) {
		drawn = append(drawn, stages.Stage{Name: name, Graph: g.Clone()})
	}
	if _, err := pass.Run(t.Context(), s, pass.Options{Dump: record}); err != nil {
		t.Fatal(err)
	}
	if err := stages.HTML(w, "tiny.onnx", drawn); err != nil {
		t.Fatal(err)
	}
}
