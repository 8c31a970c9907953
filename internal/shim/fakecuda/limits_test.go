//go:build linux && (amd64 || arm64) && !nogpu

package fakecuda_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/internal/nvml"
)

// What the management library limits a control group to, the driver holds its processes to, with
// their contexts, to the byte: those of the group and of groups below it, and no others. The limit
// goes with the group.
func TestLimitsOfGroups(t *testing.T) {
	const mib = 1 << 20
	// Whoever comes first says how the device is, which is this process here.
	d := newDevice(t, driver(t), "WEIR_FAKE_PROFILE=plain", "WEIR_FAKE_CONTEXT=16MiB",
		"WEIR_FAKE_MEMORY=1GiB")
	for _, v := range d.env {
		if name, value, _ := strings.Cut(v, "="); strings.HasPrefix(name, "WEIR_FAKE_") {
			t.Setenv(name, value)
		}
	}
	t.Setenv("WEIR_FAKE_LIMITS", "0")
	l, err := nvml.Open(nvml.Options{Path: filepath.Join(d.dir, "libnvidia-ml.so.1")})
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	group := filepath.Join(t.TempDir(), "job")
	below := filepath.Join(group, "below")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	hoards := func(in string, total, free uint64) {
		t.Helper()
		var got struct{ Got, Again, Total, Free uint64 }
		device{t, d.dir, append(d.env, "WEIR_FAKE_CGROUP="+in)}.result(&got, "hoard", "1048576")
		if got.Got != free || got.Again != free || got.Free != free || got.Total != total {
			t.Errorf("in %s: %+v, want %d of %d", in, got, free, total)
		}
	}
	set := func(group string, bytes uint64) {
		t.Helper()
		if err := l.SetMemoryLimit(0, group, bytes); err != nil {
			t.Fatal(err)
		}
		if got, err := l.MemoryLimit(0, group); err != nil || got != bytes {
			t.Errorf("limit %d, %v, want %d", got, err, bytes)
		}
	}
	hoards(group, 1024*mib, 1008*mib)
	set(group, 100*mib)
	hoards(group, 100*mib, 84*mib)
	hoards(below, 100*mib, 84*mib)
	hoards(group+"-other", 1024*mib, 1008*mib)
	set(below, 50*mib)
	hoards(below, 50*mib, 34*mib)
	set(below, nvml.NoMemoryLimit)
	set(group, 200*mib)
	hoards(below, 200*mib, 184*mib)
	if err := l.SetMemoryLimit(0, group+"-other", mib); !errors.Is(err, nvml.NotFound) {
		t.Errorf("of a group that is not there: %v", err)
	}
	if err := os.RemoveAll(group); err != nil {
		t.Fatal(err)
	}
	hoards(group, 1024*mib, 1008*mib)
	t.Setenv("WEIR_FAKE_LIMITS", "4")
	if err := l.SetMemoryLimit(0, filepath.Dir(group), 1); !errors.Is(err, nvml.NoPermission) {
		t.Errorf("without the right to: %v", err)
	}
}
