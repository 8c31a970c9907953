package cache

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/device/far"
	"github.com/weirgpu/weir/engine"
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

// cutShort cuts the files of mappings to a page, as somebody does whom the system lets go on after
// having waited for long, of whom this process was not told.
func cutShort(t *testing.T, name string, ms ...*mapping) {
	t.Helper()
	for _, m := range ms {
		if m.file == nil {
			t.Skip("the file system gives no leases")
		}
		if _, err := unix.FcntlInt(m.file.Fd(), unix.F_SETLEASE, unix.F_UNLCK); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Truncate(name, int64(os.Getpagesize())); err != nil {
		t.Fatal(err)
	}
}

// wantCutShort wants an error that names the entry and says what happened.
func wantCutShort(t *testing.T, what, name string, err error) {
	t.Helper()
	var file *fault.FileError
	if !errors.As(err, &file) || file.Path != name || errors.Is(err, fault.ErrPanic) {
		t.Errorf("%s: error %v, want a fault in %s", what, err, name)
	}
}

// TestEntryCutShort cuts an entry's file short while it is in use, before it is checked, before its
// weights are copied to a device with memory of its own, before the first run, and while weights
// are away. Each is an error of who reads it, and the next start makes the entry anew with one line
// of warning.
func TestEntryCutShort(t *testing.T) {
	path := filepath.Join(t.TempDir(), "model.onnx")
	rowsModel(t, path)
	c := newCache(t)
	want, _ := start(t, c, path, plan.Options{Target: host})
	name := c.only(t, planSuffix)
	o := plan.Options{Target: host, Shapes: map[string][]int{"i": {4}}, Threads: 2}
	away, err := far.Open("far:0", far.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer away.Close()
	for what, use := range map[string]func(*Model, *Compiled) error{
		"checked": func(m *Model, found *Compiled) error {
			file, id, err := c.mapEntry(filepath.Base(name))
			if err != nil {
				return err
			}
			defer file.close()
			cutShort(t, name, append(m.mappings, file)...)
			content, err := m.identity()
			if err != nil {
				return err
			}
			_, err = found.load(t.Context(), filepath.Base(name), file, id, content, o)
			return err
		},
		"copied": func(m *Model, found *Compiled) error {
			cutShort(t, name, m.mappings...)
			s, err := engine.Load(found.Plan,
				engine.Options{Device: away, Weights: found.Weights})
			if err == nil {
				s.Close()
			}
			return err
		},
		"copied again": func(m *Model, found *Compiled) error {
			s, err := engine.Load(found.Plan,
				engine.Options{Device: away, Weights: found.Weights, Discard: found.Discard})
			if err != nil {
				return err
			}
			defer s.Close()
			s.Evict(found.Plan.PackedBytes)
			cutShort(t, name, m.mappings...)
			return s.WithWeights(t.Context(), func([]byte) error { return nil })
		},
		"recalled": func(m *Model, found *Compiled) error {
			s, err := engine.Load(found.Plan, engine.Options{Device: theDevice(),
				Pool: thePools()[o.Threads], Weights: found.Weights, Discard: found.Discard})
			if err != nil {
				return err
			}
			defer s.Close()
			i, err := s.Take()
			if err != nil {
				return err
			}
			defer i.Put()
			s.Evict(found.Plan.PackedBytes)
			cutShort(t, name, m.mappings...)
			return i.Run(t.Context(), device.Open)
		},
		"run": func(m *Model, found *Compiled) error {
			s, err := engine.Load(found.Plan, engine.Options{Device: theDevice(),
				Pool: thePools()[o.Threads], Weights: found.Weights})
			if err != nil {
				return err
			}
			defer s.Close()
			cutShort(t, name, m.mappings...)
			i, err := s.Take()
			if err != nil {
				return err
			}
			defer i.Put()
			return i.Run(t.Context(), device.Open)
		},
	} {
		m, err := c.Model(path)
		if err != nil {
			t.Fatal(err)
		}
		found := m.Find(t.Context(), o)
		if !found.Cached() {
			t.Fatalf("%s: not found", what)
		}
		wantCutShort(t, what, name, use(m, found))
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		log := c.warnings()
		for i := range 2 {
			got, cached := start(t, c, path, plan.Options{Target: host})
			if !bytes.Equal(got, want) || cached != (i > 0) {
				t.Errorf("%s, start %d afterwards: right: %v; from the cache: %v", what, i,
					bytes.Equal(got, want), cached)
			}
		}
		if lines(log) != 1 {
			t.Errorf("%s: want one warning: %s", what, log)
		}
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
	for helpers := range 2 {
		for _, known := range []bool{false, true} {
			if err := e.verify(helpers, known); !errors.Is(err, errDamaged) ||
				!errors.Is(err, fault.ErrPanic) {
				t.Errorf("%d helpers, known: %v: error %v", helpers, known, err)
			}
		}
	}
}
