package fakecuda_test

import (
	"cmp"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestMemoryAnew holds that memory that was another's has nothing of that in it, whatever is done
// with it first, and that what is seen from two sides is one memory.
func TestMemoryAnew(t *testing.T) {
	dir := driver(t)
	program := filepath.Join(t.TempDir(), "anew")
	cc := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("CC"), "cc"), "-std=gnu11",
		"-D_GNU_SOURCE", "-O1", "-Wall", "-Wextra", "-Werror", "testdata/anew.c", "-o", program,
		"-ldl")
	if out, err := cc.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for _, name := range []string{"plain", "hardware"} {
		d := newDevice(t, dir, profile+"="+name)
		cmd := exec.CommandContext(t.Context(), program)
		cmd.Env = d.env
		if out, err := cmd.CombinedOutput(); err != nil || string(out) != "{\"checks\":77}\n" {
			t.Errorf("%s: %v: %s", name, err, out)
		}
		d.empty()
	}
}
