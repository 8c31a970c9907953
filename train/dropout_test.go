package train_test

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
	"github.com/weirgpu/weir/train/step"
)

// dropped is the recipe of [epochs] that drops after each Relu.
func dropped(t *testing.T) *recipe.Recipe {
	t.Helper()
	r := epochs(t)
	m, err := onnx.Open(r.Model, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r.Dropout = step.Dropout{Given: true, Rate: 0.2}
	for _, n := range m.Graph.Nodes {
		if n.Type == "Relu" {
			r.Dropout.After = append(r.Dropout.After, n.Out[0].Name)
		}
	}
	return r
}

// TestDropoutBits: what is dropped is the same on any number of threads and after an interruption,
// and something is dropped.
func TestDropoutBits(t *testing.T) {
	digest := func(r *recipe.Recipe, threads int, until int64, goOn bool) string {
		t.Helper()
		run := open(t, r, threads, train.Options{Steps: until})
		if goOn {
			if err := run.Resume(); err != nil {
				t.Fatal(err)
			}
		}
		res, err := run.Train(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return res.Digest
	}
	want := digest(dropped(t), 1, 0, false)
	if got := digest(dropped(t), 2, 0, false); got != want {
		t.Errorf("on 2 threads the digest is %s, on one %s", got, want)
	}
	r := dropped(t)
	r.Checkpoint.To = t.TempDir()
	digest(r, 2, 5, true)
	if got := digest(r, 1, 0, true); got != want {
		t.Errorf("after an interruption the digest is %s, without %s", got, want)
	}
	r = dropped(t)
	r.Dropout.Rate = 0
	if digest(r, 2, 0, false) == want {
		t.Error("nothing is dropped")
	}
}

// TestDraws: each batch of each update draws by a number of its own.
func TestDraws(t *testing.T) {
	r := dropped(t)
	r.Steps, r.Seed = 3, 9
	var run *train.Run
	run = open(t, r, 1, train.Options{Progress: func(e train.Event) {
		want := []int64{9, 2*e.Update - 1} // the last of the two batches of each update
		if at := run.Drawn(); e.Eval == nil && !slices.Equal(at, want) {
			t.Errorf("update %d draws by %v, want %v", e.Update, at, want)
		}
	}})
	if _, err := run.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestDropoutWritten: a model that was exported in training mode drops while it is trained, and is
// written to run.
func TestDropoutWritten(t *testing.T) {
	r := short(t)
	m, err := onnx.Open(r.Model, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := m.Graph.Clone()
	i := slices.IndexFunc(g.Nodes, func(n *graph.Node) bool { return n.Type == "Relu" })
	relu := g.Nodes[i].Out[0]
	d := graph.NewNode("drop", "Dropout", 13, nil, []*graph.Value{relu,
		graph.NewConst("ratio", tensor.Scalar(float32(0.5))),
		graph.NewConst("training", tensor.Scalar(true))}, "dropped")
	for _, n := range g.Nodes {
		for k, v := range n.In {
			if v == relu {
				n.In[k] = d.Out[0]
			}
		}
	}
	g.Nodes = slices.Insert(g.Nodes, i+1, d)
	r.Model, r.Steps = filepath.Join(t.TempDir(), "dropping.onnx"), 2
	if err := d.InferTypes(); err != nil {
		t.Fatal(err)
	}
	if err := onnx.WriteFile(r.Model, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	run := open(t, r, 1, train.Options{})
	if _, err := run.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	if at := run.Drawn(); at[1] != 1 {
		t.Errorf("drawn by %v, want batch 1", at)
	}
	out, err := onnx.Open(r.Output, onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	for _, n := range out.Graph.Nodes {
		if n.Type == "Dropout" && len(n.In) > 1 {
			t.Errorf("written in training mode: %d operands", len(n.In))
		}
	}
}
