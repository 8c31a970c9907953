package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// state is one of two values.
func state(a ...float32) []Value {
	return []Value{{"a", tensor.From(a, len(a))}, {"n", tensor.Scalar(int64(len(a)))}}
}

// written is a file of a state.
func written(t testing.TB, values []Value) (path string, b []byte) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "state"+suffix)
	if err := Write(path, map[string]string{"k": "v"}, values); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return path, b
}

// TestDamaged: of a file that is cut off nothing is taken, and of one with a byte changed anywhere
// nothing but what was written, which a header may say in other words.
func TestDamaged(t *testing.T) {
	path, whole := written(t, state(1, 2, 3))
	into := state(0, 0, 0)
	if meta, err := Read(path, into); err != nil || meta["k"] != "v" ||
		!slices.Equal(tensor.As[float32](into[0].Tensor), []float32{1, 2, 3}) {
		t.Fatalf("%v, %v, %v", meta, into, err)
	}
	for i := range whole {
		refused(t, path, whole[:i])
		b := bytes.Clone(whole)
		b[i] ^= 1
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		got := state(0, 0, 0)
		meta, err := Read(path, got)
		if err == nil && Digest(meta, got) != Digest(map[string]string{"k": "v"}, into) {
			t.Errorf("%q is taken for %v, %v", b, meta, got)
		}
	}
}

func refused(t *testing.T, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	into := state(7, 7, 7)
	if _, err := Read(path, into); !errors.Is(err, ErrCheckpoint) ||
		tensor.As[float32](into[0].Tensor)[0] != 7 {
		t.Errorf("%q: %v, %v", b, into[0], err)
	}
}

// TestOther: files of other values are refused, and headers that lie about where values are.
func TestOther(t *testing.T) {
	path, whole := written(t, state(1, 2, 3))
	for _, into := range [][]Value{state(1, 2), state(1, 2, 3)[:1],
		{{"b", tensor.From([]float32{1, 2, 3}, 3)}, {"n", tensor.Scalar(int64(3))}},
		{{"a", tensor.From([]int32{1, 2, 3}, 3)}, {"n", tensor.Scalar(int64(3))}},
		{{"a", tensor.From([]float32{1, 2, 3}, 3, 1)}, {"n", tensor.Scalar(int64(3))}}} {
		if _, err := Read(path, into); !errors.Is(err, ErrCheckpoint) {
			t.Errorf("taken into %v: %v", into, err)
		}
	}
	for _, at := range []string{"[-8,4]", "[9223372036854775800,-9223372036854775804]", "[8,20]",
		"[0,9223372036854775807]", "null", "[12,24]"} {
		b := []byte(strings.Replace(string(whole), "[0,12]", at, 1))
		b[0] += byte(len(b) - len(whole))
		refused(t, path, b)
	}
}

// FuzzRead: no file makes Read panic, and none but a whole one is taken.
func FuzzRead(f *testing.F) {
	_, whole := written(f, state(1, 2, 3))
	f.Add(whole)
	f.Add([]byte("\x02\x00\x00\x00\x00\x00\x00\x00{}"))
	f.Add([]byte("\xff\xff\xff\xff\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "f")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		into := state(0, 0, 0)
		meta, err := Read(path, into)
		if err == nil && Digest(meta, into) != meta[digestKey] {
			t.Errorf("%q is taken", b)
		}
	})
}
