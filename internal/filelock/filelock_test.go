//go:build unix

package filelock

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestTake: who holds a file alone keeps all others away, who shares it those that want it alone,
// until it is closed.
func TestTake(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	for _, first := range []bool{false, true} {
		a, err := Take(path, first)
		if err != nil {
			t.Fatal(err)
		}
		for _, second := range []bool{false, true} {
			b, err := Take(path, second)
			if got, want := err == nil, first && second; got != want ||
				!got && !errors.Is(err, ErrTaken) {
				t.Errorf("shared %v, then %v: %v", first, second, err)
			}
			if b != nil {
				_ = b.Close()
			}
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestLinkIsNotTaken: no file is made or taken where a symbolic link leads.
func TestLinkIsNotTaken(t *testing.T) {
	dir := t.TempDir()
	to, path := filepath.Join(dir, "to"), filepath.Join(dir, "lock")
	if err := os.Symlink(to, path); err != nil {
		t.Skip(err)
	}
	if f, err := Take(path, false); err == nil {
		t.Error("a link is taken")
		_ = f.Close()
	}
	if _, err := os.Lstat(to); err == nil {
		t.Error("a file is made where the link leads")
	}
}
