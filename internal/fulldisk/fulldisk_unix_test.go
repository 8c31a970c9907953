//go:build unix

package fulldisk

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestFull: files end at the bound until there is room again.
func TestFull(t *testing.T) {
	path, text := filepath.Join(t.TempDir(), "file"), make([]byte, 100)
	for range 2 { // a bound after another
		room := Full(t, 10)
		if err := os.WriteFile(path, text, 0o600); !errors.Is(err, syscall.EFBIG) {
			t.Errorf("on a full disk: %v", err)
		}
		if info, err := os.Stat(path); err != nil || info.Size() != 10 {
			t.Errorf("what fits: %v, %v", info, err)
		}
		room()
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Errorf("with room: %v", err)
		}
	}
}
