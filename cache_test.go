package weir_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/weirgpu/weir"
	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/compute"
	"github.com/weirgpu/weir/device/cpu"
	"github.com/weirgpu/weir/device/cpu/kernels"
	"github.com/weirgpu/weir/examples/digits"
	"github.com/weirgpu/weir/plan"
	"github.com/weirgpu/weir/plan/cache"
	"github.com/weirgpu/weir/tensor"
)

// TestCache opens a model three times with a cache, and runs it on the shapes that are kept and on
// others.
func TestCache(t *testing.T) {
	path := filepath.Join("examples", "digits", "digits.onnx")
	if info, err := os.Stat(path); err != nil {
		t.Fatal(err)
	} else if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago, and plans of such are not kept")
	}
	dir := filepath.Join(t.TempDir(), "plans")
	want := runDigits(t, path)
	for i := range 3 {
		if got := runDigits(t, path, weir.WithCache(dir)); !slices.Equal(got, want) {
			t.Errorf("time %d: other bits than without a cache", i+1)
		}
		if files, err := filepath.Glob(filepath.Join(dir, "*.plan")); err != nil ||
			len(files) != 1 {
			t.Errorf("time %d: %d plans in the cache, want that of the first shapes; %v", i+1,
				len(files), err)
		}
	}
	// The first shapes make way for others while their plan is being written.
	crowded := filepath.Join(t.TempDir(), "plans")
	for i := range 2 {
		if got := runDigits(t, path, weir.WithCache(crowded), weir.WithMaxShapes(1)); !slices.Equal(
			got, want) {
			t.Errorf("with room for one set of shapes, time %d: other bits than without a cache",
				i+1)
		}
		if files, err := filepath.Glob(filepath.Join(crowded, "*.plan")); err != nil ||
			len(files) != 1 {
			t.Errorf("with room for one set of shapes, time %d: %d plans in the cache; %v", i+1,
				len(files), err)
		}
	}
	if got := runDigits(t, path, weir.WithCache("/dev/null/x")); !slices.Equal(got, want) {
		t.Error("other bits with a folder that cannot be")
	}
}

// TestNothingIsKeptOfMemory holds that of a model from memory, which may be stored encrypted,
// nothing comes to lie in the folder of plans.
func TestNothingIsKeptOfMemory(t *testing.T) {
	dir := t.TempDir()
	m, err := weir.Load(digits.Model, weir.WithCache(dir))
	if err != nil {
		t.Fatal(err)
	}
	r, err := m.Run(t.Context(), weir.Inputs{"image": tensor.From(make([]float32, 64), 1, 1, 8, 8)})
	if err != nil {
		t.Fatal(err)
	}
	r.Close()
	if err := m.Close(); err != nil { // which waits for plans that are being kept
		t.Fatal(err)
	}
	if files, err := os.ReadDir(dir); err != nil || len(files) > 0 {
		t.Errorf("%v are kept, %v", files, err)
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
		r, err := m.Run(t.Context(), weir.Inputs{in.Name: tensor.From(pixels, batch+1, 1, 8, 8)})
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

// TestMeasuredChoices holds that a model opened with a cache computes in the ways that were
// measured, whatever shapes it runs on, and one without does not.
func TestMeasuredChoices(t *testing.T) {
	path := filepath.Join("examples", "digits", "digits.onnx")
	dir := filepath.Join(t.TempDir(), "plans")
	c, err := cache.Open(cache.Options{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	want := runDigits(t, path)
	choices := compute.Choices{}
	for batch := range 2 {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		o := plan.Options{Target: kernels.Target(device.Info{}),
			Shapes: map[string][]int{m.Graph.Inputs[0].Name: {batch + 1, 1, 8, 8}}}
		compiled, err := m.Compile(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		for i := range compiled.Plan.Steps {
			if k, ok := compiled.Plan.Steps[i].Kernel.(compute.Choosing); ok {
				ways := k.Algorithms()
				choices[k.Problem()] = ways[len(ways)-1]
			}
		}
	}
	if err := c.KeepChoices(kernels.Target(cpu.Discover()), choices); err != nil {
		t.Fatal(err)
	}
	first := runDigits(t, path, weir.WithCache(dir))
	if slices.Equal(first, want) {
		t.Errorf("the bits of the cost model's choices with %v", choices)
	}
	for i, v := range first {
		if d := v - want[i]; d > 1e-3 || d < -1e-3 {
			t.Errorf("output %d is %g, want %g", i, v, want[i])
		}
	}
	if again := runDigits(t, path, weir.WithCache(dir)); !slices.Equal(again, first) {
		t.Error("other bits the second time")
	}
	if got := runDigits(t, path); !slices.Equal(got, want) {
		t.Error("other bits without a cache")
	}
}
