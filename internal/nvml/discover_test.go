//go:build linux && (amd64 || arm64) && !nogpu

package nvml

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/weirgpu/weir/device"
)

// standIn compiles a variant of the stand-in and returns its path.
func standIn(t *testing.T, flags ...string) string {
	t.Helper()
	cc := os.Getenv("CC")
	if cc == "" {
		cc = "cc"
	}
	if _, err := exec.LookPath(cc); err != nil {
		t.Skip("no C compiler: ", err)
	}
	path := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append(
		[]string{
			"-shared",
			"-fPIC",
			"-Wall",
			"-Werror",
			"-Wno-unused",
			"-o",
			path,
			"testdata/nvml.c",
		},
		flags...)
	if out, err := exec.CommandContext(t.Context(), cc, args...).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

var fakeRoot = fstest.MapFS{
	"sys/bus/pci/devices/0000:17:00.0/numa_node":     {Data: []byte("0\n")},
	"sys/bus/pci/devices/0000:17:00.0/local_cpulist": {Data: []byte("0-1,8\n")},
	"sys/bus/pci/devices/0000:3d:00.0/numa_node":     {Data: []byte("-1\n")},
}

func list(t *testing.T, root fs.FS, flags ...string) ([]device.Info, error) {
	t.Helper()
	l, err := Open(Options{Path: standIn(t, flags...), Root: root})
	if err != nil {
		t.Fatal(err)
	}
	infos, err := l.Devices()
	if closing := l.Close(); closing != nil {
		t.Error(closing)
	}
	return infos, err
}

func TestDevices(t *testing.T) {
	got, err := list(t, fakeRoot)
	if err != nil || len(got) != 4 {
		t.Fatalf("%d devices, %v", len(got), err)
	}
	zero := 0
	want := device.Info{
		ID:          "cuda:0",
		Kind:        device.CUDA,
		Name:        "NVIDIA Example 80GB",
		MemoryBytes: 79 << 30,
		FreeBytes:   60 << 30,
		Units:       132,
		CPUs: []int{
			0,
			1,
			2,
			3,
		},
		UUID:              "GPU-00000000-0000-0000-0000-000000000000",
		PCI:               "0000:17:00.0",
		NUMANode:          &zero,
		ComputeCapability: "9.0",
		Driver:            &device.Driver{Version: "570.86.15", CUDA: "12.8"},
		Links: []device.Link{
			{To: "cuda:1", Path: device.PathNVLink, NVLinks: 10, Peer: true},
			{To: "cuda:2", Path: device.PathSystem}, {To: "cuda:3", Path: device.PathSystem},
		},
	}
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("got  %+v\nwant %+v", got[0], want)
	}
	if got[1].NUMANode != nil {
		t.Errorf("node %d from a system that tells none", *got[1].NUMANode)
	}
	if want := []int{64, 65, 66, 67}; !slices.Equal(got[3].CPUs, want) {
		t.Errorf("CPUs %v, want %v", got[3].CPUs, want)
	}
}

func TestInstances(t *testing.T) {
	got, err := list(t, fakeRoot)
	if err != nil {
		t.Fatal(err)
	}
	part := func(n int) device.Instance {
		return device.Instance{
			UUID:        fmt.Sprintf("MIG-00000000-0000-0000-0000-00000000000%d", n),
			Profile:     "1g.10gb",
			MemoryBytes: 10 << 30,
			FreeBytes:   8 << 30,
			Units:       16,
			GPUInstance: 7 + n,
		}
	}
	if want := []device.Instance{
		part(0),
		part(1),
	}; !got[3].MIGEnabled ||
		!reflect.DeepEqual(got[3].MIG, want) {
		t.Errorf("got  %+v\nwant %+v", got[3].MIG, want)
	}
	if got[0].MIGEnabled || got[0].MIG != nil {
		t.Errorf("a whole GPU has instances %+v", got[0].MIG)
	}
}

func TestMatrix(t *testing.T) {
	want := [][]string{
		{
			"X",
			"NV10",
			"SYS",
			"SYS",
		},
		{"NV10", "X", "SYS", "SYS"},
		{"SYS", "SYS", "X", "PIX"},
		{"SYS", "SYS", "PIX", "X"},
	}
	for _, flags := range [][]string{nil, {"-DOLDLINKS"}} {
		got, err := list(t, fakeRoot, flags...)
		if err != nil {
			t.Fatal(err)
		}
		if m := device.TopologyOf(got).Matrix; !reflect.DeepEqual(m, want) {
			t.Errorf("%v: got %v, want %v", flags, m, want)
		}
	}
}

// TestOldDriver holds that what an old driver lacks is left empty, and the rest is read by the
// older calls.
func TestOldDriver(t *testing.T) {
	got, err := list(t, fakeRoot, "-DBARE")
	if err != nil || len(got) != 2 {
		t.Fatalf("%d devices, %v", len(got), err)
	}
	zero := 0
	want := device.Info{
		ID:          "cuda:0",
		Kind:        device.CUDA,
		Name:        "NVIDIA Example 80GB",
		MemoryBytes: 80 << 30,
		FreeBytes:   78 << 30,
		CPUs: []int{
			0,
			1,
			8,
		},
		UUID:              "GPU-00000000-0000-0000-0000-000000000000",
		PCI:               "0000:17:00.0",
		NUMANode:          &zero,
		ComputeCapability: "9.0",
		Driver:            &device.Driver{Version: "390.157"},
		Links:             []device.Link{{To: "cuda:1", Path: device.PathUnknown}},
	}
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("got  %+v\nwant %+v", got[0], want)
	}
}

func TestNothingSupported(t *testing.T) {
	got, err := list(t, fakeRoot, "-DREFUSE")
	if err != nil || len(got) != 4 {
		t.Fatalf("%d devices, %v", len(got), err)
	}
	unknown := func(to int) device.Link {
		return device.Link{To: fmt.Sprintf("cuda:%d", to), Path: device.PathUnknown}
	}
	want := device.Info{
		ID:     "cuda:0",
		Kind:   device.CUDA,
		Driver: &device.Driver{},
		Links:  []device.Link{unknown(1), unknown(2), unknown(3)},
	}
	if !reflect.DeepEqual(got[0], want) {
		t.Errorf("got  %+v\nwant %+v", got[0], want)
	}
}

func TestLostGPU(t *testing.T) {
	got, err := list(t, fakeRoot, "-DLOST")
	if !errors.Is(err, GPULost) || !strings.Contains(err.Error(), "cuda:1") {
		t.Errorf("error %v does not name the GPU", err)
	}
	var ids []string
	for _, d := range got {
		ids = append(ids, d.ID)
	}
	if want := []string{"cuda:0", "cuda:2", "cuda:3"}; !slices.Equal(ids, want) {
		t.Errorf("got %v, want %v", ids, want)
	}
}

func TestAbsurdCount(t *testing.T) {
	if got, err := list(t, fakeRoot, "-DGREEDY"); err == nil || len(got) > 0 {
		t.Errorf("%d devices, %v", len(got), err)
	}
}

func TestNoDriver(t *testing.T) {
	missing := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if _, err := Open(Options{Path: missing}); !errors.Is(err, ErrNoDriver) ||
		!strings.Contains(err.Error(), missing) {
		t.Errorf("without a library: %v", err)
	}
	if _, err := Open(Options{Path: standIn(t, "-DNODRIVER")}); !errors.Is(err, ErrNoDriver) ||
		!errors.Is(err, DriverNotLoaded) {
		t.Errorf("without a driver: %v", err)
	}
	t.Setenv(PathVariable, missing)
	if got, err := Discover(); !errors.Is(err, ErrNoDriver) || got != nil {
		t.Errorf("%d devices, %v", len(got), err)
	}
}

// TestDiscover holds that the environment variable is heard, and that a driver that has limits of
// its own is seen.
func TestDiscover(t *testing.T) {
	t.Setenv(PathVariable, standIn(t, "-DLIMITS=1"))
	got, err := Discover()
	if err != nil || len(got) != 4 || !got[0].Driver.MemoryLimit {
		t.Errorf("%+v, %v", got, err)
	}
}

// TestMemoryLimit sets the driver's own limit of a group, reads and clears it, and holds that a
// refusal says what it comes from.
func TestMemoryLimit(t *testing.T) {
	const group = "/sys/fs/cgroup/job"
	open := func(flags ...string) *Library {
		l, err := Open(Options{Path: standIn(t, flags...), Root: fakeRoot})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = l.Close() })
		return l
	}
	l := open("-DLIMITS=1")
	for _, want := range []uint64{NoMemoryLimit, 5 << 30, 1 << 20, NoMemoryLimit} {
		if err := l.SetMemoryLimit(1, group, want); err != nil {
			t.Fatal(err)
		}
		if got, err := l.MemoryLimit(1, group); err != nil || got != want {
			t.Errorf("limit %d, %v, want %d", got, err, want)
		}
	}
	for _, c := range []struct {
		l     *Library
		gpu   uint32
		group string
		want  Result
		says  string
	}{
		{l, 3, group, NotSupported, "MIG"},
		{l, 0, group + "/other", NotFound, "+dmem"},
		{l, 7, group, InvalidArgument, "cuda:7"},
		{open("-DLIMITS=4"), 0, group, NoPermission, "only root"},
		{open("-DLIMITS=2"), 0, group, InvalidArgument, group},
		{open(), 0, group, FunctionNotFound, "driver 570.86.15 has none"},
	} {
		err := c.l.SetMemoryLimit(c.gpu, c.group, 1<<30)
		if !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("error %v, want %v and %q", err, c.want, c.says)
		}
	}
	if err := l.SetMemoryLimit(0, group+"\x00", 1); err == nil {
		t.Error("a name with a zero byte is another group's")
	}
}

// TestTogether calls from several goroutines, for the race detector.
func TestTogether(t *testing.T) {
	l, err := Open(Options{Path: standIn(t), Root: fakeRoot})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 20 {
				if got, err := l.Devices(); err != nil || len(got) != 4 {
					t.Errorf("%d devices, %v", len(got), err)
				}
			}
		})
	}
	wg.Wait()
	if err := l.Close(); err != nil {
		t.Error(err)
	}
}
