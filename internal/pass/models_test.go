package pass_test

import (
	"context"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/pass"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// model opens a model of the user's cache, and skips the test when it is not there. Its inputs take
// the given shapes.
func model(t testing.TB, path string, shapes map[string][]int) *graph.Graph {
	t.Helper()
	dir, err := os.UserCacheDir()
	if err != nil {
		t.Skip(err)
	}
	file := filepath.Join(dir, "weir", path)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("%s is not in the cache; internal/conformance/peer/fetch.py fetches trained models",
			path)
	}
	m, err := onnx.Open(file, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	g, err := m.Graph.Specialize(shapes)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestTrainedModels compares the results of trained models before and after all passes, by the
// reference evaluation.
func TestTrainedModels(t *testing.T) {
	tests := []struct {
		name   string
		shapes map[string][]int
		rate   int64 // input sr of the voice detectors
	}{
		{"magika", map[string][]int{"bytes": {1, 2048}}, 0},
		{"silero-vad-v5", map[string][]int{"input": {1, 512}, "state": {2, 1, 128}}, 16000},
		{"silero-vad-v5", map[string][]int{"input": {1, 256}, "state": {2, 1, 128}}, 8000},
		{"silero-vad-legacy", map[string][]int{"input": {1, 1536}, "h": {2, 1, 64},
			"c": {2, 1, 64}}, 16000},
		{"ppocr-cls", map[string][]int{"x": {1, 3, 48, 192}}, 0},
		{"ppocr-det", map[string][]int{"x": {1, 3, 64, 64}}, 0},
		{"ppocr-rec", map[string][]int{"x": {1, 3, 48, 64}}, 0},
		{"ddddocr-common", map[string][]int{"input1": {1, 1, 64, 64}}, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := model(t, "models/"+tt.name+".onnx", tt.shapes)
			before := g.Clone()
			optimise(t, g, pass.Options{})
			in := trained(t, g, tt.rate)
			got, want := eval(t, g, in), eval(t, before, in)
			for i := range want {
				if d, err := tensor.RelL2(got[i], want[i]); err != nil || d > 2e-4 {
					t.Errorf("output %q: %v, relative distance %v", g.Outputs[i].Name, err, d)
				}
			}
			if r := optimise(t, g, pass.Options{}); r.Changes() > 0 {
				t.Errorf("a second run found more: %v", r)
			}
		})
	}
}

func trained(t *testing.T, g *graph.Graph, rate int64) []*tensor.Tensor {
	rng := rand.New(rand.NewPCG(1, 2))
	var in []*tensor.Tensor
	for _, v := range g.Inputs {
		shape, ok := v.Type.Ints()
		if !ok {
			t.Fatalf("input %q is %v", v.Name, v.Type)
		}
		switch {
		case v.Name == "sr":
			in = append(in, tensor.Scalar(rate))
		case v.Type.DType == tensor.Int32:
			x, err := tensor.New(tensor.Int32, shape...)
			if err != nil {
				t.Fatal(err)
			}
			for i := range tensor.As[int32](x) {
				tensor.As[int32](x)[i] = rng.Int32N(257)
			}
			in = append(in, x)
		default:
			in = append(in, fill(t, rng, v.Type.DType, shape))
		}
	}
	return in
}

// TestExportedArchitectures counts what is left of the standard architectures as torch and
// ultralytics export them.
func TestExportedArchitectures(t *testing.T) {
	ids := map[string][]int{"input_ids": {2, 16}, "attention_mask": {2, 16},
		"token_type_ids": {2, 16}}
	image := map[string][]int{"input": {1, 3, 224, 224}}
	tests := []struct {
		name   string
		shapes map[string][]int
		want   map[string]int
	}{
		{"resnet50", image, map[string]int{"weir:Conv": 52, "Conv": 1, "Gemm": 1,
			"BatchNormalization": 0, "Add": 0, "Relu": 0}},
		{"mobilenetv2", image, map[string]int{"weir:Conv": 48, "Conv": 4, "Clip": 0, "Add": 0}},
		{"yolov8n", map[string][]int{"images": {1, 3, 640, 640}},
			map[string]int{"weir:Conv": 57, "Conv": 7, "Sigmoid": 1, "Shape": 0}},
		{"bert-base", ids, map[string]int{"LayerNormalization": 25, "weir:MatMul": 72, "MatMul": 0,
			"weir:Attention": 12, "Transpose": 0, "Erf": 0, "Shape": 0, "Gather": 3}},
		{"minilm-l6", ids, map[string]int{"LayerNormalization": 13, "weir:MatMul": 36, "MatMul": 0,
			"weir:Attention": 6, "Softmax": 0}},
		{"gpt2", map[string][]int{"input_ids": {2, 16}, "attention_mask": {2, 16}},
			map[string]int{"LayerNormalization": 25, "weir:Gemm": 12, "weir:Attention": 12,
				"Where": 0, "Shape": 0,
				"Slice": 0, "Pow": 0}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := model(t, "zooref/"+tt.name+".onnx", tt.shapes)
			optimise(t, g, pass.Options{})
			got := types(g)
			for typ, n := range tt.want {
				if got[typ] != n {
					t.Errorf("%d %s are left, want %d; all: %v", got[typ], typ, n, got)
				}
			}
		})
	}
}

func BenchmarkBERT(b *testing.B) {
	g := model(b, "zooref/bert-base.onnx",
		map[string][]int{"input_ids": {1, 128}, "attention_mask": {1, 128},
			"token_type_ids": {1, 128}})
	for b.Loop() {
		if _, err := pass.Run(context.Background(), g.Clone(), pass.Options{}); err != nil {
			b.Fatal(err)
		}
	}
}
