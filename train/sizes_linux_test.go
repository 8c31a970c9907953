package train_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/op"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/tensor"
	"github.com/weirgpu/weir/tensor/npy"
	"github.com/weirgpu/weir/train"
	"github.com/weirgpu/weir/train/recipe"
)

// openTexts is the folder of texts with the model as one that leaves open how long a text is.
func openTexts(t *testing.T) (dir string) {
	t.Helper()
	dir = texts(t)
	m, err := onnx.Open(filepath.Join(dir, "texts.onnx"), onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	g := m.Graph.Clone()
	for _, v := range g.Inputs {
		v.Type.Shape[1] = op.Sym("length")
	}
	err = onnx.WriteFile(filepath.Join(dir, "open.onnx"), g, onnx.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOpenSizes: a model that leaves sizes open trains to the bits of one that has them, by the
// sizes that a recipe says, or those that files of numbers have, and is written with them open.
func TestOpenSizes(t *testing.T) {
	dir := openTexts(t)
	load := func(change ...string) *recipe.Recipe {
		path := filepath.Join(dir, "recipe.yaml")
		put(t, path, []byte(strings.NewReplacer(change...).Replace(ofTexts)))
		r, err := recipe.Load(path)
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	first := open(t, load(), 1, train.Options{})
	for _, name := range []string{"ids", "mask"} {
		rows := make([]int, 8)
		var all []byte
		for i := range 8 {
			for k := range rows {
				rows[k] = 8*i + k
			}
			all = append(all, first.Filled(name, rows, -1)...)
		}
		v := &tensor.Tensor{DType: tensor.Int64, Shape: []int{64, 6}, Data: all}
		if name == "mask" {
			v.DType = tensor.Float32
		}
		var b bytes.Buffer
		if err := npy.Write(&b, v); err != nil {
			t.Fatal(err)
		}
		put(t, filepath.Join(dir, name+".npy"), b.Bytes())
	}
	want, err := first.Train(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	const source = "{ids: {text: all.tsv, column: 2, vocabulary: vocab.txt, mask: mask}}"
	for what, r := range map[string]*recipe.Recipe{
		"said":      load("texts.onnx", "open.onnx", "batch: 8", "batch: 8\n  sizes: {length: 6}"),
		"of a file": load("texts.onnx", "open.onnx", source, "{ids: ids.npy, mask: mask.npy}"),
	} {
		run := open(t, r, 2, train.Options{})
		got, err := run.Train(t.Context())
		if err != nil || got.Loss != want.Loss || got.EvalLoss != want.EvalLoss {
			t.Errorf("sizes %s: losses %v and %v, want %v and %v: %v", what, got.Loss, got.EvalLoss,
				want.Loss, want.EvalLoss, err)
		}
		path := filepath.Join(dir, "trained.onnx")
		if err := run.Write(path); err != nil {
			t.Fatal(err)
		}
		m, err := onnx.Open(path, onnx.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if is := m.Graph.Inputs[0].Type.String(); is != "int64[n,length]" {
			t.Errorf("sizes %s: the trained model takes %s", what, is)
		}
		m.Close()
	}
	if err := os.Remove(filepath.Join(dir, "mask.npy")); err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]*recipe.Recipe{
		"say it by sizes: {length: N}": load("texts.onnx", "open.onnx"),
		"has more elements than an address space": load("texts.onnx", "open.onnx", "batch: 8",
			"batch: 8\n  sizes: {length: 4611686018427387904}"),
		`that is named "size"`: load("texts.onnx", "open.onnx", "batch: 8",
			"batch: 8\n  sizes: {length: 6, size: 3}"),
		`that is named "length"`: load("batch: 8", "batch: 8\n  sizes: {length: 6}"),
		"mask.npy: no such file": load("texts.onnx", "open.onnx", source,
			"{ids: ids.npy, mask: mask.npy}"),
	} {
		if err := refused(t, r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
