package dra

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/share"
)

// TestHoldBoundsTheContainer writes into folders as control groups of both versions have them.
func TestHoldBoundsTheContainer(t *testing.T) {
	for name, c := range map[string]struct {
		groups string
		files  map[string][2]string // before and after
	}{
		"version 2": {"0::/kubepods/a\n", map[string][2]string{
			"kubepods/a/memory.max": {"max\n", "1073741824"},
			"kubepods/a/cpu.max":    {"max 100000\n", "200000 100000"}}},
		"version 1": {"5:cpu,cpuacct:/a\n4:memory:/a\n0::/a\n", map[string][2]string{
			"cpu,cpuacct/a/cpu.cfs_quota_us": {"-1\n", "200000"},
			"memory/a/memory.limit_in_bytes": {"9223372036854771712\n", "1073741824"}}},
		"apart": {"5:cpuacct,cpu:/a\n4:memory:/a\n", map[string][2]string{
			"cpu/a/cpu.cfs_quota_us":         {"-1\n", "200000"},
			"memory/a/memory.limit_in_bytes": {"1048576\n", "1048576\n"}}},
		// A kubelet may have its own period: three processors are more than a quarter of eight.
		"version 2, short period": {"0::/a\n", map[string][2]string{
			"a/memory.max": {"max\n", "1073741824"},
			"a/cpu.max":    {"60000 20000\n", "40000 20000"}}},
		"version 2, lower": {"0::/a\n", map[string][2]string{
			"a/memory.max": {"max\n", "1073741824"},
			"a/cpu.max":    {"300000 200000\n", "300000 200000\n"}}},
		"version 1, short period": {"5:cpu:/a\n4:memory:/a\n", map[string][2]string{
			"cpu/a/cpu.cfs_quota_us":         {"60000\n", "40000"},
			"cpu/a/cpu.cfs_period_us":        {"20000\n", "20000\n"},
			"memory/a/memory.limit_in_bytes": {"1048576\n", "1048576\n"}}},
	} {
		root := t.TempDir()
		write := func(path, text string) {
			path = filepath.Join(root, path)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write("proc/77/cgroup", c.groups)
		for path, text := range c.files {
			write("sys/fs/cgroup/"+path, text[0])
		}
		err := Hold(root, strings.NewReader(`{"ociVersion":"1.0","pid":77}`), share.GiB, 250, 8)
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		for path, text := range c.files {
			got, err := os.ReadFile(filepath.Join(root, "sys/fs/cgroup", path))
			if err != nil || string(got) != text[1] {
				t.Errorf("%s: %s is %q, %v", name, path, got, err)
			}
		}
	}
}

func TestHoldRefuses(t *testing.T) {
	root := t.TempDir()
	for want, state := range map[string]string{"state": `{}`, "cgroup": `{"pid":5}`, "want": `[`} {
		if err := Hold(root, strings.NewReader(state), 1, 1, 1); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", state, err)
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "proc/5"), 0o755); err != nil {
		t.Fatal(err)
	}
	err := os.WriteFile(filepath.Join(root, "proc/5/cgroup"), []byte("0::/\n"), 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if err := Hold(root, strings.NewReader(`{"pid":5}`), 1, 1, 1); err == nil ||
		!strings.Contains(err.Error(), "want both") {
		t.Error(err)
	}
}
