//go:build (amd64 || arm64) && !nogpu

package agent

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

// TestDriverHoldsTheCap has a program that no library meters, as one that got around it, allocate
// on the fake driver all that it can have: in its job's control group that is the job's cap, and
// after the job's end, or elsewhere, the device.
func TestDriverHoldsTheCap(t *testing.T) {
	const mib = 1 << 20
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	driver, err := fakecuda.Build(t.Context(), filepath.Join(cache, "weir", "test"), "", "-Werror")
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range os.Environ() { // nothing of the tests' own sets up the device
		if name, _, _ := strings.Cut(v, "="); strings.HasPrefix(name, "WEIR_FAKE_") {
			t.Setenv(name, "")
			_ = os.Unsetenv(name)
		}
	}
	t.Setenv("WEIR_FAKE_DIR", t.TempDir())
	t.Setenv("WEIR_FAKE_MEMORY", "1GiB")
	t.Setenv("WEIR_FAKE_CONTEXT", "16MiB")
	t.Setenv("WEIR_FAKE_LIMITS", "0")
	library, err := nvml.Open(nvml.Options{Path: filepath.Join(driver, "libnvidia-ml.so.1")})
	if err != nil {
		t.Fatal(err)
	}
	defer library.Close()
	h := newHouse(t)
	cfg := h.config()
	cfg.Limits = library
	a := startAgent(t, cfg)
	hoards := func(group string, want uint64) {
		t.Helper()
		cmd := exec.CommandContext(t.Context(), filepath.Join(driver, "bin", "hoard"), "1048576")
		cmd.Env = append(slices.Clone(os.Environ()), "LD_LIBRARY_PATH="+driver, "LD_PRELOAD=",
			"WEIR_FAKE_CGROUP="+group)
		out, err := cmd.Output()
		var got struct{ Got uint64 }
		if err == nil {
			err = json.Unmarshal(out, &got)
		}
		if err != nil || got.Got+16*mib != want {
			t.Errorf("in %s: %s, %v, want %d with its context", group, out, err, want)
		}
	}
	c, p := h.job("job", 300*mib, "/job")
	group := h.root + groupsMount + "/job"
	stateOf(t, a, "job", func(j JobSnapshot) bool { return j.DriverLimitBytes == 300*mib })
	hoards(group, 300*mib)
	hoards(h.root+groupsMount+"/other", 1024*mib)
	h.set("job", 500*mib)
	hoards(group, 500*mib)
	p.kill()
	_ = c.Close()
	eventually(t, "the limit is taken back", func() bool {
		n, err := library.MemoryLimit(0, group)
		return err == nil && n == nvml.NoMemoryLimit
	})
	hoards(group, 1024*mib)
}
