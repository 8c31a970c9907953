//go:build !linux

package cpu

// allowedCPUs returns nil: the affinity mask is not to be had here.
func allowedCPUs() []int { return nil }

// pinThread does nothing: threads cannot be pinned here.
func pinThread([]int) {}

// affinity stands for a mask that is not to be had.
type affinity struct{}

func newAffinity() affinity { return affinity{} }
func threadMask() affinity  { return affinity{} }
func (affinity) restore()   {}
