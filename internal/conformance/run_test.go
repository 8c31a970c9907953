package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
)

// absModel writes y = Abs(x) for two floats and returns the file.
func absModel(t *testing.T, path string) {
	t.Helper()
	x := &graph.Value{Name: "x", Type: op.Concrete(tensor.Float32, 2)}
	n := graph.NewNode("abs", "Abs", 13, nil, []*graph.Value{x}, "y")
	g := &graph.Graph{
		Name:    "abs",
		Inputs:  []*graph.Value{x},
		Nodes:   []*graph.Node{n},
		Outputs: n.Out,
		Opsets:  map[string]int{"": 13},
	}
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
		onnx.WriteFile(path, g, onnx.WriteOptions{})); err != nil {
		t.Fatal(err)
	}
}

func tensorFile(t *testing.T, path string, v *tensor.Tensor) {
	t.Helper()
	b, err := onnx.EncodeTensor("", v)
	if err == nil {
		err = errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, b, 0o644))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// folder makes one case of the Abs model with an expected output.
func folder(t *testing.T, dir string, want *tensor.Tensor) {
	t.Helper()
	absModel(t, filepath.Join(dir, "model.onnx"))
	tensorFile(t, filepath.Join(dir, "test_data_set_0", "input_0.pb"),
		tensor.From([]float32{-1000, 2}, 2))
	tensorFile(t, filepath.Join(dir, "test_data_set_0", "output_0.pb"), want)
}

func TestRunStatuses(t *testing.T) {
	right := tensor.From([]float32{1000, 2}, 2)
	fail := func(err error) Runner {
		return func(context.Context, *onnx.Model, []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return nil, err
		}
	}
	give := func(out ...*tensor.Tensor) Runner {
		return func(context.Context, *onnx.Model, []*tensor.Tensor) ([]*tensor.Tensor, error) {
			return out, nil
		}
	}
	cases := []struct {
		name string
		run  Runner
		want Status
		say  string
	}{
		{"reference", Reference, Passed, ""},
		{"within tolerance", give(tensor.From([]float32{1000.9, 2}, 2)), Passed, ""},
		{"beyond tolerance", give(tensor.From([]float32{1001.1, 2}, 2)), Failed, "output 0 (y)"},
		{"other shape", give(tensor.From([]float32{1000, 2}, 1, 2)), Failed, "[1 2]"},
		{"other type", give(tensor.From([]float64{1000, 2}, 2)), Failed, "float64"},
		{
			"broken tensor",
			give(&tensor.Tensor{DType: tensor.Float32, Shape: []int{2}}),
			Failed,
			"needs 8 bytes",
		},
		{"no tensor", give(nil), Failed, "not computed"},
		{"too many outputs", give(right, right), Failed, "1 outputs are expected"},
		{
			"unsupported",
			fail(fmt.Errorf("no kernel: %w", op.ErrUnsupported)),
			Unsupported,
			"no kernel",
		},
		{"error", fail(errors.New("disk on fire")), Failed, "disk on fire"},
		{
			"panic",
			func(context.Context, *onnx.Model, []*tensor.Tensor) ([]*tensor.Tensor, error) {
				panic("out of cheese")
			},
			Failed,
			"cheese",
		},
	}
	dir := t.TempDir()
	folder(t, dir, right)
	found, err := Find(dir)
	if err != nil || len(found) != 1 || found[0].Name != filepath.Base(dir) {
		t.Fatalf("Find: %v, %v", found, err)
	}
	for _, c := range cases {
		got := Run(t.Context(), found[0], c.run)
		if got.Operator != "Abs" || got.Set != filepath.Base(filepath.Dir(dir)) {
			t.Errorf("%s: of set %q and operator %q", c.name, got.Set, got.Operator)
		}
		if got.Status != c.want || !strings.Contains(got.Detail, c.say) ||
			(got.Detail == "") != (c.want == Passed) {
			t.Errorf("%s: %+v, want %s saying %q", c.name, got, c.want, c.say)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := Run(ctx, found[0], Reference); got.Status != Failed {
		t.Errorf("after cancellation: %+v", got)
	}
}

func TestFind(t *testing.T) {
	root := t.TempDir()
	right := tensor.From([]float32{1000, 2}, 2)
	folder(t, filepath.Join(root, "node", "test_b"), right)
	folder(t, filepath.Join(root, "node", "test_a"), right)
	folder(t, filepath.Join(root, "node", "test_[x]"), right)
	loose := filepath.Join(root, "node", "test_loose")
	folder(t, loose, tensor.From([]float32{999, 2}, 2))
	if err := os.WriteFile(filepath.Join(loose, "data.json"), []byte(`{"rtol": 0.01}`), 0o644); err != nil {
		t.Fatal(err)
	}
	absModel(t, filepath.Join(root, "light", "light_densenet121.onnx"))
	tensorFile(t, filepath.Join(root, "light", "light_densenet121_output_0.pb"),
		tensor.From([]float32{0, 0.5}, 2))
	absModel(t, filepath.Join(root, "node", "no_data", "model.onnx"))
	cases, err := Find(root)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, c := range cases {
		names = append(names, c.Name)
	}
	want := []string{
		"light/light_densenet121",
		"node/test_[x]",
		"node/test_a",
		"node/test_b",
		"node/test_loose",
	}
	if !slices.Equal(names, want) {
		t.Fatalf("cases %v, want %v", names, want)
	}
	if cases[0].RTol != 2e-3 || cases[4].RTol != 0.01 || cases[1].RTol != DefaultRTol ||
		cases[4].ATol != DefaultATol {
		t.Errorf("tolerances %v %v %v", cases[0].RTol, cases[4].RTol, cases[1].RTol)
	}
	r := RunAll(t.Context(), cases, Reference, 3)
	if !r.OK() || r.Passed != 5 {
		t.Errorf("report %+v", r)
	}
	b, err := json.Marshal(r)
	if err != nil ||
		!strings.HasPrefix(string(b),
			`{"passed":5,"failed":0,"unsupported":0,"cases":[{"name":"light/light_densenet121","status":"passed","detail":"","set":"light","operator":"Abs"}`) ||
		!strings.HasSuffix(
			string(b),
			`"sets":{"light":{"passed":1,"failed":0,"unsupported":0},"node":{"passed":4,"failed":0,"unsupported":0}},`+
				`"operators":{"Abs":{"passed":5,"failed":0,"unsupported":0}}}`,
		) {
		t.Errorf("%s, %v", b, err)
	}
}

func TestFindRefuses(t *testing.T) {
	if _, err := Find(t.TempDir()); !errors.Is(err, ErrNoCases) {
		t.Errorf("empty folder: %v", err)
	}
	if _, err := Find(filepath.Join(t.TempDir(), "none")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing folder: %v", err)
	}
	gap := t.TempDir()
	folder(t, gap, tensor.From([]float32{1, 2}, 2))
	tensorFile(t, filepath.Join(gap, "test_data_set_0", "input_2.pb"), tensor.Scalar(float32(1)))
	if _, err := Find(gap); err == nil || !strings.Contains(err.Error(), "input_1.pb") {
		t.Errorf("gap in the inputs: %v", err)
	}
	extra := t.TempDir()
	folder(t, extra, tensor.From([]float32{1000, 2}, 2))
	tensorFile(t, filepath.Join(extra, "test_data_set_0", "input_1.pb"), tensor.Scalar(float32(1)))
	cases, err := Find(extra)
	if err != nil {
		t.Fatal(err)
	}
	if got := Run(t.Context(), cases[0], Reference); got.Status != Failed ||
		!strings.Contains(got.Detail, "takes 1") {
		t.Errorf("surplus input: %+v", got)
	}
}
