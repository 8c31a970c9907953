package nvml

import (
	"io/fs"
	"strconv"
	"strings"
)

// host reads what Linux tells of a place on the bus:
// Documentation/ABI/testing/sysfs-bus-pci.
type host struct {
	root fs.FS // the machine's root folder
}

func (h host) read(bus, file string) string {
	b, err := fs.ReadFile(h.root, "sys/bus/pci/devices/"+bus+"/"+file)
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}

// numaNode returns the memory node of a place; nil when it is not known, which the system writes as
// -1.
func (h host) numaNode(bus string) *int {
	n, err := strconv.Atoi(h.read(bus, "numa_node"))
	if err != nil || n < 0 {
		return nil
	}
	return &n
}

// cpus returns the processors near to a place, nil when they are not known.
func (h host) cpus(bus string) (cpus []int) {
	const most = 1 << 16
	for part := range strings.SplitSeq(h.read(bus, "local_cpulist"), ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		lo, errLo := strconv.Atoi(first)
		hi, errHi := strconv.Atoi(last)
		if errLo != nil || errHi != nil || lo < 0 || hi >= most || len(cpus) > most {
			return nil
		}
		for c := lo; c <= hi; c++ {
			cpus = append(cpus, c)
		}
	}
	return cpus
}
