package weir_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"testing/fstest"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/graph"
	"github.com/weirgpu/weir/onnx"
)

// TestOpenFS opens a model with external data from a file system in memory, and holds that without
// its data, or with that behind a link, it does not open.
func TestOpenFS(t *testing.T) {
	src, err := onnx.Decode(digits.Model, "", onnx.Options{})
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := onnx.WriteFile(filepath.Join(dir, "m.onnx"), src.Graph,
		onnx.WriteOptions{MaxInline: 1}); err != nil {
		t.Fatal(err)
	}
	files := fstest.MapFS{}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) != 2 {
		t.Fatalf("%d files, want a model and its data; %v", len(list), err)
	}
	data := ""
	for _, f := range list {
		b, err := os.ReadFile(filepath.Join(dir, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if files["models/"+f.Name()] = (&fstest.MapFile{Data: b}); f.Name() != "m.onnx" {
			data = "models/" + f.Name()
		}
	}
	m, err := weir.OpenFS(files, "models/m.onnx")
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	images, labels, _ := digitsData(t)
	if got := classify(t, m, images[0]); got != int(labels[0]) {
		t.Errorf("image 0 is a %d, classified as %d", labels[0], got)
	}
	files["secret"] = files[data]
	for _, f := range []*fstest.MapFile{nil, {Mode: fs.ModeSymlink, Data: []byte("../secret")}} {
		if delete(files, data); f != nil {
			files[data] = f
		}
		if m, err := weir.OpenFS(files, "models/m.onnx"); !errors.Is(err, weir.ErrModel) {
			t.Errorf("with %v for its data: %v, %v", f, m, err)
		}
	}
	if _, err := weir.OpenFS(files, "m.onnx"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	if _, err := weir.OpenFS(files, "m.onnx", weir.WithCopy()); !errors.Is(err, weir.ErrOption) {
		t.Errorf("WithCopy of what is in memory: %v", err)
	}
}

// TestMetadata holds that what a model says of itself can be read.
func TestMetadata(t *testing.T) {
	g, err := graph.Parse(scaled)
	if err != nil {
		t.Fatal(err)
	}
	g.Meta = map[string]string{"labels": "a b", "onnx.doc_string": "what it is",
		"onnx.model_version": "7"}
	path := filepath.Join(t.TempDir(), "m.onnx")
	if err := onnx.WriteFile(path, g, onnx.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	m, err := weir.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	got := m.Metadata()
	if got.Graph != "scaled" || got.Doc != "what it is" || got.Version != 7 ||
		got.Opsets[""] != 17 || got.IRVersion < 3 ||
		!reflect.DeepEqual(got.Properties, map[string]string{"labels": "a b"}) {
		t.Errorf("got %+v", got)
	}
	clear(got.Properties)
	if m.Metadata().Properties["labels"] != "a b" {
		t.Error("the caller's map is the model's")
	}
}
