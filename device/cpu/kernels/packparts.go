package kernels

import "github.com/weirgpu/weir/device/compute"

// partBytes is about the size of a part, which takes a core some 100 us: large against what
// claiming it costs, and as long as a lease that is asked back should wait for at most.
const partBytes = 128 << 10

// partsOf is the number of parts of a copy that consists of so many panels.
func partsOf(bytes, panels int) int { return max(1, min(bytes/partBytes, panels)) }

// packParts is Pack by way of the parts.
func packParts(k compute.Parted, dst []byte) {
	n, scratch := k.PackParts()
	mem := make([]float32, scratch)
	for i := range n {
		k.PackPart(dst, i, mem)
	}
}
