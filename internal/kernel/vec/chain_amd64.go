//go:build !noasm

package vec

import (
	"slices"

	"github.com/weirgpu/weir/internal/cpuinfo"
)

// chainLanes is how many elements are in registers from the first link to the last.
const chainLanes = 64

// chainBlocks computes whole vectors from the beginning, and returns how many elements these are.
func chainBlocks(dst, x []float32, links []Link) int {
	if cpuinfo.Current() != cpuinfo.AVX512 || len(links) == 0 ||
		slices.ContainsFunc(links, func(l Link) bool { return l.step >= stepPlain }) {
		return 0
	}
	whole := len(dst) &^ (chainLanes - 1)
	for at := 0; at < whole; at += block {
		chainAVX512(&dst[at], &x[at], min(block, whole-at), &links[0], len(links))
	}
	return whole
}

// chainAVX512 computes the links of n elements, a multiple of chainLanes and not 0.
//
//go:noescape
func chainAVX512(dst, x *float32, n int, links *Link, count int)
