package main

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/weirgpu/weir/plan/cache"
)

// oldModel is a model file that was not written a moment ago: plans of one that was are not kept.
func oldModel(t *testing.T) string {
	t.Helper()
	path := filepath.Join("..", "..", "examples", "digits", "digits.onnx")
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if time.Since(info.ModTime()) < 10*time.Second {
		t.Skip("the model was checked out a moment ago")
	}
	return path
}

// TestPlanCache runs a model twice with a cache, which keeps nothing when it is switched off.
func TestPlanCache(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plans")
	t.Setenv(cache.EnvDir, dir)
	model := oldModel(t)
	cached := func(args ...string) bool {
		return done(t, append(args, model, "--json")...).object(t, "cached")["cached"] == true
	}
	for range 2 {
		if cached("run", "--no-cache") {
			t.Error("--no-cache: from the cache")
		}
	}
	if _, err := os.Stat(dir); err == nil {
		t.Error("--no-cache: the folder was made")
	}
	first, want := done(t, "run", model), done(t, "run", model, "--no-cache")
	if second := done(t, "run", model); first.out != want.out || second.out != want.out {
		t.Errorf("outputs differ:\n%s\n%s\n%s", want.out, first.out, second.out)
	}
	if !cached("run") || !cached("bench", "--runs", "1") {
		t.Error("not from the cache")
	}
	t.Setenv(cache.EnvDir, "off")
	if cached("run") {
		t.Errorf("%s=off: from the cache", cache.EnvDir)
	}
	t.Setenv(cache.EnvDir, "/dev/null/plans")
	for range 2 {
		if cached("run") {
			t.Error("a folder that cannot be: from the cache")
		}
	}
}
