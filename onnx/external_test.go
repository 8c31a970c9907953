package onnx

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/weirgpu/weir/tensor"
)

// external makes an initialiser "w" of two floats in another file.
func external(pairs ...string) part {
	parts := []part{text(8, "w"), number(1, 2), number(2, 1), number(14, 1)}
	for i := 0; i < len(pairs); i += 2 {
		parts = append(parts, sub(13, text(1, pairs[i]), text(2, pairs[i+1])))
	}
	return initializer(parts...)
}

func TestExternalData(t *testing.T) {
	base := t.TempDir()
	dir := filepath.Join(base, "model")
	write := func(path string, b []byte) {
		t.Helper()
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, b, 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	data := tensor.Bytes([]float32{0, 3, 4})
	write(filepath.Join(dir, "w.bin"), data)
	write(filepath.Join(dir, "sub", "w.bin"), data)
	write(filepath.Join(base, "secret"), data)
	links := os.Symlink("../secret", filepath.Join(dir, "link")) == nil
	cases := []struct {
		name string
		part part
		say  string // "" when it must work
	}{
		{"offset", external("location", "w.bin", "offset", "4", "length", "8"), ""},
		{"offset alone", external("location", "w.bin", "offset", "4"), ""},
		{"folder", external("location", "sub/w.bin", "offset", "4"), ""},
		{"unclean path inside", external("location", "sub/../w.bin", "offset", "4"), ""},
		{"missing", external("location", "none.bin"), "none.bin"},
		{"no location", external(), "location"},
		{"short", external("location", "w.bin", "offset", "8"), "12 bytes"},
		{"offset beyond", external("location", "w.bin", "offset", "9223372036854775807"),
			"12 bytes"},
		{"other length", external("location", "w.bin", "length", "12"), "needs 8"},
		{"negative offset", external("location", "w.bin", "offset", "-4"), "not a size"},
		{"above the folder", external("location", "../secret"), "inside"},
		{"absolute", external("location", filepath.Join(base, "secret")), "inside"},
		{"folder itself", external("location", "sub"), "regular"},
		{"link out of the folder", external("location", "link"), "link"},
	}
	for _, c := range cases {
		if c.name == "link out of the folder" && !links {
			continue
		}
		path := filepath.Join(dir, "m.onnx")
		write(path, modelOf(out("w"), c.part))
		m, err := Open(path, Options{})
		checkExternal(t, c.name, c.say, path, m, err)
		const within = "model/m.onnx"
		m, err = OpenFS(os.DirFS(base), within, Options{})
		checkExternal(t, c.name+" of a file system", c.say, within, m, err)
	}
}

// checkExternal looks at a model whose output is its external data, or at an error that says where
// and what.
func checkExternal(t *testing.T, name, say, path string, m *Model, err error) {
	t.Helper()
	if say != "" {
		if !errors.Is(err, ErrExternalData) || !strings.Contains(err.Error(), say) ||
			!strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), `"w"`) {
			t.Errorf("%s: got %v, want %v with %s", name, err, ErrExternalData, say)
		}
		return
	}
	if err != nil {
		t.Errorf("%s: %v", name, err)
		return
	}
	got := tensor.As[float32](m.Graph.Outputs[0].Const())
	if !slices.Equal(got, []float32{3, 4}) {
		t.Errorf("%s: got %v, want [3 4]", name, got)
	}
	if err := errors.Join(m.Unchanged(), m.Close(), m.Close()); err != nil {
		t.Errorf("%s: Close: %v", name, err)
	}
}

// TestOpenFSOddFiles holds that what is no model file is an error as of the system's files.
func TestOpenFSOddFiles(t *testing.T) {
	files := fstest.MapFS{"empty.onnx": {}, "dir/x": {}, "pipe": {Mode: fs.ModeNamedPipe}}
	for name, want := range map[string]error{"none.onnx": fs.ErrNotExist,
		"empty.onnx": ErrFormat} {
		if _, err := OpenFS(files, name, Options{}); !errors.Is(err, want) ||
			!strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v, want %v", name, err, want)
		}
	}
	for _, name := range []string{"dir", "pipe"} {
		if _, err := OpenFS(files, name, Options{}); err == nil ||
			!strings.Contains(err.Error(), "regular") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOpenOddFiles(t *testing.T) {
	dir := t.TempDir()
	if _, err := Open(filepath.Join(dir, "none.onnx"), Options{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("missing file: %v", err)
	}
	empty := filepath.Join(dir, "empty.onnx")
	if err := os.WriteFile(empty, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(empty, Options{}); !errors.Is(err, ErrFormat) ||
		!strings.Contains(err.Error(), empty) {
		t.Errorf("empty file: %v", err)
	}
	if _, err := Open(dir, Options{}); err == nil {
		t.Error("a folder was opened as a model")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	go func() {
		w.Write(modelOf(in("x"), out("x")))
		w.Close()
	}()
	m, err := mapFile(r, false)
	if err != nil || len(m.data) == 0 {
		t.Errorf("pipe: %v", err)
	}
}

// TestEndlessModels holds that of a stream no more is read than a model may have.
func TestEndlessModels(t *testing.T) {
	for _, c := range []struct {
		bytes int
		err   error
	}{{0, nil}, {99, nil}, {100, nil}, {101, ErrFormat}, {1 << 20, ErrFormat}} {
		from := bytes.NewReader(make([]byte, c.bytes))
		data, err := readAtMost(from, 100)
		if !errors.Is(err, c.err) || len(data) != min(c.bytes, 101) ||
			from.Len() != c.bytes-len(data) {
			t.Errorf("%d bytes: read %d, %v", c.bytes, len(data), err)
		}
	}
}
