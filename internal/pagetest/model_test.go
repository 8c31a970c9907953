package pagetest

import (
	_ "embed"
	"encoding/json"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/graph/stages"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/internal/roofline"
)

// measured is a profile of a small network for images, taken once: of times that are measured anew
// the page would be another in each run.
//
//go:embed testdata/roofline.json
var measured []byte

// writeRoofline writes the page of a profile, under names that it has to escape and to shorten.
func writeRoofline(t *testing.T, w io.Writer) {
	t.Helper()
	var table roofline.Table
	if err := json.Unmarshal(measured, &table); err != nil {
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
