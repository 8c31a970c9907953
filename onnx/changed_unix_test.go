//go:build unix

package onnx

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/weirgpu/weir/internal/fault"
	"github.com/weirgpu/weir/zoo"
)

// someModel writes a small network, with its weights beside it or within.
func someModel(t *testing.T, external bool) (path string) {
	t.Helper()
	g, err := zoo.New("mobilenetv2", zoo.Options{Layers: 1, Width: 0.25, Resolution: 32,
		Classes: 10})
	if err != nil {
		t.Fatal(err)
	}
	path = filepath.Join(t.TempDir(), "model.onnx")
	var o WriteOptions
	if external {
		o.MaxInline = 1
	}
	if err := WriteFile(path, g, o); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestUnchanged writes the files of open models in place, and replaces them.
func TestUnchanged(t *testing.T) {
	inPlace := func(t *testing.T, path string) {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		later := time.Now().Add(time.Minute)
		if err := errors.Join(os.WriteFile(path, b, 0o600),
			os.Chtimes(path, later, later)); err != nil {
			t.Fatal(err)
		}
	}
	for what, c := range map[string]struct {
		suffix  string
		change  func(t *testing.T, path string)
		changed bool
	}{
		"nothing":           {"", func(*testing.T, string) {}, false},
		"written in place":  {"", inPlace, true},
		"its data in place": {".data", inPlace, true},
		"removed":           {"", func(t *testing.T, path string) { os.Remove(path) }, false},
		"replaced": {"", func(t *testing.T, path string) {
			if err := os.Rename(someModel(t, false), path); err != nil {
				t.Fatal(err)
			}
		}, false},
		"its data cut short": {".data", func(t *testing.T, path string) {
			if err := os.Truncate(path, 100); err != nil {
				t.Fatal(err)
			}
		}, true},
	} {
		path := someModel(t, true)
		m, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		c.change(t, path+c.suffix)
		err = m.Unchanged()
		if errors.Is(err, ErrChanged) != c.changed ||
			c.changed && !strings.Contains(err.Error(), path+c.suffix) {
			t.Errorf("%s: error %v", what, err)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestDescriptorsAreClosed holds that a model that is closed has no file open.
func TestDescriptorsAreClosed(t *testing.T) {
	m, err := Open(someModel(t, true), Options{})
	if err != nil {
		t.Fatal(err)
	}
	maps := append([]*mapping{m.file}, m.files.maps...)
	for i, f := range maps {
		if _, err := unix.FcntlInt(uintptr(f.file), unix.F_GETFD, 0); f.unmap != nil && err != nil {
			t.Errorf("file %d: %v", i, err)
		}
	}
	if err := m.Close(); err != nil {
		t.Error(err)
	}
	for i, f := range maps {
		if _, err := stampOf(f.file); f.file > 0 && !errors.Is(err, unix.EBADF) {
			t.Errorf("file %d of %d: %v", i, len(maps), err)
		}
	}
}

// TestCopiedModel cuts the files of a model that was read in place of mapped.
func TestCopiedModel(t *testing.T) {
	for _, external := range []bool{false, true} {
		path := someModel(t, external)
		mapped, err := Open(path, Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer mapped.Close()
		copied, err := Open(path, Options{Copy: true})
		if err != nil {
			t.Fatal(err)
		}
		defer copied.Close()
		consts, want := copied.Graph.Constants(), mapped.Graph.Constants()
		for i, v := range consts {
			if copied.Maps(v.Const()) || !mapped.Maps(want[i].Const()) && v.Const().Size() > 64 {
				t.Errorf("external: %v: %q is mapped, or was not", external, v.Name)
			}
			if !bytes.Equal(v.Const().Data, want[i].Const().Data) {
				t.Errorf("external: %v: %q has other bytes", external, v.Name)
			}
		}
		files, err := filepath.Glob(path + "*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if err := os.Truncate(f, 0); err != nil {
				t.Fatal(err)
			}
		}
		if err := copied.Unchanged(); err != nil {
			t.Error(err)
		}
		for _, v := range consts {
			_ = bytes.Clone(v.Const().Data) // which would end the test, were it mapped
		}
		if err := mapped.Unchanged(); !errors.Is(err, ErrChanged) {
			t.Errorf("mapped: %v", err)
		}
	}
}

// TestShrunkWhileRead parses a mapped file that has been cut short meanwhile.
func TestShrunkWhileRead(t *testing.T) {
	path := someModel(t, false)
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	file, err := mapFile(f, false)
	if err != nil {
		t.Fatal(err)
	}
	defer file.close()
	if file.unmap == nil {
		t.Skip("files are not mapped here")
	}
	if err := os.Truncate(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(file.data, "", Options{}); !errors.Is(err, fault.ErrFile) ||
		!strings.Contains(err.Error(), path) {
		t.Errorf("error %v", err)
	}
}
