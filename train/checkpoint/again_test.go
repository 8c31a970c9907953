package checkpoint

import (
	"bytes"
	"errors"
	"os"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestAgain: metadata that a file gave may be written with other values.
func TestAgain(t *testing.T) {
	path, _ := written(t, state(1, 2))
	meta, err := Read(path, state(0, 0))
	if err != nil {
		t.Fatal(err)
	}
	if err := Write(path, meta, state(3, 4)); err != nil {
		t.Fatal(err)
	}
	if got, err := Read(path, state(0, 0)); err != nil || got["k"] != "v" {
		t.Errorf("%v, %v", got, err)
	}
}

// TestOverlap: two values that lie on each other are not what was written.
func TestOverlap(t *testing.T) {
	both := func() []Value {
		return []Value{{"a", tensor.From([]float32{1}, 1)}, {"b", tensor.From([]float32{2}, 1)}}
	}
	path, b := written(t, both())
	lies := bytes.Replace(b, []byte("[4,8]"), []byte("[0,4]"), 1)
	if bytes.Equal(lies, b) {
		t.Fatalf("no second value in %s", b)
	}
	refused := os.WriteFile(path, lies, 0o600)
	if _, err := Read(path, both()); refused != nil || !errors.Is(err, ErrCheckpoint) {
		t.Errorf("%v, %v", refused, err)
	}
}

// TestNotWritten: what a file cannot hold is refused, and no file is made.
func TestNotWritten(t *testing.T) {
	one := tensor.From([]float32{1}, 1)
	for _, v := range [][]Value{{{"a", one}, {"a", one}}, {{metadata, one}},
		{{"a", tensor.From([]int8{1}, 1)}}} {
		path := t.TempDir() + "/file"
		err := Write(path, nil, v)
		if _, none := os.Stat(path); !errors.Is(err, ErrCheckpoint) || none == nil {
			t.Errorf("%v: %v, file: %v", v, err, none)
		}
	}
}
