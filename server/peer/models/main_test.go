package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/weirgpu/weir"
)

// TestModels: every model that is written can be read, and lies beside a configuration.
func TestModels(t *testing.T) {
	folder := t.TempDir()
	if err := run([]string{folder}); err != nil {
		t.Fatal(err)
	}
	all, err := os.ReadDir(folder)
	if err != nil || len(all) < 10 {
		t.Fatalf("%d models: %v", len(all), err)
	}
	for _, e := range all {
		if e.Name() == "simple_ensemble" {
			continue // its models are among the others
		}
		m, err := weir.Open(filepath.Join(folder, e.Name(), "1", "model.onnx"))
		if err != nil {
			t.Errorf("%s: %v", e.Name(), err)
			continue
		}
		if len(m.Inputs()) == 0 || m.Close() != nil {
			t.Errorf("%s: no inputs", e.Name())
		}
		if _, err := os.Stat(filepath.Join(folder, e.Name(), "config.pbtxt")); err != nil {
			t.Error(err)
		}
	}
	if err := run(nil); err == nil {
		t.Error("no folder is no error")
	}
}
