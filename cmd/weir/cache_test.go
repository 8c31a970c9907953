package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"

	"github.com/weirgpu/weir/device/machine"
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

// TestCacheListSaysWhyNot holds that the list of plans says which serve, and of the others why not.
func TestCacheListSaysWhyNot(t *testing.T) {
	t.Setenv(cache.EnvDir, filepath.Join(t.TempDir(), "plans"))
	done(t, "run", oldModel(t))
	if got := done(t, "cache", "ls").out; strings.Contains(got, "not used") ||
		!strings.Contains(got, "yes") {
		t.Errorf("of a plan that serves:\n%s", got)
	}
	plans, err := openCache()
	if err != nil {
		t.Fatal(err)
	}
	on, err := machine.Open("far:0", machine.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer on.Close()
	l := cacheList{Dir: plans.Dir()}
	if l.Entries, err = plans.Entries(on.Target); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	c := &cobra.Command{}
	c.SetOut(&out)
	l.print(c)
	if got := strings.Join(strings.Fields(out.String()), " "); strings.Contains(got, "yes") ||
		!strings.Contains(got, "not used, since it is for cpu") ||
		!strings.Contains(got, "this is far") {
		t.Errorf("of a plan for another device:\n%s", out.String())
	}
}
