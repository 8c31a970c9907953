package cache

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/onnx"
	"github.com/weirgpu/weir/plan"

	"golang.org/x/sys/unix"
)

// TestShrunkWhileSaved cuts a model short before its plan, some constants of which are read in
// place, is written.
func TestShrunkWhileSaved(t *testing.T) {
	g := parseWithWeights(t, `graph "rows" {
  opset "" 17
  input %i: int64[4]
  const %table: float32[64,64] = at 0
  %x: float32[4,64] = Gather@13 "rows" (%table, %i) {axis=0}
  output %x
}
`)
	path := filepath.Join(t.TempDir(), "model.onnx")
	writeModel(t, path, g, onnx.WriteOptions{})
	c := newCache(t)
	m, err := c.Model(path)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	compiled, err := m.Compile(t.Context(), plan.Options{Target: host, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, 100); err != nil {
		t.Fatal(err)
	}
	err = compiled.Save([]byte{})
	if !errors.Is(err, fault.ErrFile) || !strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
	if n := len(c.files(t, "")); n != 0 {
		t.Errorf("%d files are left", n)
	}
}

// TestUnreadableEntry verifies an entry of which a page cannot be read.
func TestUnreadableEntry(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	smallModel(t, path, 1)
	c := newCache(t)
	start(t, c, path, plan.Options{Target: host})
	f, err := os.Open(c.only(t, planSuffix))
	if err != nil {
		t.Fatal(err)
	}
	file, _, err := c.mapFile(f)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := file.close(); err != nil {
			t.Error(err)
		}
	}()
	e, err := parse(file.data)
	if err != nil {
		t.Fatal(err)
	}
	if e.weights, err = unix.Mmap(-1, 0, len(e.weights), unix.PROT_NONE,
		unix.MAP_PRIVATE|unix.MAP_ANON); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = unix.Munmap(e.weights) }()
	for _, known := range []bool{false, true} {
		if err := e.verify(2, known, nil); !errors.Is(err, errDamaged) ||
			!errors.Is(err, fault.ErrPanic) {
			t.Errorf("error %v", err)
		}
	}
}
