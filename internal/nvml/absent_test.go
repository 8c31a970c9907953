//go:build !linux || !(amd64 || arm64) || nogpu

package nvml

import (
	"errors"
	"testing"
)

func TestAbsent(t *testing.T) {
	if got, err := Discover(); !errors.Is(err, ErrNotBuilt) || got != nil {
		t.Errorf("%d devices, %v", len(got), err)
	}
	if _, err := Open(Options{}); !errors.Is(err, ErrNotBuilt) {
		t.Error(err)
	}
}
