package repo

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// TestScan: the newest version of each model is found, and the rest is passed over with a reason.
func TestScan(t *testing.T) {
	folder := t.TempDir()
	for _, f := range []string{"a/1/model.onnx", "a/10/model.onnx", "a/9/model.onnx",
		"a/011/model.onnx",
		"b/1/other.onnx", "c/none/model.onnx", ".git/1/model.onnx", "file", "d/3/model.onnx",
		"d/config.pbtxt", "e/-1/model.onnx", "s/1/model.onnx.age", "t/1/model.onnx.age",
		"t/1/model.onnx"} {
		path := filepath.Join(folder, f)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	found, skipped, err := Scan(folder)
	if err != nil {
		t.Fatal(err)
	}
	want := []Version{{"a", 10, filepath.Join(folder, "a", "10", File), false},
		{"d", 3, filepath.Join(folder, "d", "3", File), false},
		{"s", 1, filepath.Join(folder, "s", "1", File+".age"), true}}
	if !slices.Equal(found, want) {
		t.Errorf("found %v, want %v", found, want)
	}
	var names []string
	for _, s := range skipped {
		if s.Why == "" {
			t.Errorf("%s is passed over without a reason", s.Path)
		}
		names = append(names, filepath.Base(s.Path))
	}
	if want := []string{"b", "c", "e", "file", "t"}; !slices.Equal(names, want) {
		t.Errorf("passed over %v, want %v", names, want)
	}
	if _, _, err := Scan(filepath.Join(folder, "absent")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an absent folder: %v", err)
	}
}
