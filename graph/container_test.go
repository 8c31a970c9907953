package graph_test

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/tensor"
)

const containers = `graph "containers" {
  opset "" 21
  input %s: sequence(float32[N,3])
  input %o: optional(sequence(int64[...]))
  input %m: sequence(map(string, float32[]))
  input %u: sequence(undefined[...])
  %a: sequence(float32[N,3]) = Identity@16 "a" (%s) {_type=type optional(map(int64, float32[])), _none=type undefined[...]}
  output %a
  output %o
}
`

func TestContainerTypesInText(t *testing.T) {
	g := parse(t, containers)
	if got := text(t, g); got != containers {
		t.Errorf("became\n%s", got)
	}
	if got := text(t, g.Clone()); got != containers {
		t.Errorf("its copy is\n%s", got)
	}
	if typ := g.Nodes[0].Attrs.Type("_type"); typ.DType != tensor.Optional ||
		typ.Elem.Key != tensor.Int64 {
		t.Errorf("the attribute is %v", typ)
	}
	for name, s := range map[string]string{
		"deep": "sequence" + strings.Repeat("(sequence", 100) + "(float32[])" +
			strings.Repeat(")", 100),
		"no element":   "sequence()",
		"open":         "sequence(float32[]",
		"map of one":   "map(string)",
		"keys":         "map(sequence(float32[]), float32[])",
		"with a shape": "sequence[3]",
	} {
		if _, err := graph.Parse("graph \"g\" {\n input %s: " + s + "\n output %s\n}"); err == nil {
			t.Errorf("%s: %s was read", name, s)
		}
	}
}

// TestDeclaredContainers holds that what a model declares of a container fills in what operators
// leave open, but for shapes, and is checked against what they tell.
func TestDeclaredContainers(t *testing.T) {
	g := parse(t, strings.Replace(containers, "%u: sequence(undefined[...])", "%u: float32[N]", 1))
	if err := g.InferTypes(); err != nil {
		t.Fatal(err)
	}
	s, err := g.Specialize(map[string][]int{"u": {5}, "s": {2}, "o": {0}, "m": {1}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.Outputs[0].Type.String(); got != "sequence(float32[...])" {
		t.Errorf("a specialised sequence is %s", got)
	}
	bad := parse(t, strings.Replace(containers, "%a: sequence(float32", "%a: sequence(int64", 1))
	if err := bad.InferTypes(); err == nil || !strings.Contains(err.Error(), "declared") {
		t.Errorf("a wrong declaration: %v", err)
	}
	n := graph.NewNode("n", "Abs", 13, nil, g.Inputs[:1], "y")
	if err := n.InferTypes(); err == nil || !strings.Contains(err.Error(), "sequence") {
		t.Errorf("the absolute value of a sequence: %v", err)
	}
	c := graph.NewConst("c", tensor.NewSequence())
	if err := (&graph.Graph{Name: "g", Outputs: []*graph.Value{c}}).Check(); err == nil {
		t.Error("a constant sequence")
	}
	if !op.OptionalOf(op.Type{}).Equal(op.Type{DType: tensor.Optional}) {
		t.Error("an optional of nothing known has an element type")
	}
}
