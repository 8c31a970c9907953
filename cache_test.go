package weir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir"
)

// TestCache opens a model three times with a cache, and runs it on the shapes that are kept and on others.
func TestCache(t *testing.T) {
	path := filepath.Join("examples", "digits", "digits.onnx")
	if info, err := os.Stat(path); err != nil {
		t.Fatal(err)
	} else if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago, and plans of such are not kept")
	}
	dir := t.TempDir()
	want := runDigits(t, path)
	for i := range 3 {
		if got := runDigits(t, path, weir.WithCache(dir)); !slices.Equal(got, want) {
			t.Errorf("time %d: other bits than without a cache", i+1)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "*.plan")); err != nil || len(files) != 1 {
			t.Errorf("time %d: %d plans in the cache, want that of the first shapes; %v", i+1, len(files), err)
		}
	}
	if got := runDigits(t, path, weir.WithCache("/dev/null/x")); !slices.Equal(got, want) {
		t.Error("other bits with a folder that cannot be")
	}
}

// runDigits runs the classifier on one picture and then on two.
func runDigits(t *testing.T, path string, opts ...weir.Option) []float32 {
	t.Helper()
	m, err := weir.Open(path, opts...)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	var all []float32
	for batch := range 2 {
		in := m.Inputs()[0]
		pixels := make([]float32, (batch+1)*8*8)
		for i := range pixels {
			pixels[i] = float32(i%17) / 17
		}
		r, err := m.Run(t.Context(), weir.Inputs{in.Name: weir.NewTensor(pixels, batch+1, 1, 8, 8)})
		if err != nil {
			t.Fatal(err)
		}
		out, err := weir.Data[float32](r.Output(m.Outputs()[0].Name))
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, out...)
		r.Close()
	}
	return all
}
