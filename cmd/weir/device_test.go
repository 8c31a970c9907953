package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/nvml"
	"github.com/weirgpu/weir/internal/shim/fakecuda"
)

func TestDeviceListText(t *testing.T) {
	zero := 0
	driver := &device.Driver{Version: "615.10", CUDA: "13.4", MemoryLimit: true}
	devices := []device.Info{
		{
			ID:          "cpu:0",
			Kind:        device.CPU,
			Name:        "Example 9000",
			MemoryBytes: 1 << 30,
			Units:       2,
			Features:    []string{"avx2"},
		},
		{
			ID:                "cuda:0",
			Kind:              device.CUDA,
			Name:              "Example GPU",
			MemoryBytes:       79 << 30,
			FreeBytes:         60 << 30,
			Units:             132,
			UUID:              "GPU-0",
			PCI:               "0000:17:00.0",
			NUMANode:          &zero,
			CPUs:              []int{0, 1},
			ComputeCapability: "9.0",
			Driver:            driver,
			MIGEnabled:        true,
			MIG: []device.Instance{
				{
					UUID:        "MIG-0",
					Profile:     "1g.10gb",
					MemoryBytes: 10 << 30,
					FreeBytes:   8 << 30,
					Units:       16,
					GPUInstance: 7,
				},
			},
		},
	}
	l := deviceList{Devices: devices, Topology: device.TopologyOf(devices)}
	var b strings.Builder
	l.print(&b)
	const want = `cpu:0  Example 9000  2 units  1 GiB  0 NUMA nodes  [avx2]
cuda:0  Example GPU  132 units  79 GiB, 60 GiB free  compute capability 9.0  PCI 0000:17:00.0  GPU-0  NUMA node 0
        MIG on, 1 instances
        1g.10gb  16 units  10 GiB, 8 GiB free  GPU instance 7, compute instance 0  MIG-0
driver 615.10, CUDA 13.4, memory limit of its own: yes

        cuda:0  near CPUs  near NUMA node
cuda:0  X             0-1               0
`
	if b.String() != want {
		t.Errorf("got\n%s\nwant\n%s", b.String(), want)
	}
}

func TestGPUNote(t *testing.T) {
	for _, c := range []struct {
		err  error
		want string
	}{
		{nvml.ErrNotBuilt, "without GPU support"},
		{fmt.Errorf("%w: x.so", nvml.ErrNoDriver), "no GPUs: no NVIDIA driver: x.so"},
		{errors.Join(errors.New("a"), errors.New("b")), "missing from the list: a; b"},
	} {
		if got := gpuNote(c.err); !strings.Contains(got, c.want) || strings.Contains(got, "\n") {
			t.Errorf("%v: %q lacks %q", c.err, got, c.want)
		}
	}
}

// TestDeviceListFake holds the list against the fake driver's management library, which counts what
// programs hold.
func TestDeviceListFake(t *testing.T) {
	if testing.Short() {
		t.Skip("compiles the fake driver")
	}
	if _, err := nvml.Discover(); errors.Is(err, nvml.ErrNotBuilt) {
		t.Skip(err)
	}
	cache, err := os.UserCacheDir() // where weir builds it too: it is built once
	if err != nil {
		cache = t.TempDir()
	}
	dir, err := fakecuda.Build(t.Context(), filepath.Join(cache, "weir"), "")
	if errors.Is(err, fakecuda.ErrNoCompiler) {
		t.Skip(err)
	} else if err != nil {
		t.Fatal(err)
	}
	t.Setenv(nvml.PathVariable, filepath.Join(dir, "libnvidia-ml.so.1"))
	t.Setenv("WEIR_FAKE_DIR", t.TempDir())
	t.Setenv("WEIR_FAKE_GPUS", "2")
	t.Setenv("WEIR_FAKE_MEMORY", "4GiB")
	l, err := listDevices()
	if err != nil || len(l.Devices) != 3 {
		t.Fatalf("%+v, %v", l.Devices, err)
	}
	for i, d := range l.Devices[1:] {
		if d.ID != fmt.Sprintf("cuda:%d", i) || d.Name != fakecuda.Name || d.MemoryBytes != 4<<30 ||
			d.UUID == "" ||
			d.Driver.Version == "" {
			t.Errorf("%+v", d)
		}
	}
	if l.Devices[1].UUID == l.Devices[2].UUID {
		t.Errorf("both GPUs are %s", l.Devices[1].UUID)
	}
	if got, want := len(l.Topology.Matrix), 2; got != want {
		t.Errorf("%d rows, want %d", got, want)
	}
}

// TestMIGIsRefused holds that a GPU cut into instances is not shared, and that this is said.
func TestMIGIsRefused(t *testing.T) {
	whole := device.Info{
		ID:          "cuda:0",
		Name:        "NVIDIA H200",
		MemoryBytes: 141 << 30,
		UUID:        "GPU-00010203-0405-0607-0809-0a0b0c0d0e0f",
	}
	d, err := agentDevice(&whole)
	if err != nil || uuidText(d.UUID) != whole.UUID || d.ID() != whole.ID {
		t.Errorf("got %+v, %v", d, err)
	}
	whole.MIGEnabled = true
	if _, err := agentDevice(&whole); err == nil || !strings.Contains(err.Error(), "MIG") {
		t.Errorf("a GPU with MIG on: %v", err)
	}
}
