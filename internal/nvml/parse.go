package nvml

import (
	"bytes"
	"fmt"
	"strconv"
	"strings"
)

// ownLimitSince is the first driver branch that can limit the memory of a set of processes by
// itself (nvmlDeviceSetMemoryLimits_v1, on control groups).
const ownLimitSince = 615

// NoMemoryLimit is NVML_DEVICE_MEMORY_LIMIT_MAX, where a group has no limit of its memory.
const NoMemoryLimit = 1<<64 - 1

// text returns the characters before the first zero byte.
func text(b []byte) string {
	if end := bytes.IndexByte(b, 0); end >= 0 {
		b = b[:end]
	}
	return strings.ToValidUTF8(string(b), "?")
}

// branch returns the number before the first dot of a driver's version, 0 when there is none.
func branch(version string) int {
	major, _, _ := strings.Cut(version, ".")
	n, err := strconv.Atoi(major)
	if err != nil {
		return 0
	}
	return n
}

// cudaVersion spells 12080 as "12.8": major * 1000 + minor * 10, as
// nvmlSystemGetCudaDriverVersion_v2 tells it.
func cudaVersion(n int32) string {
	if n <= 0 {
		return ""
	}
	return fmt.Sprintf("%d.%d", n/1000, n%1000/10)
}

// coresPerMultiprocessor returns how many FP32 cores one multiprocessor has: CUDA C++ Programming
// Guide, "Compute Capabilities", arithmetic instructions. It returns 0 for a capability that the
// table does not know.
func coresPerMultiprocessor(major, minor int32) int {
	switch {
	case major == 3:
		return 192
	case major == 5, major == 6 && minor != 0:
		return 128
	case major == 6, major == 7, major == 8 && minor == 0:
		return 64
	case major >= 8 && major <= 12:
		return 128
	}
	return 0
}

// busName spells a place on the bus as Linux does in /sys/bus/pci/devices.
func busName(domain, bus, dev uint32) string {
	return fmt.Sprintf("%04x:%02x:%02x.0", domain, bus, dev)
}

// profile returns the size of an instance in NVIDIA's spelling. The name of an instance ends in it
// ("NVIDIA H100 80GB HBM3 MIG 1g.10gb"); where the driver gives no such name it is made from the
// attributes.
func profile(name string, a *attributes) string {
	if _, p, ok := strings.Cut(name, " MIG "); ok {
		return p
	}
	if a.GPUSlices == 0 {
		return ""
	}
	gib := (a.MemoryMiB + 1023) / 1024
	if a.ComputeSlices != 0 && a.ComputeSlices != a.GPUSlices {
		return fmt.Sprintf("%dc.%dg.%dgb", a.ComputeSlices, a.GPUSlices, gib)
	}
	return fmt.Sprintf("%dg.%dgb", a.GPUSlices, gib)
}

// bits returns the numbers of the set bits, ascending.
func bits(words []uint64) (numbers []int) {
	for i, w := range words {
		for b := range 64 {
			if w>>b&1 != 0 {
				numbers = append(numbers, i*64+b)
			}
		}
	}
	return numbers
}
