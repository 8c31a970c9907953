//go:build nogpu

package shim

import (
	"errors"
	"testing"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// TestNotBuilt: a program without the sources says so before it looks for a compiler.
func TestNotBuilt(t *testing.T) {
	if _, err := Build(t.Context(), t.TempDir(), "none"); !errors.Is(err, ErrNotBuilt) {
		t.Errorf("the library: %v", err)
	}
	_, err := fakecuda.Build(t.Context(), t.TempDir(), "none")
	if !errors.Is(err, fakecuda.ErrNotBuilt) {
		t.Errorf("the fake driver: %v", err)
	}
}
