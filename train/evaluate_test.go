package train_test

import (
	"bytes"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// TestBinaryAccuracy: how many labels the scores name is told of the labels as they are given, over
// which an evaluation may compute. The weight hardly moves, so that the scores are known.
func TestBinaryAccuracy(t *testing.T) {
	dir := t.TempDir()
	g, err := graph.Parse(`graph "sign" {
  opset "" 17
  input %x: float32[n,1]
  const %w: float32[1,1] = {2}
  %y: float32[n,1] = MatMul@13 "product" (%x, %w)
  output %y
}`)
	if err != nil {
		t.Fatal(err)
	}
	if err := onnx.WriteFile(filepath.Join(dir, "sign.onnx"), g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	rng, hits := rand.New(rand.NewPCG(3, 4)), 0
	x, labels := make([]float32, 100), make([]float32, 100)
	for i := range x {
		x[i], labels[i] = float32(rng.NormFloat64()), float32(rng.IntN(2))
		if (x[i] > 0) == (labels[i] == 1) {
			hits++
		}
	}
	for name, v := range map[string][]float32{"x": x, "labels": labels} {
		var b bytes.Buffer
		if err := npy.Write(&b, tensor.From(v, len(v), 1)); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name+".npy"), b.Bytes(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	text := `model: sign.onnx
data:
  inputs: {x: x.npy}
  labels: labels.npy
  batch: 32
  eval: {inputs: {x: x.npy}, labels: labels.npy}
loss: binary-cross-entropy
optimizer: {sgd: {rate: 1e-9}}
epochs: 1
`
	if err := os.WriteFile(filepath.Join(dir, "recipe.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := recipe.Load(filepath.Join(dir, "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	r.Output, r.Checkpoint.To = "", ""
	res, err := open(t, r, 1, train.Options{}).Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if want := float64(hits) / float64(len(x)); res.Metric != want {
		t.Errorf("%s is %v, want %v", res.MetricName, res.Metric, want)
	}
}
