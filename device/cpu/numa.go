package cpu

import (
	"cmp"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/weirgpu/weir/device"
	"github.com/weirgpu/weir/internal/sorting"
)

// maxCPU bounds processor numbers read from files; Linux supports 8192.
const maxCPU = 1 << 16

// numaNodes returns the memory nodes, ascending, without those that have neither memory nor a
// processor the process may use. The files are those of Linux,
// Documentation/ABI/stable/sysfs-devices-node.
func (h host) numaNodes() (nodes []device.NUMANode) {
	const dir = "sys/devices/system/node"
	entries, err := fs.ReadDir(h.root, dir)
	if err != nil {
		return nil
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "node")
		if !ok {
			continue
		}
		id, err := strconv.Atoi(number)
		if err != nil {
			continue
		}
		n := device.NUMANode{
			ID:          id,
			CPUs:        h.mine(parseCPUList(h.read(path.Join(dir, e.Name(), "cpulist")))),
			MemoryBytes: meminfo(h.read(path.Join(dir, e.Name(), "meminfo")), "MemTotal:"),
		}
		if len(n.CPUs) > 0 || n.MemoryBytes > 0 {
			nodes = append(nodes, n)
		}
	}
	sorting.By(nodes, func(a, b device.NUMANode) int { return cmp.Compare(a.ID, b.ID) })
	return nodes
}

// mine keeps the processors that the process may run on.
func (h host) mine(cpus []int) []int {
	if h.allowed == nil {
		return cpus
	}
	return slices.DeleteFunc(cpus, func(c int) bool {
		_, ok := slices.BinarySearch(h.allowed, c)
		return !ok
	})
}

// parseCPUList reads a list like "0-3,8,10-11" into ascending numbers without duplicates. It
// returns nil for text in another form.
func parseCPUList(text string) []int {
	cpus := []int{}
	for part := range strings.SplitSeq(strings.TrimSpace(text), ",") {
		if part == "" {
			continue
		}
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.ParseUint(first, 10, 16)
		hi, errHi := strconv.ParseUint(last, 10, 16)
		if errLo != nil || errHi != nil || hi >= maxCPU || len(cpus) > maxCPU {
			return nil
		}
		for c := lo; c <= hi; c++ {
			cpus = append(cpus, int(c))
		}
	}
	slices.Sort(cpus)
	return slices.Compact(cpus)
}
