package cpuinfo

import (
	"encoding/binary"

	"golang.org/x/sys/unix"
)

func readModelName() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}

func readCacheSizes() Caches { return sysctlCaches(sysctl) }

func readCoreKinds() []CoreKind { return sysctlKinds(sysctl) }

// sysctl returns a number of the system's, of 32 or 64 bits as it has it, or 0 where it has none or
// one that is no size of a cache and no count.
func sysctl(name string) int {
	b, err := unix.SysctlRaw(name)
	if err != nil {
		return 0
	}
	var n uint64
	switch len(b) {
	case 4:
		n = uint64(binary.NativeEndian.Uint32(b))
	case 8:
		n = binary.NativeEndian.Uint64(b)
	}
	if n > 1<<40 {
		return 0
	}
	return int(n)
}
