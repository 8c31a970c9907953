package checkpoint

import (
	"errors"
	"os"
	"slices"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/internal/fulldisk"
	"github.com/weirgpu/weir/tensor"
)

// TestFull: a checkpoint for which there is no room leaves those before it, and nothing else.
func TestFull(t *testing.T) {
	if fulldisk.Elsewhere(t) {
		return
	}
	f := Folder{t.TempDir(), 1}
	if err := f.Write(1, nil, state(1, 2)); err != nil {
		t.Fatal(err)
	}
	big := []Value{{"w", tensor.From(make([]float32, 1<<19), 1<<19)}}
	room := fulldisk.Full(t, 1<<20)
	err := f.Write(2, nil, big)
	room()
	if !errors.Is(err, syscall.EFBIG) {
		t.Errorf("%v", err)
	}
	into := state(0, 0)
	_, damaged, err := f.Newest(into)
	if err != nil || len(damaged) > 0 ||
		!slices.Equal(tensor.As[float32](into[0].Tensor), []float32{1, 2}) {
		t.Errorf("%v, %v, %v", damaged, into, err)
	}
	if left, err := os.ReadDir(f.Path); len(left) != 1 || err != nil {
		t.Errorf("the folder holds %v, %v", left, err)
	}
}
