package cpuinfo

import "golang.org/x/sys/unix"

func readModelName() string {
	name, err := unix.Sysctl("machdep.cpu.brand_string")
	if err != nil {
		return ""
	}
	return name
}

func readCacheSizes() Caches {
	size := func(name string) int {
		n, err := unix.SysctlUint64(name)
		if err != nil || n > 1<<40 {
			return 0
		}
		return int(n)
	}
	return Caches{
		L1D: size("hw.l1dcachesize"),
		L2:  size("hw.l2cachesize"),
		L3:  size("hw.l3cachesize"),
	}
}
