//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func joinWords(dst []float32, x []int32, add int32, scale, bias float32) {
	for len(dst) > 0 {
		n, whole := min(len(dst), block), 0
		if cpuinfo.HasAVX2FMA() {
			if whole = n &^ 7; whole > 0 {
				joinWordsAVX2(&dst[0], &x[0], whole, add, scale, bias)
			}
		}
		joinWordsRef(dst[whole:n], x[2*whole:2*n], add, scale, bias)
		dst, x = dst[n:], x[2*n:]
	}
}

// joinWordsAVX2 does what joinWordsRef does for n numbers, a multiple of 8 and not 0.
//
//go:noescape
func joinWordsAVX2(dst *float32, x *int32, n int, add int32, scale, bias float32)
