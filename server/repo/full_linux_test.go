package repo

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/weirgpu/weir/server/store"
)

// TestPushLeavesRoom: a version is refused before the disk is full, and nothing of it is left.
func TestPushLeavesRoom(t *testing.T) {
	folder := t.TempDir()
	if err := syscall.Mount("tmpfs", folder, "tmpfs", 0, "size=100m"); err != nil {
		t.Skip("a small disk needs root:", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(folder, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	if _, err := Push(folder, "m", 0, bytes.NewReader(make([]byte, 10<<20)), 64<<20,
		nil); err != nil {
		t.Errorf("what there is room for: %v", err)
	}
	_, err := Push(folder, "m", 0, bytes.NewReader(make([]byte, 40<<20)), 64<<20, nil)
	if !errors.Is(err, store.ErrFull) {
		t.Errorf("what there is no room for: %v", err)
	}
	if left, err := os.ReadDir(filepath.Join(folder, "m")); len(left) != 1 || err != nil {
		t.Errorf("left are %v (%v)", left, err)
	}
}
