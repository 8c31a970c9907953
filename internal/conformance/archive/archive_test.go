package archive

import (
	"archive/tar"
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ulikunitz/xz"
)

// pack makes a .tar.xz of the given entries.
func pack(t *testing.T, entries ...tar.Header) string {
	t.Helper()
	var b bytes.Buffer
	x, err := xz.NewWriter(&b)
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(x)
	for _, h := range entries {
		h.Mode = 0o644
		body := []byte("content of " + h.Name)
		if h.Typeflag == tar.TypeReg {
			h.Size = int64(len(body))
		}
		err := w.WriteHeader(&h)
		if err == nil && h.Typeflag == tar.TypeReg {
			_, err = w.Write(body)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	path := filepath.Join(t.TempDir(), file)
	if err := errors.Join(w.Close(), x.Close(), os.WriteFile(path, b.Bytes(), 0o644)); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestUnpack(t *testing.T) {
	dir := t.TempDir()
	path := pack(t, tar.Header{Name: "./a/", Typeflag: tar.TypeDir},
		tar.Header{Name: "./a/b.pb", Typeflag: tar.TypeReg},
		tar.Header{Name: "c/d/e", Typeflag: tar.TypeReg})
	if err := Unpack(path, dir); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a/b.pb", "c/d/e"} {
		b, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil || !strings.HasPrefix(string(b), "content of ") {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}

func TestUnpackRefuses(t *testing.T) {
	for _, h := range []tar.Header{
		{Name: "../escape", Typeflag: tar.TypeReg},
		{Name: "/etc/escape", Typeflag: tar.TypeReg},
		{Name: "link", Typeflag: tar.TypeSymlink, Linkname: "/etc/passwd"},
		{Name: "device", Typeflag: tar.TypeChar},
	} {
		if err := Unpack(pack(t, h), t.TempDir()); err == nil {
			t.Errorf("%s was unpacked", h.Name)
		}
	}
	broken := filepath.Join(t.TempDir(), file)
	if err := os.WriteFile(broken, []byte("no archive"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := Unpack(broken, t.TempDir()); err == nil || !strings.Contains(err.Error(), broken) {
		t.Errorf("broken archive: %v", err)
	}
}

func TestBackendTests(t *testing.T) {
	t.Setenv(variable, t.TempDir())
	if _, err := BackendTests(); !errors.Is(err, ErrNoData) {
		t.Errorf("empty folder: %v", err)
	}
	t.Setenv(variable, "off")
	if _, err := BackendTests(); !errors.Is(err, ErrOff) || errors.Is(err, ErrNoData) {
		t.Errorf("switched off: %v", err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv(variable,
		filepath.Dir(pack(t, tar.Header{Name: "node/test_a/model.onnx", Typeflag: tar.TypeReg})))
	first, err := BackendTests()
	if err != nil {
		t.Fatal(err)
	}
	second, err := BackendTests()
	if err != nil || second != first {
		t.Errorf("%s, then %s: %v", first, second, err)
	}
	t.Setenv(variable, first)
	if unpacked, err := BackendTests(); err != nil || unpacked != first {
		t.Errorf("an unpacked folder: %s, %v", unpacked, err)
	}
	leftovers, _ := filepath.Glob(filepath.Join(filepath.Dir(first), "unpacking-*"))
	if len(leftovers) > 0 {
		t.Errorf("left over: %v", leftovers)
	}
}
