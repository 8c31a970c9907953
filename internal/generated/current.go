package generated

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// Current fails t when a file that the generator in the folder _generate writes differs from the
// one in the package's folder, which is the working directory of its tests. The generator is a
// program whose argument is the folder to write to.
func Current(t *testing.T) {
	t.Helper()
	goTool, err := exec.LookPath("go")
	if err != nil || testing.Short() {
		t.Skip("needs the go command")
	}
	read(t, "_generate")
	fresh := t.TempDir()
	command := exec.Command(goTool, "run", ".", fresh)
	command.Dir = "_generate"
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("generator: %v\n%s", err, out)
	}
	files, err := os.ReadDir(fresh)
	if err != nil || len(files) == 0 {
		t.Fatalf("generator wrote %d files: %v", len(files), err)
	}
	for _, f := range files {
		want, err := os.ReadFile(filepath.Join(fresh, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if have, err := os.ReadFile(f.Name()); err != nil || !bytes.Equal(have, want) {
			t.Errorf("%s is not what the generator writes: run go generate (%v)", f.Name(), err)
		}
	}
}

// read reads the files of a folder: go test's cache knows only of files that the test itself has
// read, and would answer for a generator that has changed since.
func read(t *testing.T, folder string) {
	t.Helper()
	err := filepath.WalkDir(folder, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			_, err = os.ReadFile(path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
}
