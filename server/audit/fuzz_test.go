package audit

import (
	"os"
	"path/filepath"
	"testing"
)

// FuzzCheckpoints: a file of checkpoints is read whatever is in it, and none that was not signed by
// the key is taken.
func FuzzCheckpoints(f *testing.F) {
	f.Add([]byte(`{"seq":1,"hash":"00","time":"2026-03-01T12:00:00Z","key":"","signature":""}`))
	f.Add([]byte("{\n}\n[]\nnull\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		path := filepath.Join(t.TempDir(), "checkpoints")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		list, _, err := ReadCheckpoints(path)
		if err != nil {
			return // a line that is longer than any
		}
		if _, err := Verify(each(nil), list, make([]byte, 32)); err == nil {
			t.Errorf("%q was taken", b)
		}
	})
}
