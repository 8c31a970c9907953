package auth

import (
	"os"
	"path/filepath"
	"testing"
)

// files are the contents of all files below a folder.
func files(t *testing.T, dir string) (list []string) {
	t.Helper()
	if err := filepath.WalkDir(dir, func(path string, e os.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		list = append(list, string(b))
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return list
}
