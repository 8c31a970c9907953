//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func interleave(dst []uint32, x []byte, stride int, flip uint32) {
	level := cpuinfo.Current()
	for len(dst) > 0 {
		n := min(len(dst), block)
		whole := 0
		switch level {
		case cpuinfo.AVX512:
			if whole = n &^ 15; whole > 0 {
				interleaveAVX512(&dst[0], &x[0], stride, whole, flip)
			}
		case cpuinfo.AVX2:
			if whole = n &^ 7; whole > 0 {
				interleaveAVX2(&dst[0], &x[0], stride, whole, flip)
			}
		}
		interleaveRef(dst[whole:n], x[whole:], stride, flip)
		dst, x = dst[n:], x[n:]
	}
}

// interleaveAVX512 does what interleaveRef does for n words, a multiple of 16 and not 0.
//
//go:noescape
func interleaveAVX512(dst *uint32, x *byte, stride, n int, flip uint32)

// interleaveAVX2 does what interleaveRef does for n words, a multiple of 8 and not 0.
//
//go:noescape
func interleaveAVX2(dst *uint32, x *byte, stride, n int, flip uint32)
