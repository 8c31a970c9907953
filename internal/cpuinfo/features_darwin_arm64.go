package cpuinfo

import "golang.org/x/sys/unix"

// systemFeatures asks sysctl. A name that the system does not know is a feature that it lacks.
func systemFeatures() armFeatures {
	has := func(feature string) bool {
		n, err := unix.SysctlUint32("hw.optional.arm.FEAT_" + feature)
		return err == nil && n == 1
	}
	return armFeatures{dot: has("DotProd"), i8mm: has("I8MM"), bf16: has("BF16")}
}

// guarded runs f.
func guarded(f func()) error {
	f()
	return nil
}
