package plan

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/zoo"
)

// small are variants of the standard architectures that the reference evaluates in a moment, with
// input shapes.
var small = []struct {
	name    string
	options zoo.Options
	shape   []int
}{
	{"resnet50", zoo.Options{Layers: 2, Width: 0.125, Resolution: 64, Classes: 10},
		[]int{2, 3, 64, 64}},
	{"mobilenetv2", zoo.Options{Layers: 2, Width: 0.25, Resolution: 64, Classes: 10},
		[]int{1, 3, 64, 64}},
	{"yolov8n", zoo.Options{Width: 0.5, Resolution: 64, Classes: 5}, []int{1, 3, 64, 64}},
	{"bert-base", zoo.Options{Layers: 2, Hidden: 128, Vocabulary: 100}, []int{2, 9}},
	{"minilm-l6", zoo.Options{Layers: 2, Hidden: 64, Vocabulary: 100}, []int{1, 7}},
	{"gpt2", zoo.Options{Layers: 2, Hidden: 128, Vocabulary: 100}, []int{1, 11}},
}

// like makes inputs of a graph under the given shapes: pictures, token numbers, masks of ones.
func like(r *rand.Rand, g *graph.Graph, shapes map[string][]int) []*tensor.Tensor {
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		shape, ok := shapes[v.Name]
		if !ok {
			shape, _ = v.Type.Ints()
		}
		x, err := tensor.New(v.Type.DType, shape...)
		if err != nil {
			panic(err)
		}
		for i := range x.Len() {
			switch {
			case v.Type.DType == tensor.Float32:
				tensor.As[float32](x)[i] = r.Float32()
			case v.Name == "attention_mask":
				tensor.As[int64](x)[i] = 1
			case v.Name == "sr":
				tensor.As[int64](x)[i] = 16000
			case v.Name == "token_type_ids":
				tensor.As[int64](x)[i] = r.Int64N(2)
			case v.Type.DType == tensor.Int32:
				tensor.As[int32](x)[i] = r.Int32N(100)
			default:
				tensor.As[int64](x)[i] = r.Int64N(100)
			}
		}
		in = append(in, x)
	}
	return in
}

func shapesOf(g *graph.Graph, shape []int) map[string][]int {
	shapes := map[string][]int{}
	for _, v := range g.Inputs {
		shapes[v.Name] = shape
	}
	return shapes
}

// TestArchitectures compares the plans of small variants with their evaluation, and holds that each
// step has a kernel of its own and that an iteration allocates nothing.
func TestArchitectures(t *testing.T) {
	pool := newPool(t)
	for _, a := range small {
		t.Run(a.name, func(t *testing.T) {
			g, err := zoo.New(a.name, a.options)
			if err != nil {
				t.Fatal(err)
			}
			o := Options{Target: host, Shapes: shapesOf(g, a.shape), Threads: threads}
			in := like(rand.New(rand.NewPCG(1, 1)), g, o.Shapes)
			want, err := g.Eval(context.Background(), in)
			if err != nil {
				t.Fatal(err)
			}
			p := compileAs(t, g, o)
			got := runPlan(t, pool, p, in)
			for i := range want {
				if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > 1e-4 {
					t.Errorf("output %q: relative distance %v, %v", g.Outputs[i].Name, d, err)
				}
			}
			steady(t, p, in)
		})
	}
}

// steady holds that a plan leaves nothing to the reference and that its runs leave Go's heap alone.
func steady(t *testing.T, p *Plan, in []*tensor.Tensor) {
	t.Helper()
	for i := range p.Steps {
		if p.Steps[i].Kernel.Name() == "reference" {
			t.Errorf("step %d, %v, runs by the reference", i, p.Steps[i].Node)
		}
	}
	prog, _ := bindTo(t, p)
	x := exec(newPool(t))
	n := testing.AllocsPerRun(3, func() {
		set(prog, in)
		if err := prog.Run(x); err != nil {
			t.Fatal(err)
		}
	})
	if n != 0 {
		t.Errorf("%v allocations an iteration", n)
	}
}

// TestTrainedModels does the same for trained models of other exporters, where the model cache has
// them; only those that the reference evaluates in a moment are compared with it.
func TestTrainedModels(t *testing.T) {
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	for _, m := range []struct {
		name   string
		shapes map[string][]int
		small  bool
	}{
		{"ppocr-det", map[string][]int{"x": {1, 3, 64, 64}}, false},
		{"ppocr-rec", map[string][]int{"x": {1, 3, 48, 64}}, false},
		{"ppocr-cls", map[string][]int{"x": {1, 3, 48, 64}}, true},
		{"silero-vad-v5", map[string][]int{"input": {1, 512}, "state": {2, 1, 128}}, true},
		{"silero-vad-legacy", map[string][]int{"input": {1, 1536}, "h": {2, 1, 64},
			"c": {2, 1, 64}}, true},
		{"ddddocr-common", map[string][]int{"input1": {1, 1, 64, 64}}, false},
		{"ddddocr-det", nil, false},
		{"magika", map[string][]int{"bytes": {1, 2048}}, true},
		{"minilm", map[string][]int{"input_ids": {2, 16}, "attention_mask": {2, 16},
			"token_type_ids": {2, 16}}, true},
	} {
		t.Run(m.name, func(t *testing.T) {
			path := filepath.Join(cache, "weir", "models", m.name+".onnx")
			if _, err := os.Stat(path); err != nil || testing.Short() {
				t.Skip("needs the model cache of internal/conformance/peer")
			}
			src, err := onnx.Open(path, onnx.Options{})
			if err != nil {
				t.Fatal(err)
			}
			defer src.Close()
			p := compileAs(t, src.Graph, Options{Target: host, Shapes: m.shapes, Threads: threads})
			in := like(rand.New(rand.NewPCG(1, 1)), src.Graph, m.shapes)
			if m.small {
				want, err := src.Graph.Eval(context.Background(), in)
				if err != nil {
					t.Fatal(err)
				}
				got := runPlan(t, newPool(t), p, in)
				for i := range want {
					if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > 1e-4 {
						t.Errorf("output %q: relative distance %v, %v", src.Graph.Outputs[i].Name,
							d, err)
					}
				}
			}
			steady(t, p, in)
		})
	}
}
