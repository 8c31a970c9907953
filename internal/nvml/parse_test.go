package nvml

import (
	"reflect"
	"slices"
	"testing"
	"testing/fstest"
	"unsafe"
)

// TestLayout holds the offsets that nvml.h gives; the sizes are held by the compiler.
func TestLayout(t *testing.T) {
	var (
		p pciInfo
		m memory2
		a attributes
	)
	for _, c := range []struct {
		name      string
		got, want uintptr
	}{
		{"pciInfo.Domain", unsafe.Offsetof(p.Domain), 16},
		{"pciInfo.Bus", unsafe.Offsetof(p.Bus), 20},
		{"pciInfo.Dev", unsafe.Offsetof(p.Dev), 24},
		{"pciInfo.BusID", unsafe.Offsetof(p.BusID), 36},
		{"memory2.Total", unsafe.Offsetof(m.Total), 8},
		{"memory2.Used", unsafe.Offsetof(m.Used), 32},
		{"attributes.GPUSlices", unsafe.Offsetof(a.GPUSlices), 24},
		{"attributes.MemoryMiB", unsafe.Offsetof(a.MemoryMiB), 32},
		{"memory2Version", uintptr(memory2Version), 0x2000028},
	} {
		if c.got != c.want {
			t.Errorf("%s: %d, want %d", c.name, c.got, c.want)
		}
	}
}

func TestText(t *testing.T) {
	for in, want := range map[string]string{"": "", "a\x00b": "a", "whole": "whole",
		"\xff\x00": "?"} {
		if got := text([]byte(in)); got != want {
			t.Errorf("%q: got %q, want %q", in, got, want)
		}
	}
}

func TestVersions(t *testing.T) {
	for in, want := range map[string]int{"570.86.15": 570, "615": 615, "": 0, "x.1": 0} {
		if got := branch(in); got != want {
			t.Errorf("branch(%q) = %d, want %d", in, got, want)
		}
	}
	for in, want := range map[int32]string{12080: "12.8", 13000: "13.0", 0: "", -1: ""} {
		if got := cudaVersion(in); got != want {
			t.Errorf("cudaVersion(%d) = %q, want %q", in, got, want)
		}
	}
}

// TestCores holds the table against the data sheets of one GPU of each generation: FP32 cores and
// multiprocessors.
func TestCores(t *testing.T) {
	for _, c := range []struct {
		gpu          string
		major, minor int32
		cores, units int
	}{
		{"K40", 3, 5, 2880, 15}, {"M40", 5, 2, 3072, 24}, {"P100", 6, 0, 3584, 56},
		{"P40", 6, 1, 3840, 30}, {"V100", 7, 0, 5120, 80},
		{"T4", 7, 5, 2560, 40}, {"A100", 8, 0, 6912, 108}, {"RTX 3090", 8, 6, 10496, 82},
		{"L40", 8, 9, 18176, 142}, {"H100 SXM", 9, 0, 16896, 132},
	} {
		if per := coresPerMultiprocessor(c.major, c.minor); per == 0 || c.cores/per != c.units {
			t.Errorf("%s: %d cores a multiprocessor", c.gpu, per)
		}
	}
	if per := coresPerMultiprocessor(99, 0); per != 0 {
		t.Errorf("an unknown generation has %d", per)
	}
}

func TestProfile(t *testing.T) {
	for _, c := range []struct {
		name string
		a    attributes
		want string
	}{
		{"NVIDIA A100-SXM4-40GB MIG 1g.5gb", attributes{}, "1g.5gb"},
		{"NVIDIA H100 80GB HBM3 MIG 1c.2g.20gb", attributes{}, "1c.2g.20gb"},
		{"", attributes{GPUSlices: 2, ComputeSlices: 2, MemoryMiB: 20096}, "2g.20gb"},
		{"", attributes{GPUSlices: 4, ComputeSlices: 1, MemoryMiB: 40448}, "1c.4g.40gb"},
		{"GPU", attributes{}, ""},
	} {
		if got := profile(c.name, &c.a); got != c.want {
			t.Errorf("%q %+v: got %q, want %q", c.name, c.a, got, c.want)
		}
	}
}

func TestBits(t *testing.T) {
	if got, want := bits([]uint64{1<<0 | 1<<63, 0, 1 << 5}), []int{
		0,
		63,
		133,
	}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestHost(t *testing.T) {
	at := func(list, node string) host {
		return host{fstest.MapFS{
			"sys/bus/pci/devices/0000:01:00.0/local_cpulist": {Data: []byte(list)},
			"sys/bus/pci/devices/0000:01:00.0/numa_node":     {Data: []byte(node)},
		}}
	}
	for list, want := range map[string][]int{
		"0-2,7\n": {0, 1, 2, 7}, "5": {5}, "": nil, "x": nil, "3-": nil, "0-99999999": nil,
		"-1": nil, "2-1": nil,
	} {
		if got := at(list, "").cpus("0000:01:00.0"); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %v, want %v", list, got, want)
		}
	}
	for text, known := range map[string]bool{"0\n": true, "3": true, "-1\n": false, "": false,
		"one": false} {
		if got := at("", text).numaNode("0000:01:00.0"); (got != nil) != known {
			t.Errorf("%q: got %v", text, got)
		}
	}
}

func TestResult(t *testing.T) {
	if err := Success.err(); err != nil {
		t.Error(err)
	}
	for r, want := range map[Result]string{GPULost: "nvml: GPU is lost", 777: "nvml: error 777"} {
		if got := r.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
