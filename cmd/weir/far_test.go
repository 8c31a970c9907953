package main

import (
	"strings"
	"testing"

	"github.com/weirgpu/weir/plan/cache"
)

// TestRunFar runs a model on the device whose memory the host cannot address: the same each time,
// with weights that were kept, too.
func TestRunFar(t *testing.T) {
	t.Setenv(cache.EnvDir, t.TempDir())
	model := oldModel(t)
	first := done(t, "run", model, "--device", "far:0", "--no-cache")
	if first.out == "" || done(t, "run", model, "--device", "far:0").out != first.out {
		t.Errorf("outputs differ, or there are none: %q", first.out)
	}
	said := done(t, "bench", model, "--device", "far:0", "--runs", "1", "--profile").out
	if !strings.Contains(said, "limits of far:0 are not known") ||
		!strings.Contains(said, " far ") {
		t.Errorf("a profile with limits that nobody measured:\n%s", said)
	}
	if again := done(t, "run", model, "--device", "far:0"); again.out != first.out {
		t.Errorf("from the cache:\n%s\n%s", first.out, again.out)
	}
}
