package weir_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// dropped multiplies what Dropout leaves of x by w, beside bodies that use the same names of
// dimensions.
const dropped = `graph "dropped" {
  opset "" 17
  opset "ai.onnx.preview.training" 1
  input %x: float32[n,k]
  input %w: float32[k]
  input %c: bool[]
  const %ratio: float32[] = {0.5}
  const %training: bool[] = {true}
  %kept: float32[n,k] = Dropout@13 "drop" (%x, %ratio, %training) {seed=7}
  %y: float32[n,k] = Mul@14 "scale" (%kept, %w)
  %z: float32[n,k] = If@16 "choice" (%c | %x, %w) {then_branch=graph "then" captures 2 {
    input %a: float32[n,k]
    input %b: float32[k]
    %t: float32[n,k] = Add@14 (%a, %b)
    output %t
  }, else_branch=graph "else" captures 2 {
    input %a: float32[n,k]
    input %b: float32[k]
    %t: float32[n,k] = Sub@14 (%a, %b)
    output %t
  }}
  output %y
  output %z
}`

// trainingModel writes a model whose nodes Gradient asks for the derivatives of y by x and w.
func trainingModel(t *testing.T) (path string) {
	t.Helper()
	g, err := graph.Parse(dropped)
	if err != nil {
		t.Fatal(err)
	}
	ask := &graph.Node{Name: "ask", Domain: "ai.onnx.preview.training", Type: "Gradient",
		Version: 1, In: slices.Clone(g.Inputs[:2]),
		Attrs: op.Attrs{op.StringsAttr("xs", "x", "w"), op.StringAttr("y", "y")}}
	for i, name := range []string{"dx", "dw"} {
		v := &graph.Value{Name: name, Type: g.Inputs[i].Type, Producer: ask, Index: i}
		ask.Out = append(ask.Out, v)
		g.Outputs = append(g.Outputs, v)
	}
	g.Nodes = append(g.Nodes, ask)
	path = filepath.Join(t.TempDir(), "training.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestGradientsOfModel runs a model file that asks for gradients through Dropout in training, for
// several shapes: what was dropped on the way there is dropped on the way back.
func TestGradientsOfModel(t *testing.T) {
	m, err := weir.Open(trainingModel(t))
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	for i, shape := range [][2]int{{3, 40}, {1, 64}, {3, 40}, {7, 1}} {
		n, k := shape[0], shape[1]
		x, w := make([]float32, n*k), make([]float32, k)
		for j := range x {
			x[j] = float32(j%11) + 0.5
		}
		for j := range w {
			w[j] = float32(j%5) - 5.5
		}
		out, err := m.Run(t.Context(), weir.Inputs{"x": tensor.From(x, n, k),
			"w": tensor.From(w, k), "c": tensor.From([]bool{i%2 == 0})})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string][]float32{}
		for _, name := range []string{"y", "z", "dx", "dw"} {
			if got[name], err = weir.Data[float32](out.Output(name)); err != nil {
				t.Fatal(err)
			}
		}
		wantDropped(t, x, w, i%2 == 0, got)
		out.Close()
	}
}

// wantDropped compares outputs with what they are for the elements that y shows to be kept, of
// which there must be some, and some dropped.
func wantDropped(t *testing.T, x, w []float32, add bool, got map[string][]float32) {
	t.Helper()
	kept, dw := 0, make([]float32, len(w))
	for j, v := range x {
		k := j % len(w)
		y, z, dx := float32(0), v-w[k], float32(0)
		if add {
			z = v + w[k]
		}
		if got["y"][j] != 0 {
			kept++
			y, dx = 2*v*w[k], 2*w[k]
			dw[k] += 2 * v
		}
		if got["y"][j] != y || got["z"][j] != z || got["dx"][j] != dx {
			t.Fatalf("element %d: y %v, z %v, dx %v; want %v, %v, %v", j, got["y"][j], got["z"][j],
				got["dx"][j], y, z, dx)
		}
	}
	if kept == 0 || kept == len(x) {
		t.Errorf("%d of %d elements are kept", kept, len(x))
	}
	if !slices.Equal(got["dw"], dw) {
		t.Errorf("dw is %v, want %v", got["dw"], dw)
	}
}
