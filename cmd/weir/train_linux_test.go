package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// trainFolder has a short recipe of the digits example with files of its own, which keeps a
// checkpoint after each update.
func trainFolder(t *testing.T, change ...string) (recipe string) {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"digits.onnx", "images.npy.gz", "labels.npy", "heldout.npy"} {
		from, err := filepath.Abs(filepath.Join(root, "examples", "digits", name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(from, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(root, "examples", "digits", "recipe.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	short := string(text)
	for _, change := range [][]string{{"batch: 64", "batch: 16", "epochs: 10", "steps: 40",
		"to: run", "to: run, steps: 1"}, change} {
		short = strings.NewReplacer(change...).Replace(short)
	}
	recipe = filepath.Join(dir, "recipe.yaml")
	if err := os.WriteFile(recipe, []byte(short), 0o600); err != nil {
		t.Fatal(err)
	}
	return recipe
}

// checkpoints are the names of those of a recipe's run.
func checkpoints(t *testing.T, recipe string) []string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(filepath.Dir(recipe), "run", "step-*.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestTrainKilled kills training anywhere, again and again, and goes on each time: it ends with the
// bits of a run that nobody killed, and on another number of threads. A run that would write over
// what an interrupted one has kept is refused.
func TestTrainKilled(t *testing.T) {
	want := done(t, "train", trainFolder(t), "--json", "--threads", "1").object(t, "digest")
	recipe := trainFolder(t)
	kills := 0
	for kills < 4 {
		cmd, talk := apart(t, nil, "train", recipe, "--resume", "--threads", "2")
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		for before := len(checkpoints(t, recipe)); cmd.ProcessState == nil; {
			// a run that has come further than the one before it
			if list := checkpoints(t, recipe); len(list) > 0 && (before == 0 ||
				changed(list, kills)) {
				break
			}
			time.Sleep(time.Millisecond)
		}
		if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		if cmd.Wait() == nil {
			t.Fatalf("the run ended before it was killed:\n%s", talk)
		}
		kills++
	}
	if c := weir(t, "train", recipe); c.code == 0 || !strings.Contains(c.talk, "--resume") {
		t.Errorf("a run over what an interrupted one has kept: code %d, %s", c.code, c.talk)
	}
	got := done(t, "train", recipe, "--resume", "--json").object(t, "digest")
	if got["digest"] != want["digest"] {
		t.Errorf("killed %d times the digest is %v, of a run that was not %v", kills, got["digest"],
			want["digest"])
	}
	// a run that ended gives way to another
	again := done(t, "train", recipe, "--json").object(t, "digest")
	if again["digest"] != want["digest"] {
		t.Errorf("the run after it has digest %v, want %v", again["digest"], want["digest"])
	}
}

// changed reports whether the newest checkpoint is of a later update than so many times ten.
func changed(list []string, kills int) bool {
	newest := filepath.Base(list[len(list)-1])
	return newest > "step-"+strings.Repeat("0", 10)+string(rune('0'+kills))
}

// TestTrainPage trains, and loads what came of it as any model: it says what the run said of it.
func TestTrainPage(t *testing.T) {
	recipe := trainFolder(t, "steps: 40", "steps: 8")
	page := filepath.Join(t.TempDir(), "run.html")
	c := done(t, "train", recipe, "--report", page, "--json")
	res := c.object(t, "steps", "loss", "metric", "step_ms", "samples_per_s", "arena_bytes",
		"state_bytes", "skipped_steps", "scale", "digest", "model")
	text, err := os.ReadFile(page)
	if res["steps"] != 8. {
		t.Errorf("%v updates, want 8", res["steps"])
	}
	if err != nil || !strings.Contains(string(text), res["digest"].(string)) ||
		!strings.Contains(string(text), "<svg") {
		t.Errorf("the page has no digest or no chart: %v", err)
	}
	done(t, "run", res["model"].(string), "--json").object(t, "outputs")
	plan := done(t, "train", "plan", recipe, "--json").object(t, "arena_bytes", "state_bytes",
		"step_ms", "missing", "recompute")
	for _, key := range []string{"arena_bytes", "state_bytes"} {
		if plan[key] != res[key] {
			t.Errorf("%s: planned %v, used %v", key, plan[key], res[key])
		}
	}
}

// TestTrainRefuses: a wrong recipe is an error that names the line, and nothing is written.
func TestTrainRefuses(t *testing.T) {
	for change, says := range map[string]string{
		"batch: 16|batches: 16":                     `line 8: unknown key "batches"`,
		"loss: softmax-cross-entropy|loss: cross":   "line 11: loss: unknown",
		"start: random|precision: fp8":              "precision",
		"heldout.npy|images.npy.gz":                 "images.npy.gz",
		"labels: labels.npy|labels: heldout.npy":    "samples",
		"{image: images.npy.gz}|{x: images.npy.gz}": "image",
	} {
		from, to, _ := strings.Cut(change, "|")
		recipe := trainFolder(t, "batch: 64", "batch: 16")
		text, err := os.ReadFile(recipe)
		if err != nil {
			t.Fatal(err)
		}
		text = []byte(strings.Replace(string(text), from, to, 1))
		if err := os.WriteFile(recipe, text, 0o600); err != nil {
			t.Fatal(err)
		}
		c := weir(t, "train", recipe)
		if c.code == 0 || !strings.Contains(c.talk, says) {
			t.Errorf("%s: code %d, %q, want %q", change, c.code, c.talk, says)
		}
		if len(checkpoints(t, recipe)) > 0 {
			t.Errorf("%s: a checkpoint is left", change)
		}
	}
}
