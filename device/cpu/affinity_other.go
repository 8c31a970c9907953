//go:build !linux

package cpu

// allowedCPUs returns nil: the affinity mask is not to be had here.
func allowedCPUs() []int { return nil }

// pinThread does nothing: threads cannot be pinned here.
func pinThread(int) {}
