package fakecuda_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// strict is not for users: their compilers warn of other things than ours.
var strict = []string{"-Werror"}

// built is the compiled driver, kept where the tests of the shim keep what they compile, and clean
// up.
var built = sync.OnceValues(func() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return fakecuda.Build(context.Background(), filepath.Join(cache, "weir", "test"), "", strict...)
})

// driver returns the folder of the compiled driver; without a compiler the test is skipped.
func driver(t *testing.T) string {
	t.Helper()
	dir, err := built()
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestBuild(t *testing.T) {
	dir := driver(t)
	again, err := fakecuda.Build(t.Context(), filepath.Dir(dir), "", strict...)
	if err != nil || again != dir {
		t.Errorf("a second build gives %q, %v: want %q", again, err, dir)
	}
	for _, name := range []string{"libcuda.so.1", "libnvidia-ml.so.1", "bin/train", "bin/smi"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

func TestBuildWithoutCompiler(t *testing.T) {
	if _, err := fakecuda.Build(t.Context(), t.TempDir(),
		"no-such-compiler"); !errors.Is(err, fakecuda.ErrNoCompiler) {
		t.Errorf("got %v, want ErrNoCompiler", err)
	}
}
