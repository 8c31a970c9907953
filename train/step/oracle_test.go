package step_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
)

// oracle is what testdata/oracle.py notes of a loss.
type oracle struct {
	Name                      string
	Shape                     []int
	Scores, Gradient, Teacher []float64
	Loss                      float64
	Labels                    []int64
	Length, Blank             int
	Weight, Temperature       float64
	Attending                 float64
	Ignore                    *float64
}

// scoring is a model that gives numbers, which are its weights, as scores of a shape.
func scoring(t *testing.T, name string, shape []int, v []float64) *graph.Graph {
	t.Helper()
	n := len(v) / shape[0]
	g, err := graph.Parse(fmt.Sprintf(`graph %q {
 opset "" 18
 input %%x: float32[%d,%[2]d]
 const %%%[1]s: float32[%[2]d,%[3]d] = {%[4]s}
 const %%shape: int64[%[5]d] = {%[6]s}
 %%p = MatMul@13 (%%x, %%%[1]s)
 %%y = Reshape@14 (%%p, %%shape)
 output %%y
}`, name, shape[0], n, listed(v), len(shape), strings.Trim(strings.ReplaceAll(fmt.Sprint(shape),
		" ", ", "), "[]")))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func listed(v []float64) string {
	return strings.Trim(strings.ReplaceAll(fmt.Sprint(v), " ", ", "), "[]")
}

// TestOracle holds losses, and the gradients that plain descent at a rate of 1 takes off, to those
// of PyTorch.
func TestOracle(t *testing.T) {
	file, err := os.ReadFile("testdata/torch.json")
	if err != nil {
		t.Fatal(err)
	}
	var all struct{ Cases []oracle }
	if err := json.Unmarshal(file, &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Cases) < 10 {
		t.Fatalf("%d cases", len(all.Cases))
	}
	for _, c := range all.Cases {
		t.Run(c.Name, func(t *testing.T) { c.hold(t) })
	}
}

func (c *oracle) hold(t *testing.T) {
	o := step.Options{Loss: step.Loss{Kind: step.CrossEntropy, Ignore: c.Ignore},
		Optimizer: step.SGD.Defaults()}
	labels := append([]int{c.Shape[0]}, c.Shape[2:]...)
	if c.Length > 0 {
		o.Loss = step.Loss{Kind: step.CTC, Length: c.Length, Blank: c.Blank}
		labels = []int{c.Shape[0], c.Length}
	}
	if c.Teacher != nil {
		o.Distil = &step.Distil{Teacher: scoring(t, "teacher", c.Shape, c.Teacher),
			Weight: c.Weight, Temperature: c.Temperature}
		o.Shapes = map[string][]int{"x": {c.Shape[0], c.Shape[0]}}
	}
	if c.Attending > 0 {
		o.Distil.Attention, o.Distil.AttentionWeight = map[string]string{"p": "p"}, c.Attending
	}
	s, err := step.Build(scoring(t, "w", c.Shape, c.Scores), o)
	if err != nil {
		t.Fatal(err)
	}
	n := c.Shape[0]
	one := make([]float32, n*n)
	for i := range n {
		one[i*n+i] = 1
	}
	state := map[string]*tensor.Tensor{"w": s.Params[0].Start}
	in := map[string]*tensor.Tensor{"x": tensor.From(one, n, n),
		"labels": tensor.From(c.Labels, labels...)}
	for name, v := range step.SGD.Defaults().Scalars(1, 1) {
		in[name] = tensor.Scalar(v)
	}
	near(t, "loss", iterate(t, s.Train, in, state), []float64{c.Loss})
	want := make([]float64, len(c.Scores))
	for i, d := range c.Gradient {
		want[i] = c.Scores[i] - d
	}
	near(t, "weights", state["w"], want)
	if c.Teacher != nil {
		return
	}
	state = map[string]*tensor.Tensor{"w": s.Params[0].Start}
	var ins []*tensor.Tensor
	for _, v := range s.Eval.Inputs {
		if v.Name == "w" {
			in["w"] = state["w"]
		}
		ins = append(ins, in[v.Name])
	}
	out, err := s.Eval.Eval(t.Context(), ins)
	if err != nil || len(out[0].Shape) != 1 || out[0].Shape[0] != n {
		t.Fatalf("losses of samples are %v: %v", out, err)
	}
}
