package checkpoint

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/tensor"
)

// TestKeep: the newest stay, whatever damaged ones of later updates are beside them, and files of
// other programs are nobody's checkpoints.
func TestKeep(t *testing.T) {
	f := Folder{Path: t.TempDir(), Keep: 3}
	state := []Value{{"w", tensor.From([]float32{0}, 1)}}
	write := func(step int64) {
		t.Helper()
		tensor.As[float32](state[0].Tensor)[0] = float32(step)
		if err := f.Write(step, map[string]string{"k": "v"}, state); err != nil {
			t.Fatal(err)
		}
	}
	newest := func(want float32) {
		t.Helper()
		_, _, err := f.Newest(state)
		if got := tensor.As[float32](state[0].Tensor)[0]; err != nil || got != want {
			t.Errorf("the newest is of update %v, want %v: %v", got, want, err)
		}
	}
	other := filepath.Join(f.Path, "step-1000.safetensors")
	if err := os.WriteFile(other, []byte("another program's"), 0o600); err != nil {
		t.Fatal(err)
	}
	half := filepath.Join(f.Path, "."+file(1)+"-123")
	if err := os.WriteFile(half, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for step := range int64(6) {
		write(2 * step)
	}
	if names, err := f.list(); len(names) != 3 || names[0] != file(6) || err != nil {
		t.Errorf("kept %v, %v", names, err)
	}
	if _, err := os.Stat(half); err == nil {
		t.Error("what a killed process has left is still there")
	}
	for _, step := range []int64{8, 10} {
		if err := os.Truncate(filepath.Join(f.Path, file(step)), 100); err != nil {
			t.Fatal(err)
		}
	}
	newest(6)
	f.Keep = 1
	write(7)
	newest(7)
	if names, err := f.list(); len(names) != 1 || err != nil {
		t.Errorf("kept %v, %v", names, err)
	}
	if err := os.Truncate(filepath.Join(f.Path, file(7)), 100); err != nil {
		t.Fatal(err)
	}
	if _, _, err := f.Newest(state); !errors.Is(err, ErrCheckpoint) ||
		!strings.Contains(err.Error(), file(7)) || !strings.Contains(err.Error(), "begin anew") {
		t.Errorf("of one damaged checkpoint: %v", err)
	}
	if err := f.Clear(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(f.Path); len(left) != 1 || err != nil {
		t.Errorf("%v, %v: want the file of another program", left, err)
	}
}
