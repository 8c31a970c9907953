package cpuinfo

import "os"

// systemFeatures asks the kernel, by the auxiliary vector that it gave the process. Where that
// cannot be read there are none.
func systemFeatures() armFeatures {
	vector, err := os.ReadFile("/proc/self/auxv")
	if err != nil {
		return armFeatures{}
	}
	return auxFeatures(vector)
}
