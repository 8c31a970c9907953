//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func interleave(dst []uint32, x []byte, stride int, flip uint32) {
	for cpuinfo.HasNEON() && len(dst) >= 16 {
		n := min(len(dst)&^15, block)
		interleaveNEON(&dst[0], &x[0], stride, n, flip)
		dst, x = dst[n:], x[n:]
	}
	interleaveRef(dst, x, stride, flip)
}
