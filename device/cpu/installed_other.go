//go:build !darwin

package cpu

// installedMemory returns 0: what /proc/meminfo does not say is not to be had here.
func installedMemory() int64 { return 0 }
