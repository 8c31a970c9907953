//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

func nibbleRows(dst []float32, x []byte, rows int, zero, scale []float32) {
	w := len(scale)
	level := pairs(w)
	if level == cpuinfo.Baseline {
		nibbleRowsRef(dst, x, zero, scale)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		if n := min(maxRowsCall, rows-i); level == cpuinfo.AVX512 {
			nibbleRowsAVX512(&dst[i*w], &x[i*w/2], n, &zero[0], &scale[0])
		} else {
			nibbleRowsAVX2(&dst[i*w], &x[i*w/2], n, &zero[0], &scale[0])
		}
	}
}

// nibbleRowsAVX512 does what nibbleRowsRef does for rows of 32 elements, at least one.
//
//go:noescape
func nibbleRowsAVX512(dst *float32, q *byte, rows int, zero, scale *float32)

// nibbleRowsAVX2 does what nibbleRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func nibbleRowsAVX2(dst *float32, q *byte, rows int, zero, scale *float32)
