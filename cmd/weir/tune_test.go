package main

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/plan/cache"
)

// TestTune measures the ways of a small model and looks for them in what runs it then.
func TestTune(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "plans")
	t.Setenv(cache.EnvDir, dir)
	model := digitsFile(t)
	ways := func() int {
		files, err := filepath.Glob(filepath.Join(dir, "*.ways"))
		if err != nil {
			t.Fatal(err)
		}
		return len(files)
	}
	dry := done(t, "tune", model, "--time", "1ms", "--no-cache", "--json").
		object(t, "problems", "before_ms", "after_ms", "rounds", "confirming_rounds",
			"threads", "precision", "device", "kept")
	if dry["kept"] != false || ways() != 0 {
		t.Errorf("--no-cache: kept %v, %d files", dry["kept"], ways())
	}
	if n := measuredSteps(t, model); n != 0 {
		t.Errorf("%d steps are measured before the model is", n)
	}
	text := done(t, "tune", model, "--time", "1ms", "--threads", "1")
	for _, part := range []string{"problem ", "conv f32 ", "chosen",
		"in another way than the cost model", "on 1 threads of cpu:0"} {
		if !strings.Contains(text.out, part) {
			t.Errorf("%q is missing in %s", part, text.out)
		}
	}
	if text.talk != "" {
		t.Errorf("progress where nobody watches: %q", text.talk)
	}
	if ways() != 1 {
		t.Errorf("%d files of choices", ways())
	}
	if n := measuredSteps(t, model); n == 0 {
		t.Error("no step uses what was measured")
	}
	if n := measuredSteps(t, model, "--no-cache"); n != 0 {
		t.Errorf("--no-cache: %d steps use what was measured", n)
	}
	one, two := done(t, "run", model, "--threads", "1"), done(t, "run", model, "--threads", "2")
	if one.out != two.out {
		t.Errorf("on one thread %s, on two %s", one.out, two.out)
	}
}

// measuredSteps counts the steps of a model that a profile shows to be measured.
func measuredSteps(t *testing.T, model string, args ...string) int {
	t.Helper()
	res := done(
		t,
		append(
			[]string{"bench", model, "--runs", "1", "--profile", "--json"},
			args...)...).object(t, "profile")
	n := 0
	for _, s := range res["profile"].(map[string]any)["steps"].([]any) {
		if s.(map[string]any)["measured"] == true {
			n++
		}
	}
	return n
}

func TestTuneRefuses(t *testing.T) {
	model := digitsFile(t)
	for _, args := range [][]string{{"tune"}, {"tune", model, "--time", "0s"},
		{"tune", model + "x"}, {"tune", model, "--precision", "int3"}} {
		if c := weir(t, args...); c.code != 2 {
			t.Errorf("%v: exit code %d: %s", args, c.code, c.talk)
		}
	}
	t.Setenv(cache.EnvDir, "off")
	if c := weir(t, "tune", model); c.code != 2 || !strings.Contains(c.talk, cache.EnvDir) {
		t.Errorf("nowhere to keep: exit code %d: %s", c.code, c.talk)
	}
	t.Setenv(cache.EnvDir, "/dev/null/plans")
	if c := weir(t, "tune", model, "--time", "1ms"); c.code != 1 ||
		!strings.Contains(c.talk, "not kept") {
		t.Errorf("a folder that cannot be: exit code %d: %s", c.code, c.talk)
	}
}
