package cpu

import (
	"math"
	"reflect"
	"runtime"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/weirgpu/weir/device"
)

// machine makes a file system of names and texts.
func machine(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

const (
	mountV2 = "25 1 0:24 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
	mountV1 = "31 1 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw,mode=755\n" +
		"32 31 0:29 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n" +
		"33 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
)

var hosts = []struct {
	name    string
	files   map[string]string
	allowed []int
	online  int
	cores   int
	memory  int64
	built   int64 // memory that the machine has by another way than /proc
}{
	{name: "nothing told", online: 8, cores: 8},
	{name: "memory told in another way", online: 8, cores: 8, built: 1 << 34, memory: 1 << 34},
	{
		name:  "memory told in two ways",
		files: map[string]string{"proc/meminfo": "MemTotal: 1024 kB\n"}, online: 8, cores: 8,
		built: 1 << 34, memory: 1 << 20,
	},
	{name: "no processor told", cores: 1},
	{
		name:   "no control groups",
		files:  map[string]string{"proc/meminfo": "MemTotal:       24684000 kB\nMemFree: 1 kB\n"},
		online: 2, cores: 2, memory: 24684000 << 10,
	},
	{name: "affinity mask", online: 64, allowed: []int{3, 5, 8}, cores: 3},
	{
		name: "version 2, limits in the group and above it",
		files: map[string]string{
			"proc/meminfo":                       "MemTotal: 16777216 kB\n",
			"proc/self/mountinfo":                mountV2,
			"proc/self/cgroup":                   "0::/jobs/one\n",
			"sys/fs/cgroup/jobs/one/cpu.max":     "350000 100000\n",
			"sys/fs/cgroup/jobs/one/memory.max":  "max\n",
			"sys/fs/cgroup/jobs/cpu.max":         "max 100000\n",
			"sys/fs/cgroup/jobs/memory.max":      "1073741824\n",
			"sys/fs/cgroup/elsewhere/memory.max": "1\n",
		},
		online: 16, cores: 4, memory: 1 << 30,
	},
	{
		name: "version 2 in a container that shows the host's path",
		files: map[string]string{
			"proc/self/mountinfo":      mountV2,
			"proc/self/cgroup":         "0::/../../kubepods/pod7/c1\n",
			"sys/fs/cgroup/cpu.max":    "50000 100000\n",
			"sys/fs/cgroup/memory.max": "536870912\n",
		},
		online: 16, cores: 1, memory: 512 << 20,
	},
	{
		name: "version 2 mounted from a group",
		files: map[string]string{
			"proc/self/mountinfo": "25 1 0:24 /pod7 /sys/fs/cgroup rw - " +
				"cgroup2 cgroup2 rw\n",
			"proc/self/cgroup":               "0::/pod7/c1\n",
			"sys/fs/cgroup/c1/cpu.max":       "200000 100000\n",
			"sys/fs/cgroup/pod7/c1/cpu.max":  "1 100000\n",
			"sys/fs/cgroup/c1/memory.max":    "garbage\n",
			"sys/fs/cgroup/c1/memory.high":   "7\n",
			"sys/fs/cgroup/c1/cpu.max.burst": "0\n",
		},
		online: 16, cores: 2,
	},
	{
		name: "version 1",
		files: map[string]string{
			"proc/meminfo":        "MemTotal: 16777216 kB\n",
			"proc/self/mountinfo": mountV1,
			"proc/self/cgroup":    "4:memory:/box\n2:cpu,cpuacct:/box\n0::/\n",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_quota_us":  "150000\n",
			"sys/fs/cgroup/cpu,cpuacct/box/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":      "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us":     "100000\n",
			"sys/fs/cgroup/memory/box/memory.limit_in_bytes":  "9223372036854771712\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":      "2147483648\n",
		},
		allowed: []int{0, 1, 2, 3}, online: 4, cores: 2, memory: 2 << 30,
	},
	{
		name: "version 1 without limits",
		files: map[string]string{
			"proc/meminfo":        "MemTotal: 16777216 kB\n",
			"proc/self/mountinfo": mountV1,
			"proc/self/cgroup":    "4:memory:/\n2:cpu,cpuacct:/\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  "-1\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":  "9223372036854771712\n",
		},
		online: 4, cores: 4, memory: 16 << 30,
	},
}

func TestHostLimits(t *testing.T) {
	for _, c := range hosts {
		t.Run(c.name, func(t *testing.T) {
			h := host{root: machine(c.files), allowed: c.allowed, online: c.online,
				memory: c.built}
			if got := h.cores(); got != c.cores {
				t.Errorf("cores = %d, want %d", got, c.cores)
			}
			if got := h.usable(); got != c.memory {
				t.Errorf("memory = %d, want %d", got, c.memory)
			}
		})
	}
}

func TestNUMANodes(t *testing.T) {
	h := host{
		root: machine(map[string]string{
			"sys/devices/system/node/node10/cpulist": "8-9\n",
			"sys/devices/system/node/node10/meminfo": "Node 10 MemTotal:  2048 kB\n" +
				"Node 10 MemFree: 1 kB\n",
			"sys/devices/system/node/node0/cpulist": "0-3,6\n",
			"sys/devices/system/node/node0/meminfo": "Node 0 MemTotal:  1024 kB\n",
			"sys/devices/system/node/node2/cpulist": "\n", // memory without processors
			"sys/devices/system/node/node2/meminfo": "Node 2 MemTotal:  512 kB\n",
			"sys/devices/system/node/node3/cpulist": "4-5\n", // nothing this process may use
			"sys/devices/system/node/online":        "0,2,3,10\n",
			"sys/devices/system/node/nodes/cpulist": "0\n",
		}),
		allowed: []int{0, 2, 6, 8, 9},
	}
	want := []device.NUMANode{
		{ID: 0, CPUs: []int{0, 2, 6}, MemoryBytes: 1 << 20},
		{ID: 2, CPUs: []int{}, MemoryBytes: 512 << 10},
		{ID: 10, CPUs: []int{8, 9}, MemoryBytes: 2 << 20},
	}
	if got := h.numaNodes(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestFeatures(t *testing.T) {
	for text, want := range map[string][]string{
		"processor: 0\nflags\t\t: fpu avx512f fma avx2 sse\n\nflags: sve\n": {"avx2", "avx512f",
			"fma"},
		"Features\t: fp asimd i8mm bf16\n": {"asimd", "bf16",
			"i8mm"},
		"": nil,
	} {
		h := host{root: machine(map[string]string{"proc/cpuinfo": text})}
		if got := h.features(); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func TestMeminfo(t *testing.T) {
	for text, want := range map[string]int64{
		"MemTotal: 3 kB\n":                   3 << 10,
		"MemTotal: 3 MB\n":                   0,
		"MemTotal:\n":                        0,
		"MemTotal: -3 kB\n":                  0,
		"MemTotal: 9223372036854775807 kB\n": 0,
		"MemFree: 3 kB\n":                    0,
	} {
		if got := meminfo(text, "MemTotal:"); got != want {
			t.Errorf("%q: %d, want %d", text, got, want)
		}
	}
}

// TestDiscover looks at the machine the test runs on.
func TestDiscover(t *testing.T) {
	info := Discover()
	if info.ID != "cpu:0" || info.Kind != device.CPU || info.Name == "" || info.Units < 1 ||
		info.Units > runtime.NumCPU() {
		t.Errorf("%+v", info)
	}
	if runtime.GOOS == "linux" {
		if info.MemoryBytes < 16<<20 || len(info.CPUs) < info.Units || !slices.IsSorted(info.CPUs) {
			t.Errorf("%+v", info)
		}
	}
}

func TestReserveProcs(t *testing.T) {
	before := runtime.GOMAXPROCS(0)
	defer runtime.GOMAXPROCS(before)
	t.Setenv("GOMAXPROCS", "")
	runtime.GOMAXPROCS(1)
	if got, want := ReserveProcs(2), Cores()+2; got != want || runtime.GOMAXPROCS(0) != want {
		t.Errorf("ReserveProcs(2) = %d, GOMAXPROCS = %d, want %d", got, runtime.GOMAXPROCS(0), want)
	}
	if got := ReserveProcs(math.MinInt); got != Cores()+2 {
		t.Errorf("lowered to %d", got)
	}
	t.Setenv("GOMAXPROCS", "1")
	runtime.GOMAXPROCS(1)
	if got := ReserveProcs(2); got != 1 {
		t.Errorf("the environment's 1 became %d", got)
	}
}

func TestParseCPUList(t *testing.T) {
	for text, want := range map[string][]int{
		"0-3,8,10-11\n": {0, 1, 2, 3, 8, 10, 11},
		"5\n":           {5},
		"\n":            {},
		"3,1-2,2":       {1, 2, 3},
		"1-":            nil,
		"a":             nil,
		"-1":            nil,
		"0-99999999":    nil,
		"7-3":           {},
	} {
		if got := parseCPUList(text); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %v, want %v", text, got, want)
		}
	}
}

func FuzzParseCPUList(f *testing.F) {
	for _, s := range []string{"0-3,8,10-11\n", "", "0-65535,0-65535", "-", ",,", "65535"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		cpus := parseCPUList(text)
		for i, c := range cpus {
			if c < 0 || c >= maxCPU || i > 0 && cpus[i-1] >= c {
				t.Fatalf("%q: %v", text, cpus)
			}
		}
	})
}

// FuzzLimits reads arbitrary control-group files: whatever they hold, there is a core to use and no
// negative memory.
func FuzzLimits(f *testing.F) {
	f.Add(mountV2, "0::/a\n", "50000 100000\n", "1073741824\n")
	f.Add(mountV1, "4:memory:/\n2:cpu,cpuacct:/\n", "-1\n", "9223372036854771712\n")
	f.Add("- - - - - - - cgroup2 x rw", "0::", "1e308 1e-300", "-9")
	f.Fuzz(func(t *testing.T, mounts, groups, quota, limit string) {
		h := host{online: 4, root: machine(map[string]string{
			"proc/self/mountinfo":                         mounts,
			"proc/self/cgroup":                            groups,
			"sys/fs/cgroup/cpu.max":                       quota,
			"sys/fs/cgroup/memory.max":                    limit,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  quota,
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":  limit,
		})}
		if c := h.cores(); c < 1 || c > 4 {
			t.Errorf("%d cores", c)
		}
		if m := h.usable(); m < 0 {
			t.Errorf("%d bytes", m)
		}
	})
}
