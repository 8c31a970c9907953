//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func equalInt32(dst []bool, x []int32, v int32) {
	whole := 0
	switch cpuinfo.Current() {
	case cpuinfo.AVX512:
		whole = len(dst) &^ 15
		equalInt32AVX512(dst[:whole], x, v)
	case cpuinfo.AVX2:
		whole = len(dst) &^ 7
		equalInt32AVX2(dst[:whole], x, v)
	}
	equalInt32Ref(dst[whole:], x[whole:], v)
}

// equalInt32AVX512 computes what equalInt32Ref does, for whole vectors.
//
//go:noescape
func equalInt32AVX512(dst []bool, x []int32, v int32)

// equalInt32AVX2 computes what equalInt32Ref does, for whole vectors.
//
//go:noescape
func equalInt32AVX2(dst []bool, x []int32, v int32)
