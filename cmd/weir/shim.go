package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/weirgpu/weir/internal/shim"
	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// talkAfter is how long a build may take before weir says what it is doing.
const talkAfter = 300 * time.Millisecond

// shimLibrary returns the library to preload: the one given, or the one of this weir, which is
// compiled when it is first used.
func shimLibrary(ctx context.Context, given string) (string, error) {
	if given != "" {
		fi, err := os.Stat(given)
		if err != nil {
			return "", fmt.Errorf("--shim: %w", err)
		}
		if !fi.Mode().IsRegular() {
			return "", fmt.Errorf("--shim %s: is no file", given)
		}
		return filepath.Abs(given)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("cache for the compiled library: %w", err)
	}
	defer sayLater("compiling the library for CUDA programs; this is done once")()
	return shim.Build(ctx, cache, "")
}

// fakeDriver returns the folder of the fake driver's libraries and the example program.
func fakeDriver(ctx context.Context) (dir, example string, err error) {
	if dir = os.Getenv("WEIR_FAKE_DRIVER"); dir != "" {
		return dir, filepath.Join(dir, "bin", "train"), nil
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", "", fmt.Errorf("cache for the fake driver: %w", err)
	}
	defer sayLater("compiling the fake driver; this is done once")()
	dir, err = fakecuda.Build(ctx, filepath.Join(cache, "weir"), "")
	return dir, filepath.Join(dir, "bin", "train"), err
}

// sayLater says something if what follows takes long; the function returned ends that.
func sayLater(text string) func() {
	t := time.AfterFunc(talkAfter, func() { fmt.Fprintln(os.Stderr, "weir:", text) })
	return func() { t.Stop() }
}
