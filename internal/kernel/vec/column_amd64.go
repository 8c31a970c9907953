//go:build !noasm

package vec

import "github.com/weirgpu/weir/internal/cpuinfo"

// maxRowsCall bounds the rows of one call of assembly to some microseconds.
const maxRowsCall = 512

// pairs is the instruction set of which two vectors are w wide, Baseline for none.
func pairs(w int) cpuinfo.Level {
	switch level := cpuinfo.Current(); {
	case level == cpuinfo.AVX512 && w == 32, level == cpuinfo.AVX2 && w == 16:
		return level
	}
	return cpuinfo.Baseline
}

func maxRows(x []float32, rows int, peak []float32) {
	w := len(peak)
	level := pairs(w)
	if level == cpuinfo.Baseline {
		maxRowsRef(x, peak)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		if n := min(maxRowsCall, rows-i); level == cpuinfo.AVX512 {
			maxRowsAVX512(&x[i*w], n, &peak[0])
		} else {
			maxRowsAVX2(&x[i*w], n, &peak[0])
		}
	}
}

func expRows(x []float32, rows int, shift, sum []float32) {
	w := len(shift)
	level := pairs(w)
	if level == cpuinfo.Baseline {
		expRowsRef(x, shift, sum)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		if n := min(maxRowsCall, rows-i); level == cpuinfo.AVX512 {
			expRowsAVX512(&x[i*w], n, &shift[0], &sum[0])
		} else {
			expRowsAVX2(&x[i*w], n, &shift[0], &sum[0])
		}
	}
}

func mulRows(x []float32, rows int, v []float32) {
	w := len(v)
	level := pairs(w)
	if level == cpuinfo.Baseline {
		mulRowsRef(x, v)
		return
	}
	for i := 0; i < rows; i += maxRowsCall {
		if n := min(maxRowsCall, rows-i); level == cpuinfo.AVX512 {
			mulRowsAVX512(&x[i*w], n, &v[0])
		} else {
			mulRowsAVX2(&x[i*w], n, &v[0])
		}
	}
}

// maxRowsAVX512 does what maxRowsRef does for rows of 32 elements, at least one.
//
//go:noescape
func maxRowsAVX512(x *float32, rows int, v *float32)

// maxRowsAVX2 does what maxRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func maxRowsAVX2(x *float32, rows int, v *float32)

// expRowsAVX512 does what expRowsRef does for rows of 32 elements, at least one.
//
//go:noescape
func expRowsAVX512(x *float32, rows int, v, sum *float32)

// expRowsAVX2 does what expRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func expRowsAVX2(x *float32, rows int, v, sum *float32)

// mulRowsAVX512 does what mulRowsRef does for rows of 32 elements, at least one.
//
//go:noescape
func mulRowsAVX512(x *float32, rows int, v *float32)

// mulRowsAVX2 does what mulRowsRef does for rows of 16 elements, at least one.
//
//go:noescape
func mulRowsAVX2(x *float32, rows int, v *float32)
