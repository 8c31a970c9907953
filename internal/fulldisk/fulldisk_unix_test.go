//go:build unix

package fulldisk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// TestFull: files end at the bound until there is room again. However much go test logs of what
// the package's tests open, its log has room.
func TestFull(t *testing.T) {
	if Elsewhere(t) {
		return
	}
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

// TestFailureIsTold: a test that does not pass in a process of its own is told, with its words.
func TestFailureIsTold(t *testing.T) {
	for name, says := range map[string]string{
		"TestFails": "no room at all", "TestSkips": "not here", "TestThatIsNotThere": "no tests",
	} {
		if err := alone(t.Context(), name); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestFails and TestSkips are what they say in a process of their own, and pass elsewhere.
func TestFails(t *testing.T) {
	if child(t.Name()) {
		t.Error("no room at all")
	}
}

func TestSkips(t *testing.T) {
	if child(t.Name()) {
		t.Skip("not here")
	}
}
