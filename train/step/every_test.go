package step_test

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/conformance/archive"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train/step"
	"github.com/weirgpu/weir/zoo"
)

// TestEveryModel builds a step of every model of package zoo, and of those of ONNX's backend tests
// that are whole networks, or is told which operator has no gradient.
func TestEveryModel(t *testing.T) {
	for _, name := range zoo.Names() {
		t.Run(name, func(t *testing.T) {
			g, err := zoo.New(name, zoo.Options{})
			if err != nil {
				t.Fatal(err)
			}
			buildsStep(t, g)
		})
	}
	dir, err := archive.BackendTests()
	if err != nil {
		t.Skip(err)
	}
	files, err := filepath.Glob(filepath.Join(dir, "light", "*.onnx"))
	if err != nil || len(files) == 0 {
		t.Fatal("no models in ", dir, err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".onnx"), func(t *testing.T) {
			m, err := onnx.Open(file, onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer m.Close()
			weigh(t, m.Graph)
			buildsStep(t, m.Graph)
		})
	}
}

// weigh makes constants of what a network is given for its weights, which are left out: shapes.
func weigh(t *testing.T, g *graph.Graph) {
	t.Helper()
	of := map[*graph.Value]*graph.Value{}
	for _, n := range g.Nodes {
		for i, v := range n.In {
			if c := of[v]; c != nil {
				n.In[i] = c
			}
		}
		if n.Type != "ConstantOfShape" || !n.In[0].IsConst() {
			continue
		}
		o, err := n.Op()
		if err != nil {
			t.Fatal(err)
		}
		out, err := op.Run(t.Context(), o, n.Call(), []*tensor.Tensor{n.In[0].Const()})
		if err != nil {
			t.Fatal(err)
		}
		of[n.Out[0]] = graph.NewConst(n.Out[0].Name, out[0])
	}
	g.Nodes = slices.DeleteFunc(g.Nodes, func(n *graph.Node) bool { return of[n.Out[0]] != nil })
}

func buildsStep(t *testing.T, g *graph.Graph) {
	t.Helper()
	o := step.Options{Shapes: map[string][]int{}, Optimizer: step.SGD.Defaults(),
		Loss: step.Loss{Kind: step.SquaredError, Scores: g.Outputs[0].Name}}
	for _, v := range g.Inputs {
		if v.Type.Static() {
			continue
		}
		var shape []int
		for _, d := range v.Type.Shape {
			n, ok := d.Int()
			if !ok {
				n = 2
			}
			shape = append(shape, n)
		}
		o.Shapes[v.Name] = shape
	}
	s, err := step.Build(step.Apart(g), o)
	if errors.Is(err, op.ErrNoGradient) {
		lacks, e := step.Lacks(step.Apart(g), o)
		if e != nil || len(lacks) == 0 {
			t.Errorf("%v: operators that lack a gradient: %v, %v", err, lacks, e)
		}
		t.Log(err)
		return
	}
	if err != nil {
		t.Error(err)
		return
	}
	if len(s.Params) < 10 || len(s.Train.Updates) < len(s.Params) {
		t.Errorf("%d weights, %d variables change", len(s.Params), len(s.Train.Updates))
	}
}
