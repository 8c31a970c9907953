package cpu

import (
	"cmp"
	"io/fs"
	"math"
	"os"
	"runtime"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/cpuinfo"
)

// Discover describes the processors and the memory this process may use, as the device "cpu:0".
// What the system does not tell is left zero; Units is at least 1.
func Discover() device.Info {
	h := thisHost()
	return device.Info{
		ID:          "cpu:0",
		Kind:        device.CPU,
		Name:        cpuinfo.ModelName(),
		MemoryBytes: h.usable(),
		Units:       h.cores(),
		CPUs:        h.allowed,
		NUMA:        h.numaNodes(),
		Features:    h.features(),
	}
}

// Cores returns how many cores this process may keep busy: the processors of its affinity mask, or
// fewer if a control group grants less time (a grant of 1.5 cores counts as 2). It is at least 1.
func Cores() int { return thisHost().cores() }

// Limits are what control groups grant this process; 0 where they do not limit it.
type Limits struct {
	Cores       float64 // of processor time, as in 1.5
	MemoryBytes int64
}

// ControlGroups returns the limits of the control groups that this process is in.
func ControlGroups() Limits {
	var l Limits
	h := thisHost()
	l.Cores, _ = h.cpuQuota()
	l.MemoryBytes, _ = h.memoryLimit()
	return l
}

// ReserveProcs gives the Go scheduler extra processors beyond [Cores], so that goroutines which
// serve requests and timers run while workers of a [Pool] hold as many processors as there are
// cores; 2 is a sound number. It never lowers GOMAXPROCS, and leaves it alone if the environment
// variable of that name is set. Call it once at start: it stops the world for a moment, and it ends
// the Go runtime's own adjustment to changing limits. It returns GOMAXPROCS as it is then.
func ReserveProcs(extra int) int {
	now := runtime.GOMAXPROCS(0)
	if want := Cores() + max(extra, 0); want > now && os.Getenv("GOMAXPROCS") == "" {
		runtime.GOMAXPROCS(want)
		return want
	}
	return now
}

// host is a machine as a process sees it: the files under its root and the processors allowed.
type host struct {
	root    fs.FS // /proc and /sys, without the leading slash
	allowed []int // affinity mask; nil if not known
	online  int   // processors there are
	memory  int64 // of the machine where /proc/meminfo does not say; 0 if not known
}

func thisHost() host {
	return host{root: os.DirFS("/"), allowed: allowedCPUs(), online: runtime.NumCPU(),
		memory: installedMemory()}
}

func (h host) cores() int {
	n := float64(h.online)
	if len(h.allowed) > 0 {
		n = float64(len(h.allowed))
	}
	if quota, ok := h.cpuQuota(); ok {
		n = min(n, math.Ceil(quota))
	}
	return max(1, int(n))
}

// usable returns the least of the machine's memory and the control groups' limits.
func (h host) usable() int64 {
	total := cmp.Or(meminfo(h.read("proc/meminfo"), "MemTotal:"), h.memory)
	if limit, ok := h.memoryLimit(); ok && (total == 0 || limit < total) {
		return limit
	}
	return total
}

// features returns the processor's flags that kernels choose by.
func (h host) features() []string {
	known := []string{
		"amx_bf16",
		"amx_int8",
		"amx_tile",
		"asimd",
		"asimddp",
		"avx",
		"avx2",
		"avx512_bf16",
		"avx512_fp16",
		"avx512_vnni",
		"avx512bw",
		"avx512f",
		"avx512vbmi",
		"avx512vl",
		"avx_vnni",
		"bf16",
		"f16c",
		"fma",
		"i8mm",
		"sve",
		"sve2",
	}
	has := map[string]bool{}
	for line := range strings.Lines(h.read("proc/cpuinfo")) {
		key, flags, _ := strings.Cut(line, ":")
		if key = strings.TrimSpace(key); key == "flags" || key == "Features" {
			for _, f := range strings.Fields(flags) {
				has[f] = true
			}
			break
		}
	}
	var found []string
	for _, f := range known {
		if has[f] {
			found = append(found, f)
		}
	}
	return found
}

// read returns a file's text, or "" if it cannot be read: what a system does not tell is not known.
func (h host) read(name string) string {
	b, err := fs.ReadFile(h.root, name)
	if err != nil {
		return ""
	}
	return string(b)
}

// meminfo returns a quantity from text in the form of /proc/meminfo, in bytes, or 0. The key may
// stand anywhere in the line, as it does in the files of NUMA nodes.
func meminfo(text, key string) int64 {
	for line := range strings.Lines(text) {
		_, rest, ok := strings.Cut(line, key)
		if !ok {
			continue
		}
		f := strings.Fields(rest)
		if len(f) != 2 || f[1] != "kB" {
			return 0
		}
		kib, err := strconv.ParseInt(f[0], 10, 64)
		if err != nil || kib < 0 || kib > math.MaxInt64>>10 {
			return 0
		}
		return kib << 10
	}
	return 0
}
