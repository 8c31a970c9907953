//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func find(x []float32, v float32) int {
	switch cpuinfo.Current() {
	case cpuinfo.AVX512:
		return findAVX512(x, v)
	case cpuinfo.AVX2:
		return findAVX2(x, v)
	}
	return findRef(x, v)
}

// findAVX512 computes what findRef does.
//
//go:noescape
func findAVX512(x []float32, v float32) int

// findAVX2 computes what findRef does.
//
//go:noescape
func findAVX2(x []float32, v float32) int
